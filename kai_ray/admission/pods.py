"""Pods of managed namespaces become ours, and carry their gang from the first moment on."""

from __future__ import annotations

import re

from kai_ray.admission import gpu_env, runtime_class
from kai_ray.admission.refusal import cause, refusal
from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import AdmissionRequest, ApiError, NotFound, Object, Port
from kai_ray.encode import gpu_asks, requests
from kai_ray.encode.groups import DEFAULT_LEAF
from kai_ray.encode.problems import MISREAD, Malformed
from kai_ray.encode.settings import EncodeConfig, MemberOf
from kai_ray.encode.traits import is_suspended, says_suspended

#: From a pod to its workload: no chain of owners is longer.
_MOST_OWNERS = 8
_DEFAULTS = (None, "", "default-scheduler")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class PodAdmission:
    """Pods of other schedulers pass untouched."""

    resources = frozenset({kinds.POD})

    def __init__(
        self, config: EncodeConfig, member_of: MemberOf | None = None, *, runtime: str = ""
    ) -> None:
        """`runtime`: RuntimeClass of pods that share GPUs, where the cluster has it."""
        self._config = config
        self._member_of = member_of
        self._runtime = runtime

    def admit(self, request: AdmissionRequest, reader: Port) -> Object:
        pod = request.object
        if request.operation != "CREATE":
            return pod
        spec = pod.get("spec")
        if not isinstance(spec, dict):
            return pod
        meta = pod["metadata"]
        if spec.get("schedulerName") in _DEFAULTS and not spec.get("nodeName"):
            if not _managed(meta.get("namespace") or "", reader):
                return pod
            spec["schedulerName"] = self._config.scheduler_names[0]
        elif spec.get("schedulerName") not in self._config.scheduler_names:
            return pod
        self._check(pod, reader)
        gpu_env.add(pod)
        runtime_class.add(pod, self._runtime, reader)
        self._stamp(pod)
        _gate(pod, reader)
        return pod

    def _check(self, pod: Object, reader: Port) -> None:
        meta = pod["metadata"]
        causes = _owner_causes(meta, reader)
        group = (meta.get("annotations") or {}).get(names.POD_GROUP)
        if group is not None and not _SUBDOMAIN.fullmatch(str(group)):
            mend = f"{str(group)[:80]!r} is not the name of a PodGroup: a DNS name is needed"
            causes.append(cause(f"metadata.annotations[{names.POD_GROUP}]", mend))
        labels = meta.get("labels") or {}
        for key in (names.SUBGROUP, names.QUEUE):
            value = labels.get(key)
            if value is not None and not _LABEL.fullmatch(str(value)):
                mend = f"{str(value)[:80]!r} is not a name: at most 63 letters, digits, - _ ."
                causes.append(cause(f"metadata.labels[{key}]", mend))
        causes += _share_causes(pod)
        if causes:
            raise refusal(kinds.POD, meta.get("name") or "", causes)

    def _stamp(self, pod: Object) -> None:
        """One write less later: otherwise the gang travels on the binding."""
        meta = pod["metadata"]
        if self._member_of is None or (meta.get("annotations") or {}).get(names.POD_GROUP):
            return
        found = self._member_of(pod)
        if found is None or not found[0]:
            return
        meta["annotations"] = {**(meta.get("annotations") or {}), names.POD_GROUP: found[0]}
        if found[1] and found[1] != DEFAULT_LEAF:
            meta["labels"] = {names.SUBGROUP: found[1], **(meta.get("labels") or {})}


def _gate(pod: Object, reader: Port) -> None:
    """Pods of a suspended workload wait until it is resumed (controllers/gates.py opens the gate).

    Where the gang is not known or not made yet, the owners are asked.
    """
    meta, spec = pod["metadata"], pod["spec"]
    if spec.get("nodeName"):
        return
    gates = spec.get("schedulingGates") or []
    if any(gate.get("name") == names.SUSPENDED_GATE for gate in gates):
        return
    said = _suspended_group(meta, reader)
    if said or (said is None and _suspended_owner(meta, reader)):
        spec["schedulingGates"] = [*gates, {"name": names.SUSPENDED_GATE}]


def _suspended_group(meta: Object, reader: Port) -> bool | None:
    """What the pod's gang says; None where it has none yet."""
    group = (meta.get("annotations") or {}).get(names.POD_GROUP)
    if not group:
        return None
    try:
        return is_suspended(reader.get(kinds.POD_GROUP, str(group), meta.get("namespace") or ""))
    except ApiError:
        return None  # what cannot be read now is held later


def _suspended_owner(meta: Object, reader: Port) -> bool:
    """Whether an object that the pod comes from says so in the annotation."""
    for _ in range(_MOST_OWNERS):
        owner = next((r for r in meta.get("ownerReferences") or () if r.get("controller")), None)
        if owner is None:
            return False
        resource = kinds.BY_KIND.get((str(owner.get("apiVersion")), str(owner.get("kind"))))
        if resource is None or not resource.namespaced:
            return False
        try:
            found = reader.get(resource, str(owner.get("name")), meta.get("namespace") or "")
        except ApiError:
            return False
        if says_suspended(found):
            return True
        meta = found["metadata"]
    return False


def _share_causes(pod: Object) -> list[Object]:
    """Parts of GPUs that nobody could give (KAI 0.17, admission)."""
    annotations = pod["metadata"].get("annotations") or {}
    try:
        gpu_asks.read(annotations, requests.effective(pod["spec"]))
    except Malformed as error:
        return [cause(error.field, error.mend)]
    except MISREAD:  # what is not of the form of a pod is refused elsewhere
        return []
    return gpu_env.causes(pod)


def _owner_causes(meta: Object, reader: Port) -> list[Object]:
    """Owners that are not there: the pod would be collected as garbage before it could start."""
    causes: list[Object] = []
    for i, reference in enumerate(meta.get("ownerReferences") or ()):
        kind, name = str(reference.get("kind")), str(reference.get("name"))
        resource = kinds.BY_KIND.get((str(reference.get("apiVersion")), kind))
        if resource is None:
            continue
        namespace = meta.get("namespace") or "" if resource.namespaced else ""
        try:
            owner = reader.get(resource, name, namespace)
        except NotFound as error:
            if error.details.get("name"):  # else the kind itself is not served here
                mend = f"{kind} {name!r} does not exist: create it first or leave the owner out"
                causes.append(cause(f"metadata.ownerReferences[{i}]", mend, "FieldValueNotFound"))
            continue
        except ApiError:
            continue
        if owner["metadata"].get("uid") != reference.get("uid"):
            mend = f"is not the uid of {kind} {name!r} (it was made anew): name the present one"
            causes.append(cause(f"metadata.ownerReferences[{i}].uid", mend))
    return causes


def _managed(namespace: str, reader: Port) -> bool:
    try:
        found = reader.get(kinds.NAMESPACE, namespace)
    except ApiError:
        return False
    return (found["metadata"].get("labels") or {}).get(names.MANAGED_NAMESPACE) == "true"
