"""TrainJob (Trainer v2): its runtime makes a JobSet of it; queue and priority are its own."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from kai_ray.podgrouper.build import merged_over
from kai_ray.podgrouper.groups import Group
from kai_ray.podgrouper.values import (
    GroupError,
    Object,
    annotations_of,
    count,
    flag,
    labels,
    mapping,
    name_of,
    namespace_of,
    sequence,
    text,
)
from kai_ray.podgrouper.workload import UNKNOWN_UID, Rule, Workload

from .jobset import job_set_groups

API = "trainer.kubeflow.org/v1alpha1"
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
NODE, LAUNCHER, TRAINER = "node", "launcher", "trainer"


def runtime_of(w: Workload) -> Object:
    """The (Cluster)TrainingRuntime that the job names."""
    kind = text(w.subject, "spec.runtimeRef.kind") or "ClusterTrainingRuntime"
    name = text(w.subject, "spec.runtimeRef.name")
    if not name:
        raise GroupError("spec.runtimeRef.name", "is missing", "name a training runtime")
    namespace = "" if kind == "ClusterTrainingRuntime" else w.namespace
    found = w.reader.get(API, kind, name, namespace)
    if found is None:
        raise GroupError(
            "spec.runtimeRef.name",
            f"{kind} {name!r} is not known",
            "create the runtime, or name its file too",
        )
    return found


def job_set_of(job: Object, runtime: Object) -> Object:
    """The JobSet that the trainer makes: the runtime's template, the job's numbers and sizes."""
    spec: Any = copy.deepcopy(mapping(runtime, "spec.template.spec"))
    policy = mapping(runtime, "spec.mlPolicy")
    nodes = count(job, "spec.trainer.numNodes", None)
    wanted = count(policy, "numNodes", 1, "spec.mlPolicy") if nodes is None else nodes
    as_node = flag(policy, "mpi.runLauncherAsNode", "spec.mlPolicy")
    if as_node and wanted is not None:  # the launcher is one of the nodes
        wanted = max(wanted - 1, 1)
    sizes = mapping(job, "spec.trainer.resourcesPerNode")
    for i, raw in enumerate(sequence(spec, "replicatedJobs", "spec.template.spec")):
        at = f"spec.template.spec.replicatedJobs[{i}]"
        template = mapping(raw, "template", at)
        step = labels(template).get(STEP, "")
        name = text(raw, "name", at)
        if name == NODE or (step == TRAINER and name != LAUNCHER):
            inner = mapping(template, "spec", f"{at}.template")
            template["spec"] = {**inner, "parallelism": wanted, "completions": wanted}
            raw["replicas"] = 1
        if name == NODE or step == TRAINER:
            _size(template, sizes)
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": name_of(job),
            "namespace": namespace_of(job),
            "uid": UNKNOWN_UID,
            "labels": labels(mapping(runtime, "spec.template")),
            "annotations": annotations_of(mapping(runtime, "spec.template")),
        },
        "spec": spec,
    }


def _size(template: Object, sizes: Object) -> None:
    if not sizes:
        return
    for container in sequence(template, "spec.template.spec.containers"):
        if isinstance(container, dict) and container.get("name") == NODE:
            container["resources"] = sizes


def train_job_groups(w: Workload) -> list[Group]:
    """Only when planning: in a cluster the job's JobSet has the group."""
    if not w.planning:
        return []
    job_set = merged_over(job_set_of(w.subject, runtime_of(w)), w.subject)
    return job_set_groups(replace(w, subject=job_set, owners=(job_set, w.subject)))


RULE = Rule(train_job_groups)
