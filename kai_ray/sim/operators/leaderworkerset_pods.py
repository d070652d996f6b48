"""The StatefulSets of a LeaderWorkerSet, and what its webhook adds to their pods."""

from __future__ import annotations

import hashlib
import json

from kai_ray.cluster.port import Object

from .world import own_copy, suffix

_DOMAIN = "leaderworkerset.sigs.k8s.io"
SET_NAME = f"{_DOMAIN}/name"
GROUP_INDEX = f"{_DOMAIN}/group-index"
GROUP_KEY = f"{_DOMAIN}/group-key"
WORKER_INDEX = f"{_DOMAIN}/worker-index"
REVISION = f"{_DOMAIN}/template-revision-hash"
SIZE = f"{_DOMAIN}/size"
REPLICAS = f"{_DOMAIN}/replicas"
LEADER_NAME = f"{_DOMAIN}/leader-name"
EXCLUSIVE = f"{_DOMAIN}/exclusive-topology"
SUBDOMAIN = f"{_DOMAIN}/subdomainPolicy"
SUBGROUP_SIZE = f"{_DOMAIN}/subgroup-size"
SUBGROUP_TYPE = f"{_DOMAIN}/subgroup-policy-type"
SUBGROUP_INDEX = f"{_DOMAIN}/subgroup-index"
SUBGROUP_KEY = f"{_DOMAIN}/subgroup-key"
SUBGROUP_EXCLUSIVE = f"{_DOMAIN}/subgroup-exclusive-topology"
_UNIQUE = "UniquePerReplica"


def size_of(found: Object) -> int:
    size = found["spec"]["leaderWorkerTemplate"].get("size")
    return 1 if size is None else size


def replicas_of(found: Object) -> int:
    replicas = found["spec"].get("replicas")
    return 1 if replicas is None else replicas


def own_subdomains(found: Object) -> bool:
    """Whether every group has a service of its own."""
    return (found["spec"].get("networkConfig") or {}).get("subdomainPolicy") == _UNIQUE


def revision(found: Object) -> str:
    parts = found["spec"]["leaderWorkerTemplate"], found["spec"].get("networkConfig")
    return suffix(json.dumps(parts, sort_keys=True), length=10)


def leader_set(found: Object) -> Object:
    meta, parts = found["metadata"], found["spec"]["leaderWorkerTemplate"]
    notes = {SIZE: str(size_of(found)), **_own(found, EXCLUSIVE)}
    policy = parts.get("subGroupPolicy")
    if policy:
        notes |= {
            SUBGROUP_TYPE: policy.get("subGroupPolicyType") or "LeaderWorker",
            SUBGROUP_SIZE: str(policy["subGroupSize"]),
            **_own(found, SUBGROUP_EXCLUSIVE),
        }
    if own_subdomains(found):
        notes[SUBDOMAIN] = _UNIQUE
    own = {SET_NAME: meta["name"], REVISION: revision(found)}
    template = _marked(
        parts.get("leaderTemplate") or parts["workerTemplate"], own | {WORKER_INDEX: "0"}, notes
    )
    return _stateful_set(
        found,
        meta["name"],
        own,
        {REPLICAS: str(replicas_of(found))},
        {
            "serviceName": meta["name"],
            "replicas": replicas_of(found),
            "template": template,
            "selector": {"matchLabels": {SET_NAME: meta["name"], WORKER_INDEX: "0"}},
        },
    )


def worker_set(found: Object, leader: Object, place: dict[str, str]) -> Object:
    """The workers of a leader; `place` goes into their node selector."""
    meta, parts = leader["metadata"], found["spec"]["leaderWorkerTemplate"]
    labels = meta["labels"]
    own = {
        GROUP_INDEX: labels[GROUP_INDEX],
        SET_NAME: found["metadata"]["name"],
        GROUP_KEY: labels[GROUP_KEY],
    }
    notes = {SIZE: str(size_of(found)), LEADER_NAME: meta["name"], **_own(found, EXCLUSIVE)}
    policy = parts.get("subGroupPolicy")
    if policy:
        notes |= {SUBGROUP_SIZE: str(policy["subGroupSize"]), **_own(found, SUBGROUP_EXCLUSIVE)}
    marks = own | {REVISION: labels.get(REVISION, "")}
    template = _marked(parts["workerTemplate"], marks, notes)
    if place:
        template["spec"]["nodeSelector"] = {**(template["spec"].get("nodeSelector") or {}), **place}
    return _stateful_set(
        found,
        meta["name"],
        marks,
        {},
        {
            "serviceName": meta["name"] if own_subdomains(found) else found["metadata"]["name"],
            "replicas": size_of(found) - 1,
            "template": template,
            "ordinals": {"start": 1},
            "selector": {"matchLabels": own},
        },
    )


