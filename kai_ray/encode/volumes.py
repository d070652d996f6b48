"""What a pod's volumes and ConfigMaps say about where, and whether, it can run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kai_ray.api import labels as names
from kai_ray.cluster.port import Key, Object
from kai_ray.scheduler.reason import Reason

from .problems import text
from .selectors import Need, NodeSelector, node_selector_terms
from .shape import Shape

#: Written into every namespace by Kubernetes itself, often a moment after the first pod.
_ROOT_CA = "kube-root-ca.crt"
_TOPOLOGIES = "StorageClass allowedTopologies"
_CLAIM_NAME = "spec.volumes.persistentVolumeClaim.claimName"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"

#: (kind, namespace, name) of an object that a pod's shape depends on.
Dependency = tuple[str, str, str]


class Storage:
    """The objects that volumes refer to. A kind that nobody feeds is not held against a pod."""

    def __init__(self) -> None:
        self.claims: dict[Key, Object] = {}
        self.volumes: dict[Key, Object] = {}
        self.classes: dict[Key, Object] = {}
        self.config_maps: dict[Key, Object] = {}
        self.hidden: set[str] = set()  # kinds of which absence says nothing

    def by_kind(self, kind: str) -> dict[Key, Object]:
        return {
            "PersistentVolumeClaim": self.claims,
            "PersistentVolume": self.volumes,
            "StorageClass": self.classes,
            "ConfigMap": self.config_maps,
        }[kind]


def references(pod: Object) -> list[Dependency]:
    """The claims and required ConfigMaps a pod names, in order.

    Those that tell a pod of its shared devices are written with its bind: nothing waits for them.
    """
    found = _named(pod)
    annotations = pod["metadata"].get("annotations")
    later = annotations.get(names.SHARED_GPU_CONFIG) if found and annotations else None
    if not later:
        return found
    return [r for r in found if r[0] != "ConfigMap" or not r[2].startswith(f"{later}-")]


def _named(pod: Object) -> list[Dependency]:
    spec = pod["spec"]
    meta = pod["metadata"]
    namespace = meta.get("namespace") or ""
    found: list[Dependency] = []
    for volume in spec.get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            name = text((volume["persistentVolumeClaim"] or {}).get("claimName"), _CLAIM_NAME)
            found.append(("PersistentVolumeClaim", namespace, name))
        elif "configMap" in volume:
            _config_map(volume["configMap"], namespace, found)
        elif "projected" in volume:
            for source in (volume["projected"] or {}).get("sources") or ():
                if "configMap" in source:
                    _config_map(source["configMap"], namespace, found)
    for group in ("initContainers", "containers"):
        for c in spec.get(group) or ():
            for source in c.get("envFrom") or ():
                if "configMapRef" in source:
                    _config_map(source["configMapRef"], namespace, found)
            for variable in c.get("env") or ():
                origin = variable.get("valueFrom")
                if origin and "configMapKeyRef" in origin:
                    _config_map(origin["configMapKeyRef"], namespace, found)
    return found


def _config_map(raw: Mapping[str, Any] | None, namespace: str, found: list[Dependency]) -> None:
    name = text(raw.get("name"), "the name of a ConfigMap") if raw else ""
    if raw and name and not raw.get("optional") and name != _ROOT_CA:
        found.append(("ConfigMap", namespace, name))


def constrain(
    shape: Shape, refs: list[Dependency], storage: Storage
) -> tuple[Shape, list[Dependency]]:
    """The shape with what the referenced objects add, and every object that this depends on."""
    depends = list(refs)
    required: list[NodeSelector] = []
    blocked, detail = shape.blocked, shape.blocked_detail
    for kind, namespace, name in refs:
        why: tuple[int, str] | None = None
        if kind == "ConfigMap":
            if kind not in storage.hidden and Key(namespace, name) not in storage.config_maps:
                why = Reason.CONFIG_MAP_NOT_FOUND, name
        elif kind not in storage.hidden:
            why = _claim(Key(namespace, name), storage, required, depends)
        if why and not blocked:
            blocked, detail = why
    if required or blocked != shape.blocked:
        shape = shape._replace(
            required=(*shape.required, *required), blocked=int(blocked), blocked_detail=detail
        )
    return shape, depends


def _claim(
    key: Key, storage: Storage, required: list[NodeSelector], depends: list[Dependency]
) -> tuple[int, str] | None:
    claim = storage.claims.get(key)
    if claim is None:
        return Reason.VOLUME_CLAIM_NOT_FOUND, key.name
    if claim["metadata"].get("deletionTimestamp"):
        return Reason.VOLUME_CLAIM_NOT_FOUND, f"{key.name} (being deleted)"
    spec = claim.get("spec") or {}
    bound = text(spec.get("volumeName"), f"claim {key.name}: spec.volumeName")
    if bound:
        depends.append(("PersistentVolume", "", bound))
        volume = storage.volumes.get(Key("", bound))
        if volume is None:
            return Reason.VOLUME_NODE_CONFLICT, f"{key.name}: volume {bound} does not exist"
        affinity = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required")
        if affinity:
            required.append(node_selector_terms(affinity.get("nodeSelectorTerms"), "nodeAffinity"))
        return None
    return _unbound(key, spec, storage, required, depends)


def _unbound(
    key: Key,
    spec: dict[str, Any],
    storage: Storage,
    required: list[NodeSelector],
    depends: list[Dependency],
) -> tuple[int, str] | None:
    name = text(spec.get("storageClassName"), f"claim {key.name}: spec.storageClassName")
    depends.append(("StorageClass", "", name or ""))
    cls = storage.classes.get(Key("", name)) if name else _default(storage)
    if cls is None:
        # A world without any class does not model storage; with classes, somebody must bind it.
        if not storage.classes:
            return None
        return Reason.VOLUME_CLAIM_NOT_FOUND, f"{key.name} (not bound)"
    if cls.get("volumeBindingMode") != "WaitForFirstConsumer":
        return Reason.VOLUME_CLAIM_NOT_FOUND, f"{key.name} (not bound yet)"
    terms = [
        tuple(
            sorted(
                Need(text(e["key"], _TOPOLOGIES), "In", tuple(sorted(_values(e))))
                for e in t.get("matchLabelExpressions") or ()
            )
        )
        for t in cls.get("allowedTopologies") or ()
    ]
    if terms:
        required.append(tuple(sorted(set(terms))))
    return None


def _values(expression: dict[str, Any]) -> set[str]:
    return {text(v, _TOPOLOGIES) for v in expression["values"]}


def _default(storage: Storage) -> Object | None:
    for cls in storage.classes.values():
        annotations = cls["metadata"].get("annotations")
        if isinstance(annotations, dict) and annotations.get(_DEFAULT_CLASS) == "true":
            return cls
    return None
