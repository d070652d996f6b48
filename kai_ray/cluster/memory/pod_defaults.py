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
    for group in ("initContainers", "containers"):
        for c in s.get(group) or () if isinstance(s.get(group), list) else ():
            if isinstance(c, dict):
                _container(c)


def _container(c: dict[str, Any]) -> None:
    c.setdefault("terminationMessagePath", "/dev/termination-log")
    c.setdefault("terminationMessagePolicy", "File")
    image = c.get("image")
    if isinstance(image, str):
        latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
        c.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    resources = c.setdefault("resources", {})
    if isinstance(resources, dict) and isinstance(limits := resources.get("limits"), dict):
        requests: Any = resources.setdefault("requests", {})
        if isinstance(requests, dict):
            for name, amount in limits.items():
                requests.setdefault(name, amount)
    for port in c.get("ports") or () if isinstance(c.get("ports"), list) else ():
        if isinstance(port, dict):
            port.setdefault("protocol", "TCP")


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