def _stateful_set(
    found: Object, name: str, labels: dict[str, str], notes: dict[str, str], spec: Object
) -> Object:
    meta: Object = {"name": name, "namespace": found["metadata"]["namespace"], "labels": labels}
    if notes:
        meta["annotations"] = notes
    claims = found["spec"]["leaderWorkerTemplate"].get("volumeClaimTemplates")
    if claims:
        spec["volumeClaimTemplates"] = own_copy(claims)
    spec["podManagementPolicy"] = "Parallel"
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec}


def _own(found: Object, name: str) -> dict[str, str]:
    value = (found["metadata"].get("annotations") or {}).get(name)
    return {name: value} if value else {}


def _marked(template: Object, labels: dict[str, str], notes: dict[str, str]) -> Object:
    out = own_copy(template)
    meta = out.setdefault("metadata", {})
    meta["labels"] = {**(meta.get("labels") or {}), **labels}
    meta["annotations"] = {**(meta.get("annotations") or {}), **notes}
    return out


# ---------------------------------------------------------------------- the webhook's part


def complete(pod: Object) -> None:
    """Labels, affinity and variables of a pod that belongs to a LeaderWorkerSet; else nothing."""
    meta, spec = pod["metadata"], pod["spec"]
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    if SET_NAME not in labels or SIZE not in notes:
        return
    ordinal = int(meta["name"].rpartition("-")[2])
    subgroups = notes.get(SUBGROUP_SIZE)
    if labels.get(WORKER_INDEX) == "0":
        labels.setdefault(GROUP_INDEX, str(ordinal))
        if notes.get(SUBDOMAIN) == _UNIQUE:
            spec["subdomain"] = meta["name"]
        labels.setdefault(GROUP_KEY, _key(meta["namespace"], meta["name"]))
        if EXCLUSIVE in notes:
            _keep_apart(spec, GROUP_KEY, labels[GROUP_KEY], notes[EXCLUSIVE])
        if subgroups and notes.get(SUBGROUP_TYPE) != "LeaderExcluded":
            _join_subgroup(pod, meta["name"], "0")
    else:
        labels[WORKER_INDEX] = str(ordinal)
        if subgroups:
            each = int(subgroups)
            # A leader that makes the group one too many belongs to the first subgroup.
            extra = (int(notes[SIZE]) - 1) % each == 0
            index = (ordinal - 1 if extra else ordinal) // each
            _join_subgroup(pod, notes[LEADER_NAME], str(index))
    _add_variables(pod)


def _join_subgroup(pod: Object, leader: str, index: str) -> None:
    labels, notes = pod["metadata"]["labels"], pod["metadata"]["annotations"]
    labels[SUBGROUP_INDEX], labels[SUBGROUP_KEY] = index, _key(leader, index)
    if SUBGROUP_EXCLUSIVE in notes:
        _keep_apart(pod["spec"], SUBGROUP_KEY, labels[SUBGROUP_KEY], notes[SUBGROUP_EXCLUSIVE])


def _key(*parts: str) -> str:
    return hashlib.sha1("/".join(parts).encode(), usedforsecurity=False).hexdigest()


def _keep_apart(spec: Object, label: str, value: str, topology: str) -> None:
    """Pods of one key share a domain, pods of another key stay out of it."""
    terms = "requiredDuringSchedulingIgnoredDuringExecution"
    same = {"key": label, "operator": "In", "values": [value]}
    other = [
        {"key": label, "operator": "Exists"},
        {"key": label, "operator": "NotIn", "values": [value]},
    ]
    affinity = spec.setdefault("affinity", {})
    for kind, rules in (("podAffinity", [same]), ("podAntiAffinity", other)):
        term = {"labelSelector": {"matchExpressions": rules}, "topologyKey": topology}
        affinity.setdefault(kind, {}).setdefault(terms, []).append(term)


def _add_variables(pod: Object) -> None:
    """Before the user's own, which may refer to them."""
    meta, spec = pod["metadata"], pod["spec"]
    labels = meta["labels"]
    leader = f"{labels[SET_NAME]}-{labels[GROUP_INDEX]}"
    values = {
        "LWS_LEADER_ADDRESS": f"{leader}.{spec.get('subdomain', '')}.{meta['namespace']}",
        "LWS_GROUP_SIZE": meta["annotations"][SIZE],
        "LWS_WORKER_INDEX": labels[WORKER_INDEX],
    }
    made = [{"name": name, "value": value} for name, value in values.items()]
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        others = [e for e in container.get("env") or () if e["name"] not in values]
        container["env"] = own_copy(made) + others
