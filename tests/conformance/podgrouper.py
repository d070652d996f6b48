"""Runs a `unit__podgrouper` vector: KAI's answer, except where our rules decide otherwise.

`check` derives the group as the vectors pose the question: a pod, its top owner, what can be read.
Where a rule of ours applies to the *input*, KAI's expectation is rewritten by that rule,
here and without the product's help; if that changes it, the case "differs by rule N".
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kai_ray.api import labels as keys
from kai_ray.api.durations import parse_duration
from kai_ray.podgrouper.groups import Group, SubGroup, Topology
from kai_ray.podgrouper.kinds import (
    aml,
    cronjob,
    default,
    deployment,
    grove,
    job,
    jobset,
    knative,
    kubeflow,
    lws,
    mpi,
    pod,
    pytorch,
    ray_cluster,
    ray_job,
    ray_service,
    runai_job,
)
from kai_ray.podgrouper.registry import WRAPPERS, kind_key, resolve
from kai_ray.podgrouper.values import GroupError
from kai_ray.podgrouper.workload import Rule, Settings, Workload

from .podgrouper_rules import rewrite

#: What ours say beside KAI's, of which KAI's answer knows nothing.
_MORE = (keys.GROWS_TOGETHER,)

RULES: dict[str, Rule] = {
    "aml.AmlGrouper": aml.RULE,
    "cronjobs.CronJobGrouper": cronjob.RULE,
    "defaultgrouper.DefaultGrouper": default.DEFAULT,
    "deployment.DeploymentGrouper": deployment.RULE,
    "grove.GroveGrouper": grove.RULE,
    "jax.JaxGrouper": kubeflow.JAX_JOB,
    "job.K8sJobGrouper": job.RULE,
    "jobset.JobSetGrouper": jobset.RULE,
    "knative.KnativeGrouper": knative.RULE,
    "leaderworkerset.LwsGrouper": lws.RULE,
    "mpi.MpiGrouper": mpi.RULE,
    "notebook.NotebookGrouper": default.NOTEBOOK,
    "podjob.PodJobGrouper": pod.RULE,
    "pytorch.PyTorchGrouper": pytorch.RULE,
    "ray.RayClusterGrouper": ray_cluster.RULE,
    "ray.RayJobGrouper": ray_job.RULE,
    "ray.RayServiceGrouper": ray_service.RULE,
    "runaijob.RunaiJobGrouper": runai_job.RULE,
    "spotrequest.SpotRequestGrouper": default.INFERENCE,
    "tensorflow.TensorFlowGrouper": kubeflow.TF_JOB,
    "xgboost.XGBoostGrouper": kubeflow.XGBOOST_JOB,
}


class VectorReader:
    """Answers with what KAI's grouper read in the vector, whatever it is asked for."""

    def __init__(self, reads: Sequence[Mapping[str, Any]]) -> None:
        self._gets = {r["key"]: r["object"] for r in reads if r["op"] == "get"}
        self._lists = [r["object"] or {} for r in reads if r["op"] == "list"]

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Any:
        keys = (f"{namespace}/{name}", f"/{name}")
        found = next((self._gets[k] for k in keys if self._gets.get(k)), None)
        if found is None:
            return None
        stated = found.get("kind")
        return found if not stated or stated == kind else None

    def list(
        self,
        api_version: str,
        kind: str,
        namespace: str = "",
        labels: Mapping[str, str] | None = None,
    ) -> Sequence[Any]:
        return [item for answer in self._lists for item in answer.get("items") or ()]

    def owned(self, api_version: str, kind: str, uid: str) -> Sequence[Any]:
        return self.list(api_version, kind)


def check(case: Mapping[str, Any]) -> tuple[str, str]:
    """("passed" | "failed" | "skipped" | "differs by rule N", detail)."""
    given = case["input"]
    if given["grouper"].startswith("karta."):
        return (
            "skipped",
            "the vector does not hold the Karta definition that the answer follows from",
        )
    verdict, wanted = rewrite(case)
    got = derive(given)
    name = (given["pod"].get("metadata") or {}).get("name", "")
    problem = compare(wanted, got, name)
    if problem:
        return "failed", f"{verdict}: {problem}" if verdict else problem
    return verdict or "passed", ""


def derive(given: Mapping[str, Any]) -> tuple[Group, str | None] | GroupError:
    """(the pod's group, its subgroup), or the refusal."""
    rule, w = _posed(given)
    assert w.pod is not None
    try:
        groups = rule.groups(w)
        if not groups:
            return GroupError("workload", "has no group for the pod", "")
        place = rule.place(w, w.pod, groups)
    except GroupError as error:
        return error
    group = next((g for g in groups if g.name == place.group), None)
    if group is None:
        group = replace(groups[0], name=place.group, min_member=1)
    return group, place.subgroup


