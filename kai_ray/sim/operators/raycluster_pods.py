"""The head and worker pods and the services of a RayCluster, as KubeRay 1.6 makes them."""

from __future__ import annotations

import base64
import hashlib
import json

from kai_ray.api import labels as L
from kai_ray.api import operator_defaults as defaults
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object

from . import ray_start
from .podset import add_env, add_missing_env, field_env, pod_of
from .world import own_copy, owner_ref

ORIGIN_KIND = "ray.io/originated-from-crd"
ORIGIN_NAME = "ray.io/originated-from-cr-name"
SUBMISSION_MODE = "ray.io/job-submission-mode"
FT_ENABLED = "ray.io/ft-enabled"
STORAGE_NAMESPACE = "ray.io/external-storage-namespace"
OVERWRITE_COMMAND = "ray.io/overwrite-container-cmd"
NO_HEAD_RESTART = "ray.io/disable-provisioned-head-restart"
RECREATE_HASH = "ray.io/upgrade-strategy-recreate-hash"
OPERATOR_VERSION = "ray.io/kuberay-version"
SERVE = "ray.io/serve"
IDENTIFIER = "ray.io/identifier"
HEAD_GROUP = defaults.RAY_HEAD_GROUP
#: Own words for what KubeRay's longer script does: wait until the head's GCS answers.
_WAIT = 'until ray health-check --address {0}; do echo "waiting for GCS at {0}"; sleep 5; done'
_FIXED_LABELS = (L.RAY_NODE_TYPE, L.RAY_GROUP, L.RAY_CLUSTER)


def shorten(name: str, most: int = 50) -> str:
    """KubeRay's rule for names that leave room for suffixes: keep the end, start with a letter."""
    name = name[-most:]
    return name if name[:1].isalpha() else "r" + name[1:]


def label_value(text: str) -> str:
    text = text[-63:]
    return text if text[:1].isalnum() else "r" + text[1:]


def service_name(cluster: Object) -> str:
    head = cluster["spec"]["headGroupSpec"]
    named = ((head.get("headService") or {}).get("metadata") or {}).get("name")
    return named or f"{cluster['metadata']['name']}-head-svc"


def service_fqdn(cluster: Object) -> str:
    return f"{service_name(cluster)}.{cluster['metadata']['namespace']}.svc.cluster.local"


def creator_of(cluster: Object) -> str:
    origin = (cluster["metadata"].get("labels") or {}).get(ORIGIN_KIND, "")
    return origin if origin in ("RayJob", "RayService") else "RayCluster"


def autoscales(spec: Object) -> bool:
    return bool(spec.get("enableInTreeAutoscaling"))


def autoscaler_v2(spec: Object) -> bool:
    return (spec.get("autoscalerOptions") or {}).get("version") == "v2"


def is_fault_tolerant(cluster: Object) -> bool:
    annotations = cluster["metadata"].get("annotations") or {}
    return annotations.get(FT_ENABLED, "").lower() == "true" or bool(
        cluster["spec"].get("gcsFaultToleranceOptions")
    )


def spec_hash(spec: Object) -> str:
    """A hash that ignores what the autoscaler changes: replica counts and pods to delete."""
    stable = own_copy(spec)
    for group in stable.get("workerGroupSpecs") or ():
        for field in ("replicas", "minReplicas", "maxReplicas", "scaleStrategy", "suspend"):
            group.pop(field, None)
    text = json.dumps(stable, sort_keys=True).encode()
    return base64.b32hexencode(hashlib.sha1(text, usedforsecurity=False).digest()).decode()


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
        pod_spec["containers"].append(_autoscaler(cluster, main["image"]))
        if autoscaler_v2(spec):
            add_env(main, ("RAY_enable_autoscaler_v2", "true"))
            pod_spec["restartPolicy"] = "Never"
    annotations |= _configure_head_ft(cluster, main, params)
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
    if _authenticates(spec):
        for container in (main, *(pod_spec.get("initContainers") or ())):
            if container is main or container["name"] == defaults.RAY_WAIT_GCS_CONTAINER:
                add_token(cluster, container)
        _add_token_volume(cluster, pod_spec)
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


def _autoscaler(cluster: Object, image: str) -> Object:
    options = cluster["spec"].get("autoscalerOptions") or {}
    container: Object = {
        "name": defaults.RAY_AUTOSCALER_CONTAINER,
        "image": options.get("image") or image,
        "imagePullPolicy": options.get("imagePullPolicy") or "IfNotPresent",
        "command": list(ray_start.SHELL),
        "args": [
            "ray kuberay-autoscaler --cluster-name $(RAY_CLUSTER_NAME) "
            "--cluster-namespace $(RAY_CLUSTER_NAMESPACE)"
        ],
        "env": [
            field_env("RAY_CLUSTER_NAME", "metadata.labels['ray.io/cluster']"),
            field_env("RAY_CLUSTER_NAMESPACE", "metadata.namespace"),
            field_env("RAY_HEAD_POD_NAME", "metadata.name"),
            {"name": "KUBERAY_CRD_VER", "value": "v1"},
        ],
        "resources": own_copy(options.get("resources") or defaults.RAY_AUTOSCALER_RESOURCES),
    }
    if _authenticates(cluster["spec"]):
        add_token(cluster, container)
    container["env"].extend(own_copy(options.get("env") or []))
    for field in ("envFrom", "volumeMounts", "securityContext"):
        if options.get(field):
            container[field] = own_copy(options[field])
    return container


