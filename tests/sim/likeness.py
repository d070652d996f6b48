"""What may differ between a stand-in's object and the real operator's: all of it is listed here."""

from __future__ import annotations

import json
import re
from typing import Any

from kai_ray.cluster.port import Object

#: Given by the API server or different in every run.
_GENERATED = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
#: Hashes over an operator's own Go structs: the value is its own business.
_HASHES = (
    "ray.io/upgrade-strategy-recreate-hash",
    "ray.io/hash-without-replicas-and-workers-to-delete",
    "controller-revision-hash",
    "leaderworkerset.sigs.k8s.io/template-revision-hash",
)
_UIDS = ("batch.kubernetes.io/controller-uid", "controller-uid", "jobset.sigs.k8s.io/jobset-uid")
#: Copied onto bound pods by Kubernetes 1.35 from their node.
_FROM_NODE = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
#: Scripts that the stand-in says in its own words: only what they wait for is compared.
_SCRIPTS = {"wait-gcs-ready": "args", "init-pytorch": "command"}
#: Of the submitter beside a head, the part before it submits.
_WAIT = re.compile(r"^until .*?; done ; ")


def normal(obj: Object, renamed: dict[str, str] | None = None) -> Object:
    """A comparable copy. `renamed`: generated names (of clusters, submissions) to neutral ones."""
    text = json.dumps(obj)
    for name, neutral in (renamed or {}).items():
        text = text.replace(name, neutral)
    out: Object = json.loads(text)
    out.pop("status", None)
    _metadata(out["metadata"])
    if "template" in (out.get("spec") or {}):
        _metadata(out["spec"]["template"].setdefault("metadata", {}))
    spec = out.get("spec") or {}
    for pod_spec in (spec, (spec.get("template") or {}).get("spec") or {}):
        if "containers" in pod_spec:
            _pod_spec(pod_spec)
    selector = (spec.get("selector") or {}).get("matchLabels") or {}
    for label in _UIDS:
        if label in selector:
            selector[label] = "UID"
    return _quantities(out)


def _metadata(meta: Object) -> None:
    for field in _GENERATED:
        meta.pop(field, None)
    if meta.get("generateName"):
        meta.pop("name", None)
    for ref in meta.get("ownerReferences") or ():
        ref["uid"] = "UID"
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    for marks in (labels, annotations):
        for name in marks:
            if name in _HASHES or name in _UIDS:
                marks[name] = "HASH"
    for name in _FROM_NODE:
        labels.pop(name, None)
    annotations.pop("kubectl.kubernetes.io/last-applied-configuration", None)
    if not annotations:
        meta.pop("annotations", None)


def _pod_spec(spec: Object) -> None:
    # Written by the scheduler, and by admission that the saved run had switched off.
    for field in ("nodeName", "serviceAccount"):
        spec.pop(field, None)
    if spec.get("serviceAccountName") == "default":
        spec.pop("serviceAccountName")
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        for variable in container.get("env") or ():
            if variable.get("value") == "":
                variable.pop("value")  # Go leaves empty values out
            ref = (variable.get("valueFrom") or {}).get("fieldRef")
            if ref:
                ref.setdefault("apiVersion", "v1")
        if container["name"] == "ray-job-submitter" and container.get("args"):
            container["args"] = [_WAIT.sub("until it answers; ", a) for a in container["args"]]
        field = _SCRIPTS.get(container["name"])
        if field:
            container[field] = sorted(_hosts(" ".join(container[field])))
    for volume in spec.get("volumes") or ():
        if "configMap" in volume:
            volume["configMap"].setdefault("defaultMode", 420)


def _hosts(script: str) -> set[str]:
    """The hosts that a script names: services with their port, and the masters of jobs."""
    return set(re.findall(r"[\w.-]+\.svc\.cluster\.local:\d+|[\w-]+-master-0", script))


def _quantities(value: Any, inside: bool = False) -> Any:
    """Resource amounts as text."""
    if isinstance(value, dict):
        return {k: _quantities(v, inside or k in ("limits", "requests")) for k, v in value.items()}
    if isinstance(value, list):
        return [_quantities(v, inside) for v in value]
    return str(value) if inside else value
