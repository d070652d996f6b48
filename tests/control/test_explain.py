"""Why a workload waits, from any API server: the same words as the conditions, with figures."""

from __future__ import annotations

from kai_ray.cluster import resources as kinds
from kai_ray.controllers.explain import Explanation, explain_workload
from kai_ray.controllers.picture import spared
from kai_ray.encode import Encoder
from tests.evict.world import EvictWorld

from . import objects
from .world import World


def _explain(world: World, name: str, kind: str = "PodGroup") -> Explanation:
    return explain_workload(world.store, kind, name, clock=world.clock)


def test_a_gang_that_does_not_fit_shows_nodes_nearest_and_figures() -> None:
    world = World(nodes=2)
    world.store.create(kinds.NODE, objects.node("closed", cordoned=True))
    world.store.create(kinds.NODE, objects.node("plain", gpus=0))
    world.gang("busy", 15)
    world.run()
    world.gang("large", 2, gpus=2)
    world.run(5)
    told = _explain(world, "large")
    assert told.gangs[0].state == "Waiting"
    assert told.gangs[0].reason == world.condition("large")["reason"]
    assert told.reasons == {"NodeCordoned": 1, "InsufficientGpu": 3}
    assert told.nearest is not None
    assert told.nearest.missing == {"nvidia.com/gpu": "1"}
    assert told.to_dict()["gangs"][0]["nearest"]["node"] == told.nearest.node


def test_a_limit_names_the_queue_and_its_figures() -> None:
    world = World(nodes=2)
    world.queue("capped", gpu={"quota": 0, "limit": 4, "overQuotaWeight": 1})
    world.gang("first", 3, queue="capped")
    world.run()
    world.gang("second", 2, queue="capped")
    world.run(5)
    told = _explain(world, "second")
    assert told.gangs[0].reason == "OverLimit"
    assert told.queue is not None
    assert (told.queue.name, told.queue.refuses) == ("capped", "OverLimit")
    assert told.queue.allocated["nvidia.com/gpu"] == "3"
    assert told.queue.limit["nvidia.com/gpu"] == "4"
    assert "capped" in told.sentence and "4 GPUs" in told.sentence


def test_it_writes_nothing() -> None:
    world = World(nodes=1)
    world.gang("large", 9)
    world.run(5)
    before = world.writes()
    _explain(world, "large")
    assert world.writes() == before


def test_a_gang_that_would_start_now_and_one_that_runs_say_so() -> None:
    world = World(nodes=1)
    world.gang("train", 4)
    assert _explain(world, "train").gangs[0].state == "Starting"
    world.run()
    assert _explain(world, "train").gangs[0].state == "Running"


def test_a_workload_is_found_by_its_owner_and_by_one_of_its_pods() -> None:
    world = World(nodes=1)
    world.gang("large", 9)
    note = "{name: mine, uid: '1', group: ray.io, version: v1, kind: RayJob}"
    patch = {"metadata": {"annotations": {"kai.scheduler/top-owner-metadata": note}}}
    world.store.patch(kinds.POD_GROUP, "large", patch, "default")
    by_owner = _explain(world, "mine", "rayjob")
    by_pod = _explain(world, "large-03", "Pod")
    assert [g.name for g in by_owner.gangs] == [g.name for g in by_pod.gangs] == ["large"]


def test_what_is_not_there_or_not_ours_is_said_plainly() -> None:
    world = World(nodes=1)
    world.store.create(kinds.POD, objects.pod("theirs", scheduler="other"))
    assert "no PodGroup" in _explain(world, "nothing", "RayJob").sentence
    assert "no pod" in _explain(world, "nothing", "Pod").sentence
    assert "other" in _explain(world, "theirs", "Pod").sentence


def test_the_place_a_pod_waits_for_is_kept_by_its_queue_order() -> None:
    world = World(nodes=1)
    world.gang("high", 8, priorityClassName="build-preemptible")
    world.gang("low", 8, priorityClassName="train")
    told = _explain(world, "low")
    assert told.gangs[0].state == "Waiting"
    assert told.behind == ("high",)


def test_a_pod_without_annotation_is_found_through_its_membership() -> None:
    world = World(nodes=1)
    world.store.create(kinds.POD_GROUP, objects.podgroup("late", "default-queue", 1))
    world.store.create(kinds.POD, objects.pod("late-0"))
    told = explain_workload(
        world.store,
        "Pod",
        "late-0",
        member_of=lambda pod: ("late", "") if pod["metadata"]["name"] == "late-0" else None,
        clock=world.clock,
    )
    assert told.gangs[0].state == "Starting"


def test_who_asks_from_outside_knows_who_goes_last_as_the_scheduler_does() -> None:
    """A RayJob that keeps its cluster loses an attempt: the loop evicts it last, and so it says."""
    with EvictWorld("1x8") as evicting:
        evicting.queues(a=8, b=0)
        evicting.ray_job("ends", "b", 2, 1)
        evicting.ray_job("kept", "b", 2, 1, spec={"shutdownAfterJobFinishes": False})
        assert evicting.until(lambda: len(evicting.running("kept")) >= 3, 60)
        known = evicting.cluster.control.suspensions
        groups = evicting.store.list(kinds.POD_GROUP).items
        found = spared(evicting.store, evicting.cluster.clock, Encoder(), groups)
        assert found.resort == known.last_resort() != set()
        assert found.never == known.irreplaceable()


def test_without_workloads_nothing_more_is_listed() -> None:
    world = World(nodes=1)
    world.gang("job", 1)
    groups = world.store.list(kinds.POD_GROUP).items
    assert spared(world.store, world.clock, Encoder(), groups) == (set(), set())