def _configure_head_ft(cluster: Object, main: Object, params: dict[str, str]) -> dict[str, str]:
    """Environment of GCS fault tolerance; returns the head's annotations."""
    if not is_fault_tolerant(cluster):
        return {FT_ENABLED: "false"}
    options = cluster["spec"].get("gcsFaultToleranceOptions")
    annotations = cluster["metadata"].get("annotations") or {}
    storage = annotations.get(STORAGE_NAMESPACE) or cluster["metadata"]["uid"]
    if options and options.get("externalStorageNamespace"):
        storage = options["externalStorageNamespace"]
    add_missing_env(main, ("RAY_external_storage_namespace", storage))
    if not options and "redis-password" in params:
        add_missing_env(main, ("REDIS_PASSWORD", params["redis-password"]))
    if options and options.get("redisAddress"):
        add_env(main, ("RAY_REDIS_ADDRESS", options["redisAddress"]))
        for field, name in (("redisUsername", "USERNAME"), ("redisPassword", "PASSWORD")):
            if options.get(field):
                params[f"redis-{name.lower()}"] = f"$REDIS_{name}"
                main["env"].append({"name": f"REDIS_{name}", **options[field]})
    return {FT_ENABLED: "true", STORAGE_NAMESPACE: storage}


def _authenticates(spec: Object) -> bool:
    return (spec.get("authOptions") or {}).get("mode") == "token"


def add_token(cluster: Object, container: Object) -> None:
    """The environment of token authentication, if the cluster has it."""
    options = cluster["spec"].get("authOptions") or {}
    if not _authenticates(cluster["spec"]):
        return
    add_missing_env(container, ("RAY_AUTH_MODE", "token"))
    if options.get("enableK8sTokenAuth"):
        add_missing_env(container, ("RAY_ENABLE_K8S_TOKEN_AUTH", "true"))
        mounts = container.setdefault("volumeMounts", [])
        if not any(m["name"] == "ray-token" for m in mounts):
            path = "/var/run/secrets/ray.io/serviceaccount"
            mounts.append({"name": "ray-token", "mountPath": path, "readOnly": True})
    elif not any(e["name"] == "RAY_AUTH_TOKEN" for e in container.get("env") or ()):
        secret = options.get("secretName") or shorten(cluster["metadata"]["name"])
        source = {"secretKeyRef": {"name": secret, "key": "auth_token"}}
        container["env"].append({"name": "RAY_AUTH_TOKEN", "valueFrom": source})


def _add_token_volume(cluster: Object, pod_spec: Object) -> None:
    if not (cluster["spec"].get("authOptions") or {}).get("enableK8sTokenAuth"):
        return
    volumes = pod_spec.setdefault("volumes", [])
    if not any(v["name"] == "ray-token" for v in volumes):
        source = {"sources": [{"serviceAccountToken": {"path": "token"}}]}
        volumes.append({"name": "ray-token", "projected": source})


def service_ports(cluster: Object) -> dict[str, int]:
    """Named ports of the head container, or the defaults; metrics always."""
    main = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    ports = {
        p.get("name") or f"{p['containerPort']}-port": p["containerPort"]
        for p in main.get("ports") or ()
    }
    if not ports:
        ports = {
            "client": 10001,
            "gcs-server": 6379,
            "dashboard": ray_start.DASHBOARD_PORT,
            "serve": ray_start.SERVE_PORT,
        }
    ports.setdefault("metrics", ray_start.METRICS_PORT)
    return ports


def head_service(cluster: Object) -> Object:
    meta, head = cluster["metadata"], cluster["spec"]["headGroupSpec"]
    own = (head["template"].get("metadata") or {}).get("labels") or {}
    selector = {
        L.RAY_CLUSTER: meta["name"],
        L.RAY_NODE_TYPE: "head",
        IDENTIFIER: label_value(f"{meta['name']}-head"),
        "app.kubernetes.io/name": own.get("app.kubernetes.io/name", "kuberay"),
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    ports = [
        {"name": n, "port": p, "targetPort": p, "protocol": "TCP", "appProtocol": "tcp"}
        for n, p in sorted(service_ports(cluster).items())
    ]
    given = own_copy(head.get("headService") or {})
    given_meta, given_spec = given.get("metadata") or {}, given.get("spec") or {}
    kind = given_spec.get("type") or head.get("serviceType") or "ClusterIP"
    spec: Object = {
        **given_spec,
        "selector": selector,
        "ports": [*(given_spec.get("ports") or ()), *ports],
        "type": kind,
    }
    if kind == "ClusterIP" and not head.get("headService"):
        spec |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    annotations = {
        **(given_meta.get("annotations") or {}),
        **(cluster["spec"].get("headServiceAnnotations") or {}),
    }
    new_meta: Object = {
        "name": service_name(cluster),
        "namespace": meta["namespace"],
        "labels": {**(given_meta.get("labels") or {}), **selector},
        "ownerReferences": [owner_ref(R.RAY_CLUSTER, cluster)],
    }
    if annotations:
        new_meta["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Service", "metadata": new_meta, "spec": spec}


def headless_worker_service(cluster: Object) -> Object:
    """Lets the hosts of multi-host replicas find each other."""
    meta = cluster["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": f"{meta['name']}-headless",
            "namespace": meta["namespace"],
            "labels": {"ray.io/headless-worker-svc": meta["name"]},
            "ownerReferences": [owner_ref(R.RAY_CLUSTER, cluster)],
        },
        "spec": {
            "clusterIP": "None",
            "type": "ClusterIP",
            "publishNotReadyAddresses": True,
            "selector": {L.RAY_CLUSTER: meta["name"], L.RAY_NODE_TYPE: "worker"},
        },
    }
