"""MPIJob (v1, v2beta1): launcher and workers; a launcher that waits for workers joins later."""

from __future__ import annotations

from dataclasses import replace

from kai_ray.api import labels as keys
from kai_ray.api import operator_defaults as operators
from kai_ray.podgrouper.build import with_containers
from kai_ray.podgrouper.groups import Group, Member
from kai_ray.podgrouper.values import metadata, name_of, text
from kai_ray.podgrouper.workload import Rule, Workload

from .kubeflow import kubeflow_group, members, minimum, replica_specs, with_replicas

SPECS = "mpiReplicaSpecs"


def mpi_groups(w: Workload) -> list[Group]:
    floor = minimum(w, SPECS, ("Launcher", "Worker"))
    if _launcher_is_late(w):
        launchers = sum(r.number for r in replica_specs(w, SPECS) if r.kind == "Launcher")
        floor = max(0, floor - launchers)
    return [kubeflow_group(w, floor, _members(w))]


def _members(w: Workload) -> list[Member]:
    """Launcher and workers; in v1 the operator adds an init container to the launcher."""
    found = list(members(w, SPECS))
    if not str(w.subject.get("apiVersion")).endswith("/v1"):
        return found
    init = operators.container(operators.MPI_DELIVERY_CONTAINER, operators.MPI_DELIVERY_RESOURCES)
    return [
        replace(m, template=with_containers(m.template, "initContainers", [init]))
        if m.role == "launcher"
        else m
        for m in found
    ]


def _launcher_is_late(w: Workload) -> bool:
    """Whether workers must run first, and there is no launcher yet."""
    if text(w.subject, "spec.launcherCreationPolicy") != "WaitForWorkersReady":
        return False
    wanted = {keys.TRAINING_JOB_NAME: name_of(w.subject), keys.TRAINING_JOB_ROLE: "launcher"}
    pods = w.reader.list("v1", "Pod", w.namespace, wanted)
    return not any(not metadata(p).get("deletionTimestamp") for p in pods)


RULE = Rule(mpi_groups, defaults=with_replicas(SPECS, {"Worker": 0}))
