"""What options of a RayCluster add to its containers: autoscaler, fault tolerance, tokens."""

from __future__ import annotations

from kai_ray.api import operator_defaults as defaults
from kai_ray.cluster.port import Object

from . import ray_start
from .podset import add_env, add_missing_env, field_env
from .ray_names import FT_ENABLED, STORAGE_NAMESPACE, is_fault_tolerant, shorten
from .world import own_copy


def autoscaler(cluster: Object, image: str) -> Object:
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
    if authenticates(cluster["spec"]):
        add_token(cluster, container)
    container["env"].extend(own_copy(options.get("env") or []))
    for field in ("envFrom", "volumeMounts", "securityContext"):
        if options.get(field):
            container[field] = own_copy(options[field])
    return container


def configure_head_ft(cluster: Object, main: Object, params: dict[str, str]) -> dict[str, str]:
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


def authenticates(spec: Object) -> bool:
    return (spec.get("authOptions") or {}).get("mode") == "token"


def add_token(cluster: Object, container: Object) -> None:
    """The environment of token authentication, if the cluster has it."""
    options = cluster["spec"].get("authOptions") or {}
    if not authenticates(cluster["spec"]):
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


def add_token_volume(cluster: Object, pod_spec: Object) -> None:
    if not (cluster["spec"].get("authOptions") or {}).get("enableK8sTokenAuth"):
        return
    volumes = pod_spec.setdefault("volumes", [])
    if not any(v["name"] == "ray-token" for v in volumes):
        source = {"sources": [{"serviceAccountToken": {"path": "token"}}]}
        volumes.append({"name": "ray-token", "projected": source})
