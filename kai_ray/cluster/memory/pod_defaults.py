"""What the API server fills into a pod's spec, or a template's."""

from __future__ import annotations

from typing import Any


def pod_spec(spec: Any) -> None:
    """Defaults of a pod's or a template's spec."""
    if not isinstance(spec, dict):
        return
    s: dict[str, Any] = spec
    s.setdefault("restartPolicy", "Always")
    s.setdefault("dnsPolicy", "ClusterFirst")
    if s.setdefault("terminationGracePeriodSeconds", 30) < 0:
        s["terminationGracePeriodSeconds"] = 1
    s.setdefault("schedulerName", "default-scheduler")
    s.setdefault("securityContext", {})
    for volume in s.get("volumes") or ():
        _volume(volume)
    for group in ("initContainers", "containers"):
        for c in s.get(group) or ():
            _container(c)


def _container(c: dict[str, Any]) -> None:
    c.setdefault("terminationMessagePath", "/dev/termination-log")
    c.setdefault("terminationMessagePolicy", "File")
    image = c.get("image")
    if isinstance(image, str):
        latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
        c.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    resources = c.setdefault("resources", {})
    for name in ("requests", "limits"):
        if name in resources:
            resources[name] = as_text(resources[name])
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(probe := c.get(name), dict):
            _probe(probe)
    for env in c.get("env") or ():
        source = env.get("valueFrom")
        field = source.get("fieldRef") if isinstance(source, dict) else None
        if isinstance(field, dict):
            field.setdefault("apiVersion", "v1")
    for port in c.get("ports") or () if isinstance(c.get("ports"), list) else ():
        if isinstance(port, dict):
            port.setdefault("protocol", "TCP")


def as_text(amounts: dict[str, Any]) -> dict[str, str]:
    """Quantities as the API shows them: numbers become text."""
    return {name: str(amount) for name, amount in amounts.items()}


def gated(pod: dict[str, Any], now: str) -> None:
    """A pod with scheduling gates says so from the start."""
    if (pod.get("spec") or {}).get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastTransitionTime": now,
            }
        ]


def _probe(probe: dict[str, Any]) -> None:
    for name, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        probe.setdefault(name, value)
    if isinstance(get := probe.get("httpGet"), dict):
        get.setdefault("path", "/")
        get.setdefault("scheme", "HTTP")


def _volume(volume: dict[str, Any]) -> None:
    for name in ("configMap", "secret", "projected", "downwardAPI"):
        if isinstance(source := volume.get(name), dict):
            source.setdefault("defaultMode", 0o644)
    if isinstance(path := volume.get("hostPath"), dict):
        path.setdefault("type", "")
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}


def request_limits(spec: Any) -> None:
    """A pod (not a template) requests what it is limited to, where it does not say."""
    for group in ("initContainers", "containers"):
        for c in (spec.get(group) or ()) if isinstance(spec, dict) else ():
            resources = c.get("resources") or {}
            if limits := resources.get("limits"):
                requests = resources.setdefault("requests", {})
                for name, amount in limits.items():
                    requests.setdefault(name, amount)


def tolerate_node_trouble(spec: dict[str, Any]) -> None:
    tolerations: Any = spec.setdefault("tolerations", [])
    if not isinstance(tolerations, list):
        return
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(
            isinstance(t, dict)
            and t.get("key") in (key, None, "")
            and t.get("effect") in ("NoExecute", None, "")
            for t in tolerations
        ):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            )


def quality_of_service(spec: Any) -> str:
    some, guaranteed = False, True
    for group in ("initContainers", "containers"):
        for c in (spec.get(group) or ()) if isinstance(spec, dict) else ():
            res: Any = c.get("resources") if isinstance(c, dict) else None
            res = res if isinstance(res, dict) else {}
            requests, limits = res.get("requests") or {}, res.get("limits") or {}
            for name in ("cpu", "memory"):
                some |= name in requests or name in limits
                guaranteed &= name in limits and requests.get(name) == limits.get(name)
    return "BestEffort" if not some else "Guaranteed" if guaranteed else "Burstable"
