"""The script: queues, gangs that fit and that do not, reclaim, preempt, suspend, topology."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kai_ray.api import labels as names
from kai_ray.cluster import resources as r
from kai_ray.cluster.port import NotFound, Object
from tests.real.api.differential.worlds import RACK, World
from tests.real.api.work import job

QUEUES = ("diff-org", "diff-a", "diff-b")
TOPOLOGY = "diff-racks"
_ANY = {"quota": -1, "limit": -1, "overQuotaWeight": 1}

Step = Callable[[World], None]


def queues(world: World) -> None:
    """Two teams with half of the GPUs each."""

    def add(name: str, gpus: int, parent: str = "") -> None:
        share = {"quota": gpus, "limit": -1, "overQuotaWeight": 1}
        spec: Object = {"resources": {"gpu": share, "cpu": _ANY, "memory": _ANY}}
        if parent:
            spec["parentQueue"] = parent
        world.port.create(r.QUEUE, {"metadata": {"name": name}, "spec": spec})

    add("diff-org", 16)
    add("diff-a", 8, "diff-org")
    add("diff-b", 8, "diff-org")
    levels = {"levels": [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]}
    world.port.create(r.TOPOLOGY, {"metadata": {"name": TOPOLOGY}, "spec": levels})


def submit(
    world: World,
    name: str,
    pods: int,
    queue: str,
    *,
    gpus: int = 1,
    priority: str = "",
    notes: dict[str, str] | None = None,
) -> None:
    """A Job; `notes` are annotations."""
    made = job(name, world.namespace, pods, gpus=gpus)
    labels = made["metadata"]["labels"]
    labels[names.QUEUE] = queue
    if priority:
        labels[names.PRIORITY_CLASS] = priority
    made["metadata"]["annotations"] |= notes or {}
    world.port.create(r.JOB, made)


def fits(world: World) -> None:
    submit(world, "small", 4, "diff-a")


def does_not_fit(world: World) -> None:
    submit(world, "huge", 5, "diff-a", gpus=4)


def gives_up(world: World) -> None:
    world.port.delete(r.JOB, "huge", world.namespace)


def borrows(world: World) -> None:
    """All that is left, over the quota."""
    submit(world, "borrower", 12, "diff-a")


def reclaims(world: World) -> None:
    """Within its own quota, at the cost of who borrowed."""
    submit(world, "owner", 8, "diff-b")


def preempts(world: World) -> None:
    """Ahead of its own team's job."""
    submit(world, "urgent", 6, "diff-b", priority="build")


def stops_what_is_small(world: World) -> None:
    patch = {"spec": {"suspend": True}}
    world.port.patch(r.JOB, "small", patch, world.namespace)


def goes_on(world: World) -> None:
    patch = {"spec": {"suspend": False}}
    world.port.patch(r.JOB, "small", patch, world.namespace)


def clears_up(world: World) -> None:
    for name in ("small", "borrower", "owner", "urgent"):
        world.port.delete(r.JOB, name, world.namespace)


def stays_together(world: World) -> None:
    """One gang a rack; a third has none left."""
    notes = {names.TOPOLOGY: TOPOLOGY, names.TOPOLOGY_REQUIRED: RACK}
    for name, pods, queue in (
        ("first-rack", 6, "diff-a"),
        ("second-rack", 6, "diff-b"),
        ("third-rack", 4, "diff-b"),
    ):
        submit(world, name, pods, queue, notes=notes)


def comes_as_pods(world: World) -> None:
    """A head and its workers, made by hand, with a PodGroup of two subgroups."""
    space, group = world.namespace, "ray-like"
    leaves = [{"name": "head", "minMember": 1}, {"name": "workers", "minMember": 2}]
    spec: Object = {"queue": "diff-a", "minMember": 3, "subGroups": leaves}
    world.port.create(r.POD_GROUP, {"metadata": {"name": group, "namespace": space}, "spec": spec})
    for name, leaf in (("head", "head"), ("worker-0", "workers"), ("worker-1", "workers")):
        world.port.create(r.POD, _member(f"ray-{name}", space, group, leaf))


def _member(name: str, space: str, group: str, leaf: str) -> dict[str, Any]:
    about = {
        "name": name,
        "namespace": space,
        "labels": {names.SUBGROUP: leaf},
        "annotations": {names.POD_GROUP: group},
    }
    limits = {"nvidia.com/gpu": "1"} if leaf == "workers" else {"cpu": "1"}
    container = {"name": "main", "image": "none", "resources": {"limits": limits}}
    spec = {"schedulerName": names.SCHEDULER_NAME, "containers": [container]}
    return {"metadata": about, "spec": spec}


STEPS: tuple[Step, ...] = (
    queues,
    fits,
    does_not_fit,
    gives_up,
    borrows,
    reclaims,
    preempts,
    stops_what_is_small,
    goes_on,
    clears_up,
    stays_together,
    comes_as_pods,
)


def forget(world: World) -> None:
    """Takes away what is not in the namespace."""
    for resource, name in [(r.TOPOLOGY, TOPOLOGY), *((r.QUEUE, q) for q in reversed(QUEUES))]:
        try:
            world.port.delete(resource, name)
        except NotFound:
            continue
