"""The head and worker pods of a RayCluster, as KubeRay 1.6 makes them."""

from __future__ import annotations

import json

from kai_ray.api import labels as L
from kai_ray.api import operator_defaults as defaults
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object

from . import ray_start
from .podset import add_env, add_missing_env, pod_of
from .ray_names import (
    IDENTIFIER,
    OPERATOR_VERSION,
    OVERWRITE_COMMAND,
    RECREATE_HASH,
    SERVE,
    autoscaler_v2,
    autoscales,
    creator_of,
    is_fault_tolerant,
    label_value,
    service_fqdn,
    shorten,
    spec_hash,
)
from .raycluster_extras import (
    add_token,
    add_token_volume,
    authenticates,
    autoscaler,
    configure_head_ft,
)
from .world import own_copy, owner_ref

HEAD_GROUP = defaults.RAY_HEAD_GROUP
#: Own words for what KubeRay's longer script does: wait until the head's GCS answers.
_WAIT = 'until ray health-check --address {0}; do echo "waiting for GCS at {0}"; sleep 5; done'
_FIXED_LABELS = (L.RAY_NODE_TYPE, L.RAY_GROUP, L.RAY_CLUSTER)


def _pod_labels(cluster: Object, role: str, group: str, own: dict[str, str]) -> dict[str, str]:
    name = cluster["metadata"]["name"]
    labels = {
        "ray.io/is-ray-node": "yes",
        L.RAY_CLUSTER: name,
        L.RAY_NODE_TYPE: role,
        L.RAY_GROUP: group,
        IDENTIFIER: label_value(f"{name}-{role}"),
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    return labels | {k: v for k, v in own.items() if k not in _FIXED_LABELS}


def head_pod(cluster: Object, batch_scheduler: str = "") -> Object:
    spec = cluster["spec"]
    group = spec["headGroupSpec"]
    template = own_copy(group["template"])
    pod_spec, main = template["spec"], template["spec"]["containers"][0]
    params = _group_params(group)
    annotations: dict[str, str] = {}
    if autoscales(spec):
        params["no-monitor"] = "true"
        account = pod_spec.get("serviceAccountName") or cluster["metadata"]["name"]
        pod_spec["serviceAccountName"] = shorten(account)
        pod_spec["containers"].append(autoscaler(cluster, main["image"]))
        if autoscaler_v2(spec):
            add_env(main, ("RAY_enable_autoscaler_v2", "true"))
            pod_spec["restartPolicy"] = "Never"
    annotations |= configure_head_ft(cluster, main, params)
    annotations[RECREATE_HASH] = spec_hash(spec)
    annotations[OPERATOR_VERSION] = ray_start.KUBERAY_VERSION
    _finish(cluster, template, params, head=True)
    if autoscales(spec):
        for container in (main, pod_spec["containers"][_index(pod_spec, "autoscaler")]):
            _mount(pod_spec, container, "ray-logs", "/tmp/ray", memory=False)
    # KubeRay mounts shared memory first; keep its order of volumes.
    labels = _pod_labels(cluster, "head", HEAD_GROUP, _own_labels(group))
    if creator_of(cluster) == "RayService":
        labels[SERVE] = "false"
    prefix = f"{cluster['metadata']['name'][:50]}-head-".lower()
    return _pod(cluster, template, prefix, labels, annotations, batch_scheduler)


def worker_template(cluster: Object, group: Object) -> Object:
    """The pod template of a worker group; its spec is the same for every pod of the group."""
    template = own_copy(group["template"])
    pod_spec, main = template["spec"], template["spec"]["containers"][0]
    port = ray_start.head_port(cluster["spec"]["headGroupSpec"].get("rayStartParams") or {})
    wait: Object = {
        "name": defaults.RAY_WAIT_GCS_CONTAINER,
        "image": main["image"],
        "command": list(ray_start.SHELL),
        "args": [_WAIT.format(f"{service_fqdn(cluster)}:{port}")],
        "resources": own_copy(defaults.RAY_WAIT_GCS_RESOURCES),
    }
    for field in ("imagePullPolicy", "securityContext", "env", "volumeMounts"):
        if main.get(field):
            wait[field] = own_copy(main[field])
    pod_spec.setdefault("initContainers", []).append(wait)
    if is_fault_tolerant(cluster):
        add_missing_env(main, ("RAY_gcs_rpc_server_reconnect_timeout_s", "600"))
    if autoscales(cluster["spec"]) and autoscaler_v2(cluster["spec"]):
        pod_spec["restartPolicy"] = "Never"
    _finish(cluster, template, _group_params(group), head=False)
    return template


def worker_pod(
    cluster: Object,
    group: Object,
    template: Object,
    index: int,
    *,
    replica: str = "",
    host: int = 0,
    batch_scheduler: str = "",
) -> Object:
    """Pod of replica `index`; `replica` and `host` name the host of a multi-host replica."""
    name = group["groupName"]
    labels = _pod_labels(cluster, "worker", name, _own_labels(group))
    labels[L.RAY_REPLICA_INDEX] = str(index)
    if replica:
        labels[L.RAY_REPLICA_NAME] = replica
        labels[L.RAY_HOST_INDEX] = str(host)
    if creator_of(cluster) == "RayService":
        labels[SERVE] = "true"
    prefix = f"{cluster['metadata']['name']}-{name}"[:50].lower() + "-worker-"
    return _pod(cluster, template, prefix, labels, {}, batch_scheduler)


def _pod(
    cluster: Object,
    template: Object,
    prefix: str,
    labels: dict[str, str],
    annotations: dict[str, str],
    batch_scheduler: str,
) -> Object:
    meta = cluster["metadata"]
    if (meta.get("annotations") or {}).get(OVERWRITE_COMMAND, "").lower() == "true":
        annotations[OVERWRITE_COMMAND] = "true"
    if batch_scheduler:
        template = {**template, "spec": {**template["spec"], "schedulerName": batch_scheduler}}
        queue = (meta.get("labels") or {}).get(L.QUEUE)
        if queue:
            labels[L.QUEUE] = queue
    return pod_of(
        template,
        meta["namespace"],
        generate_name=prefix,
        labels=labels,
        annotations=annotations,
        owner=owner_ref(R.RAY_CLUSTER, cluster),
    )


def _own_labels(group: Object) -> dict[str, str]:
    template = (group["template"].get("metadata") or {}).get("labels") or {}
    return {**template, **(group.get("labels") or {})}


def _group_params(group: Object) -> dict[str, str]:
    """rayStartParams with the group's top-level resources and labels folded in."""
    params = dict(group.get("rayStartParams") or {})
    custom: dict[str, float] = {}
    for name, value in (group.get("resources") or {}).items():
        key = {"CPU": "num-cpus", "GPU": "num-gpus", "memory": "memory"}.get(name)
        if key:
            params[key] = str(value)
        else:
            custom[name] = float(value)
    if custom:
        params["resources"] = "'" + json.dumps(custom, separators=(",", ":")) + "'"
    if group.get("labels"):
        params["labels"] = ",".join(f"{k}={v}" for k, v in sorted(group["labels"].items()))
    return params


def _finish(cluster: Object, template: Object, params: dict[str, str], *, head: bool) -> None:
    """Ports, tokens, shared memory, command, environment and probes of the Ray container."""
    pod_spec, main = template["spec"], template["spec"]["containers"][0]
    spec, creator = cluster["spec"], creator_of(cluster)
    fqdn = service_fqdn(cluster)
    port = ray_start.head_port(spec["headGroupSpec"].get("rayStartParams") or {})
    if not any(p.get("name") == "metrics" for p in main.get("ports") or ()):
        main.setdefault("ports", []).append(
            {"name": "metrics", "containerPort": ray_start.METRICS_PORT}
        )
    if authenticates(spec):
        for container in (main, *(pod_spec.get("initContainers") or ())):
            if container is main or container["name"] == defaults.RAY_WAIT_GCS_CONTAINER:
                add_token(cluster, container)
        add_token_volume(cluster, pod_spec)
    full = ray_start.complete_params(params, main, head=head, address=f"{fqdn}:{port}")
    if "plasma-directory" not in params:
        _mount(pod_spec, main, "shared-mem", "/dev/shm", memory=True)
    start = ray_start.ray_start(full, head=head)
    annotations = cluster["metadata"].get("annotations") or {}
    overwrite = annotations.get(OVERWRITE_COMMAND, "").lower() == "true"
    ray_start.set_command(main, start, overwrite=overwrite)
    for container in pod_spec.get("initContainers") or ():
        add_env(container, ("FQ_RAY_IP", fqdn), ("RAY_IP", fqdn.split(".")[0]))
    ray_start.set_environment(main, head=head, fqdn=fqdn, port=port, start=start, creator=creator)
    version = spec.get("rayVersion", "")
    ray_start.set_probes(main, full, head=head, creator=creator, ray_version=version)


def _index(pod_spec: Object, name: str) -> int:
    return next(i for i, c in enumerate(pod_spec["containers"]) if c["name"] == name)


def _mount(pod_spec: Object, container: Object, name: str, path: str, *, memory: bool) -> None:
    if any(m["mountPath"] == path for m in container.get("volumeMounts") or ()):
        return
    volumes = pod_spec.setdefault("volumes", [])
    if not any(v["name"] == name for v in volumes):
        directory: Object = {}
        if memory:
            directory["medium"] = "Memory"
            resources = container.get("resources") or {}
            size = (resources.get("requests") or {}).get("memory") or (
                resources.get("limits") or {}
            ).get("memory")
            if size:
                directory["sizeLimit"] = size
        volumes.append({"name": name, "emptyDir": directory})
    container.setdefault("volumeMounts", []).append({"name": name, "mountPath": path})