def _posed(given: Mapping[str, Any]) -> tuple[Rule, Workload]:
    config, top = given["config"], given["top_owner"] or {}
    where = config.get("default_config_per_type_config_map_name")
    settings = Settings(
        queue_label=config.get("queue_label_key", "kai.scheduler/queue"),
        node_pool_label=config.get("node_pool_label_key", "kai.scheduler/node-pool"),
        defaults_config_map=(config["default_config_per_type_config_map_namespace"], where)
        if where
        else None,
        search_legacy=bool(config.get("search_for_legacy_pod_groups", False)),
        knative_gang=bool(config.get("gang_schedule", True)),
    )
    top = copy.deepcopy(top)
    lower = [o for o in given["other_owners"] or () if not _same(o, top)]
    reader = VectorReader(given["api_reads"] or ())
    owners = (*(_whole(o, reader) for o in lower), top)
    w = Workload(top, owners, copy.deepcopy(given["pod"]), reader, settings)
    name = given["grouper"]
    if name == "skiptopowner.skipTopOwnerGrouper":
        return _skipping(w)
    if name == "kubeflow.KubeflowDistributedGrouper":
        mandatory = given.get("arg_mandatory_spec_names") or ()
        return kubeflow.flat_rule(given["arg_replica_spec_name"], *mandatory), w
    rule = RULES[name]
    return rule, w


def _same(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    name = (a.get("metadata") or {}).get("name")
    return a.get("kind", "") == b.get("kind", "") and name == (b.get("metadata") or {}).get("name")


def _whole(owner: Mapping[str, Any], reader: VectorReader) -> dict[str, Any]:
    meta = owner.get("metadata") or {}
    found = reader.get("", str(owner.get("kind")), meta.get("name", ""), meta.get("namespace", ""))
    return {**(found or {}), **copy.deepcopy(dict(owner))}


def _skipping(w: Workload) -> tuple[Rule, Workload]:
    """KAI's unit tests of the skipping grouper register no other: all below is the default."""
    known = kind_key(w.top) in WRAPPERS
    if known:
        return resolve(w)
    WRAPPERS[kind_key(w.top)] = None
    try:
        _, found = resolve(w)
    finally:
        del WRAPPERS[kind_key(w.top)]
    return default.DEFAULT, found


def compare(wanted: Mapping[str, Any], got: tuple[Group, str | None] | GroupError, pod: str) -> str:
    """ "" where equal, else the first difference."""
    if isinstance(got, GroupError):
        return "" if wanted["error"] else f"refused: {got}"
    if wanted["error"]:
        return f"not refused; KAI says: {wanted['error']}"
    group, subgroup = got
    mine, theirs = _normal_group(group, subgroup), _normal(wanted["metadata"], pod)
    for key in theirs:
        if mine[key] != theirs[key]:
            return f"{key}: {mine[key]!r} instead of {theirs[key]!r}"
    return ""


def _normal(meta: Mapping[str, Any], pod: str) -> dict[str, Any]:
    subs = [
        {
            "name": s["name"],
            "min_available": s.get("min_available") or 0,
            "min_sub_group": s.get("min_sub_group"),
            "parent": s.get("parent"),
            "holds_pod": pod in (s.get("pods") or ()),
            "topology": _topology(s.get("topology_constraint")),
        }
        for s in meta["sub_groups"] or ()
    ]
    return {
        "name": meta["name"],
        "namespace": meta["namespace"],
        "queue": meta["queue"],
        "priority_class": meta["priority_class_name"],
        "preemptibility": meta["preemptibility"] or "",
        "min_available": meta["min_available"] or 0,
        "min_sub_group": meta.get("min_sub_group"),
        "owner": {k: meta["owner"].get(k, "") for k in ("apiVersion", "kind", "name", "uid")},
        "labels": meta["labels"] or {},
        "annotations": meta["annotations"] or {},
        "topology": _topology(meta["topology_constraint"]),
        "preemption_delay": _seconds(meta.get("preemption_delay")),
        "staleness": _seconds(meta.get("staleness_grace_period")),
        "sub_groups": subs,
    }


def _normal_group(group: Group, subgroup: str | None) -> dict[str, Any]:
    owner = group.owner
    return {
        "name": group.name,
        "namespace": group.namespace,
        "queue": group.queue,
        "priority_class": group.priority_class,
        "preemptibility": group.preemptibility,
        "min_available": group.min_member or 0,
        "min_sub_group": group.min_sub_group,
        "owner": {
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "name": owner.name,
            "uid": owner.uid,
        },
        "labels": group.labels,
        "annotations": {k: v for k, v in group.annotations.items() if k not in _MORE},
        "topology": _mine(group.topology),
        "preemption_delay": _seconds(group.preemption_delay),
        "staleness": _seconds(group.staleness_grace_period),
        "sub_groups": [_normal_sub(s, subgroup) for s in group.sub_groups],
    }


def _normal_sub(sub: SubGroup, holds: str | None) -> dict[str, Any]:
    return {
        "name": sub.name,
        "min_available": sub.min_member or 0,
        "min_sub_group": sub.min_sub_group,
        "parent": sub.parent,
        "holds_pod": sub.name == holds,
        "topology": _mine(sub.topology),
    }


def _mine(constraint: Topology | None) -> tuple[str, str, str]:
    found = constraint or Topology()
    return found.name, found.required, found.preferred


def _topology(raw: Mapping[str, Any] | None) -> tuple[str, str, str]:
    raw = raw or {}
    return (
        raw.get("topology") or "",
        raw.get("required_level") or "",
        raw.get("preferred_level") or "",
    )


def _seconds(value: Any) -> float | None:
    """A Go duration as text, as nanoseconds, or as an object that wraps either."""
    if isinstance(value, Mapping):
        value = next(iter(value.values()), None)
    if value in (None, ""):
        return None
    return parse_duration(value) if isinstance(value, str) else value / 1e9
