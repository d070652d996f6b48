"""Labels, annotations and names that KubeRay gives, and what a RayCluster says about itself."""

from __future__ import annotations

import base64
import hashlib
import json

from kai_ray.cluster.port import Object

from .world import own_copy

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
