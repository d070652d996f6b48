"""The `ray start` command and the environment that KubeRay puts into Ray containers."""

from __future__ import annotations

import json

from kai_ray.api import quantity
from kai_ray.cluster.port import Object

from .podset import add_env, add_missing_env, field_env

KUBERAY_VERSION = "v1.6.2"
GCS_PORT = "6379"
DASHBOARD_PORT = 8265
METRICS_PORT = 8080
SERVE_PORT = 8000
AGENT_PORT = 52365
SHELL = ["/bin/bash", "-c", "--"]
#: Device-plugin resources that Ray knows under a name of its own.
RAY_NAMES = {"aws.amazon.com/neuroncore": "neuron_cores", "google.com/tpu": "TPU"}
#: Options whose value may be the word true or false.
_WORD_OPTIONS = {"log-color", "include-dashboard"}


def head_port(params: dict[str, str]) -> str:
    return params.get("port", GCS_PORT)


def complete_params(
    params: dict[str, str], container: Object, *, head: bool, address: str
) -> dict[str, str]:
    """The user's rayStartParams with everything KubeRay fills in."""
    out = dict(params)
    if head:
        out.setdefault("dashboard-host", "0.0.0.0")
    else:
        out.setdefault("address", address)
    out.setdefault("metrics-export-port", str(METRICS_PORT))
    out["block"] = "true"
    out.setdefault("dashboard-agent-listen-port", str(AGENT_PORT))
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    cpu = limits.get("cpu") or (resources.get("requests") or {}).get("cpu")
    if cpu is not None and quantity.whole(cpu):
        out.setdefault("num-cpus", str(quantity.whole(cpu)))
    memory = limits.get("memory")
    if memory is not None and quantity.whole(memory):
        out.setdefault("memory", str(quantity.whole(memory)))
    _add_accelerators(out, limits)
    return out


def _add_accelerators(params: dict[str, str], limits: dict[str, str]) -> None:
    text = params.get("resources", "").strip("'\"` ")
    try:
        custom: dict[str, float] = json.loads(text) if text else {}
    except ValueError:
        return
    known = any(name in custom for name in RAY_NAMES.values())
    for resource in sorted(limits):
        amount = quantity.whole(limits[resource])
        if not amount:
            continue
        if _is_gpu(resource):
            params.setdefault("num-gpus", str(amount))
        if resource in RAY_NAMES and not known:
            custom.setdefault(RAY_NAMES[resource], amount)
            params["resources"] = "'" + json.dumps(custom, separators=(",", ":")) + "'"
            known = True


def _is_gpu(resource: str) -> bool:
    return resource.endswith("gpu") or resource.startswith("nvidia.com/mig-")


def ray_start(params: dict[str, str], *, head: bool) -> str:
    flags = ""
    for option in sorted(params):
        value = params[option]
        if value.lower() in ("true", "false") and option not in _WORD_OPTIONS:
            if value.lower() == "true":
                flags += f" --{option} "
        else:
            flags += f" --{option}={value} "
    return ("ray start --head " if head else "ray start ") + flags


def set_command(container: Object, start: str, *, overwrite: bool) -> None:
    """Wraps the user's command around `ray start`, unless it runs that itself."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    own = "".join(f" {w} " for w in words)
    if overwrite or "ray start" in own:
        return
    generated = f"ulimit -n 65536; {start}"
    container["command"] = list(SHELL)
    container["args"] = [f"{own} && {generated}" if own else generated]


def set_environment(
    container: Object, *, head: bool, fqdn: str, port: str, start: str, creator: str
) -> None:
    ip = "127.0.0.1"
    if not head:
        ip = fqdn
        add_env(container, ("FQ_RAY_IP", fqdn), ("RAY_IP", fqdn.split(".")[0]))
    container.setdefault("env", []).extend(
        [
            field_env("RAY_CLUSTER_NAME", "metadata.labels['ray.io/cluster']"),
            field_env("RAY_CLUSTER_NAMESPACE", "metadata.namespace"),
            field_env("RAY_CLOUD_INSTANCE_ID", "metadata.name"),
            field_env("RAY_NODE_TYPE_NAME", "metadata.labels['ray.io/group']"),
        ]
    )
    add_env(container, ("KUBERAY_GEN_RAY_START_CMD", start))
    add_missing_env(container, ("RAY_PORT", port))
    if creator == "RayService":
        add_missing_env(
            container,
            ("RAY_timeout_ms_task_wait_for_death_info", "0"),
            ("RAY_gcs_server_request_timeout_seconds", "5"),
            ("RAY_SERVE_KV_TIMEOUT_S", "5"),
        )
    add_missing_env(container, ("RAY_ADDRESS", f"{ip}:{port}"))
    add_missing_env(container, ("RAY_USAGE_STATS_KUBERAY_IN_USE", "1"))
    if head:
        tags = f"kuberay_version={KUBERAY_VERSION};kuberay_crd={creator}"
        add_env(container, ("RAY_USAGE_STATS_EXTRA_TAGS", tags))
    add_missing_env(container, ("RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE", "1"))


def _wget(timeout: int, port: int, path: str) -> str:
    return f"wget --tries 1 -T {timeout} -q -O- http://localhost:{port}/{path} | grep success"


def set_probes(
    container: Object, params: dict[str, str], *, head: bool, creator: str, ray_version: str
) -> None:
    """Liveness and readiness as KubeRay sets them where the user has none."""
    agent = _port(params, "dashboard-agent-listen-port", AGENT_PORT)
    checks = [_wget(2, agent, "api/local_raylet_healthz")]
    if head:
        dashboard = _port(params, "dashboard-port", DASHBOARD_PORT)
        checks.append(_wget(10, dashboard, "api/gcs_healthz"))
    over_http = _version(ray_version) >= (2, 53, 0)

    def check() -> Object:
        if over_http:
            return {"httpGet": {"path": "/api/healthz", "port": agent}}
        return {"exec": {"command": ["bash", "-c", " && ".join(checks)]}}

    common = {"periodSeconds": 5, "successThreshold": 1}
    if not container.get("livenessProbe"):
        container["livenessProbe"] = {
            "initialDelaySeconds": 30,
            "timeoutSeconds": 5 if head else 2,
            "failureThreshold": 120,
            **common,
            **check(),
        }
    if not container.get("readinessProbe"):
        probe: Object = {
            "initialDelaySeconds": 10,
            "timeoutSeconds": 5 if head else 2,
            "failureThreshold": 10,
            **common,
            **check(),
        }
        if creator == "RayService" and not head:
            probe.pop("httpGet", None)
            probe["failureThreshold"] = 1
            checks.append(_wget(10, _serve_port(container), "-/healthz"))
            probe["exec"] = {"command": ["bash", "-c", " && ".join(checks)]}
        container["readinessProbe"] = probe


def _serve_port(container: Object) -> int:
    for port in container.get("ports") or ():
        if port.get("name") == "serve":
            return port["containerPort"]
    return SERVE_PORT


def _port(params: dict[str, str], name: str, default: int) -> int:
    text = params.get(name, "")
    return int(text) if text.isdigit() else default


def _version(text: str) -> tuple[int, ...]:
    parts = text.split(".") if text else ()
    try:
        return tuple(int("".join(c for c in p if c.isdigit()) or 0) for p in parts[:3])
    except ValueError:
        return ()
