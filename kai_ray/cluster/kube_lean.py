"""Decoding for caches: an object without what no decision reads.

A pod on the wire is mostly who wrote which field, probes, arguments and variables; kept as
dictionaries ten thousand of them fill hundreds of megabytes. Typed decoding skips those parts
without building them. What is left out: `managedFields` and the last applied configuration of every
kind; of pods, what only the kubelet runs by (commands, probes, mounts, values of variables); the
images of nodes, the data of ConfigMaps, the schemas of definitions.

Reads of single objects (`get`) and answers to writes are whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from . import resources as kinds
from .port import Object, Resource

Decode = Callable[[bytes], Object]

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class _Meta(Struct, omit_defaults=True):
    name: str = ""
    namespace: Any = UNSET
    uid: Any = UNSET
    resourceVersion: Any = UNSET
    generation: Any = UNSET
    generateName: Any = UNSET
    creationTimestamp: Any = UNSET
    deletionTimestamp: Any = UNSET
    deletionGracePeriodSeconds: Any = UNSET
    labels: Any = UNSET
    annotations: Any = UNSET
    ownerReferences: Any = UNSET
    finalizers: Any = UNSET


class _Env(Struct, omit_defaults=True):
    name: Any = UNSET
    valueFrom: Any = UNSET


class _Container(Struct, omit_defaults=True):
    name: Any = UNSET
    image: Any = UNSET
    env: list[_Env] | None = None
    envFrom: Any = UNSET
    lifecycle: Any = UNSET
    ports: Any = UNSET
    resources: Any = UNSET
    resizePolicy: Any = UNSET
    restartPolicy: Any = UNSET
    restartPolicyRules: Any = UNSET
    securityContext: Any = UNSET


class _ContainerStatus(Struct, omit_defaults=True):
    name: Any = UNSET
    image: Any = UNSET
    ready: Any = UNSET
    started: Any = UNSET
    restartCount: Any = UNSET
    state: Any = UNSET
    lastState: Any = UNSET
    resources: Any = UNSET
    allocatedResources: Any = UNSET
    allocatedResourcesStatus: Any = UNSET


class _PodSpec(Struct, omit_defaults=True):
    activeDeadlineSeconds: Any = UNSET
    affinity: Any = UNSET
    containers: list[_Container] | None = None
    hostNetwork: Any = UNSET
    hostname: Any = UNSET
    initContainers: list[_Container] | None = None
    nodeName: Any = UNSET
    nodeSelector: Any = UNSET
    os: Any = UNSET
    overhead: Any = UNSET
    preemptionPolicy: Any = UNSET
    priority: Any = UNSET
    priorityClassName: Any = UNSET
    readinessGates: Any = UNSET
    resourceClaims: Any = UNSET
    resources: Any = UNSET
    restartPolicy: Any = UNSET
    runtimeClassName: Any = UNSET
    schedulerName: Any = UNSET
    schedulingGates: Any = UNSET
    schedulingGroup: Any = UNSET
    serviceAccountName: Any = UNSET
    subdomain: Any = UNSET
    terminationGracePeriodSeconds: Any = UNSET
    tolerations: Any = UNSET
    topologySpreadConstraints: Any = UNSET
    volumes: Any = UNSET
    workloadRef: Any = UNSET


class _PodStatus(Struct, omit_defaults=True):
    conditions: Any = UNSET
    containerStatuses: list[_ContainerStatus] | None = None
    extendedResourceClaimStatus: Any = UNSET
    hostIP: Any = UNSET
    initContainerStatuses: list[_ContainerStatus] | None = None
    message: Any = UNSET
    nominatedNodeName: Any = UNSET
    observedGeneration: Any = UNSET
    phase: Any = UNSET
    podIP: Any = UNSET
    reason: Any = UNSET
    resize: Any = UNSET
    resourceClaimStatuses: Any = UNSET
    startTime: Any = UNSET


class _Pod(Struct, omit_defaults=True):
    metadata: _Meta
    apiVersion: Any = UNSET
    kind: Any = UNSET
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _NodeStatus(Struct, omit_defaults=True):
    addresses: Any = UNSET
    allocatable: Any = UNSET
    capacity: Any = UNSET
    conditions: Any = UNSET
    config: Any = UNSET
    declaredFeatures: Any = UNSET
    features: Any = UNSET
    nodeInfo: Any = UNSET
    phase: Any = UNSET
    runtimeHandlers: Any = UNSET


class _Node(Struct, omit_defaults=True):
    metadata: _Meta
    apiVersion: Any = UNSET
    kind: Any = UNSET
    spec: Any = UNSET
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


class _ConfigMap(Struct, omit_defaults=True):
    metadata: _Meta
    apiVersion: Any = UNSET
    kind: Any = UNSET
    immutable: Any = UNSET


class _Version(Struct, omit_defaults=True):
    name: Any = UNSET
    served: Any = UNSET
    storage: Any = UNSET
    deprecated: Any = UNSET


class _DefinitionSpec(Struct, omit_defaults=True):
    group: Any = UNSET
    names: Any = UNSET
    scope: Any = UNSET
    versions: list[_Version] | None = None


class _Definition(Struct, omit_defaults=True):
    metadata: _Meta
    apiVersion: Any = UNSET
    kind: Any = UNSET
    spec: _DefinitionSpec = msgspec.field(default_factory=_DefinitionSpec)
    status: Any = UNSET


_TYPES: dict[Resource, type[Struct]] = {
    kinds.POD: _Pod,
    kinds.NODE: _Node,
    kinds.CONFIG_MAP: _ConfigMap,
    kinds.CRD: _Definition,
}
#: Parts that an object of the kind always has, though they may be empty.
_ALWAYS: dict[Resource, tuple[str, ...]] = {
    kinds.POD: ("spec", "status"),
    kinds.NODE: ("status",),
    kinds.CRD: ("spec",),
}


def decoder(resource: Resource) -> Decode:
    """Decodes one object of a kind into a dictionary without those parts."""
    kind = _TYPES.get(resource)
    if kind is None:
        return _without_notes
    typed = msgspec.json.Decoder(kind)
    always = _ALWAYS.get(resource, ())

    def decode(data: bytes) -> Object:
        try:
            obj: Object = msgspec.to_builtins(typed.decode(data))
        except msgspec.ValidationError:  # not as the kind is defined: whole, for others to judge
            return _without_notes(data)
        for part in always:
            obj.setdefault(part, {})
        return _without_last_applied(obj)

    return decode


def _without_notes(data: bytes) -> Object:
    obj: Object = msgspec.json.decode(data)
    meta = obj.get("metadata")
    if isinstance(meta, dict):
        meta.pop("managedFields", None)
        return _without_last_applied(obj)
    return obj


def _without_last_applied(obj: Object) -> Object:
    notes = obj["metadata"].get("annotations")
    if isinstance(notes, dict):
        notes.pop(_LAST_APPLIED, None)
    return obj
