"""A card from its opening to its end, as KAI's users see it in the API."""

from __future__ import annotations

from kai_ray.cluster import resources as r
from tests.real.sharing.judge import groups_of
from tests.real.sharing.stage import Stage


def test_the_card_is_kept_named_and_told(stage: Stage) -> None:
    stage.nodes(1, 2)
    stage.schedulers(1)
    stage.pods(["a", "b"], fraction="", gpu_memory="30000")
    assert stage.until(lambda: len(stage.placed()) == 2)
    (keeper,) = stage.keepers()
    pod = stage.port.get(r.POD, "a", stage.namespace)
    (group,) = groups_of(pod)
    assert keeper["metadata"]["labels"]["runai-gpu-group"] == group
    device = keeper["metadata"]["annotations"]["run.ai/reserve_for_gpu_index"]
    assert stage.placed() == {"a": [device], "b": [device]}
    assert pod["metadata"]["annotations"]["received-resource-type"] == "Fraction"
    assert pod["metadata"]["annotations"]["kai.scheduler/gpu-portion"] == "0.38"
    stage.delete("a", "b")
    assert stage.until(lambda: not stage.keepers())
    assert stage.wrong() == []


def test_a_lost_reservation_heals(stage: Stage) -> None:
    stage.nodes(1, 4)
    stage.schedulers(1)
    stage.pods(["a", "b", "c"])
    assert stage.until(lambda: len(stage.placed()) == 3)
    before = stage.placed()
    lost = {k["metadata"]["uid"] for k in stage.keepers()}
    for keeper in stage.keepers():
        meta = keeper["metadata"]
        stage.port.delete(r.POD, meta["name"], meta["namespace"], grace_s=0)

    def healed() -> bool:
        found = {k["metadata"]["uid"] for k in stage.keepers()}
        return len(found) == 2 and not found & lost and not stage.wrong()

    assert stage.until(healed), stage.wrong()
    assert stage.placed() == before


def test_another_scheduler_goes_on_where_one_stopped(stage: Stage) -> None:
    stage.nodes(1, 2)
    (first,) = stage.schedulers(1)
    stage.pods(["a", "b", "c"])
    assert stage.until(lambda: len(stage.placed()) == 3)
    stage.stop(first)
    stage.schedulers(1)
    stage.pods(["d", "e"])
    assert stage.until(lambda: len(stage.placed()) == 4)
    assert len({d for devices in stage.placed().values() for d in devices}) == 2
    assert stage.settles() == []


def test_containers_are_told_through_a_config_map_written_before_the_bind(stage: Stage) -> None:
    stage.nodes(1, 1, **{"kai.scheduler/gpu-isolation": "hami"})
    stage.schedulers(1)
    stage.pods(["a"], **{"runai/shared-gpu-configmap": "a-x7-shared-gpu"})
    assert stage.until(lambda: stage.placed())
    told = stage.port.get(r.CONFIG_MAP, "a-x7-shared-gpu-0", stage.namespace)
    (device,) = stage.placed()["a"]
    assert told["data"]["RUNAI_NUM_OF_GPUS"] == told["data"]["GPU_PORTION"] == "0.50"
    assert told["metadata"]["ownerReferences"][0]["name"] == "a"
    pod = stage.port.get(r.POD, "a", stage.namespace)
    assert pod["metadata"]["annotations"]["kai.scheduler/gpu-devices"] == device


def test_a_scheduler_and_a_binder_of_their_own_share_cards_too(stage: Stage) -> None:
    stage.nodes(1, 2)
    stage.schedulers(1, "podgrouper", "scheduler")
    stage.schedulers(1, "binder")
    stage.pods(["a", "b", "c", "d"])
    assert stage.until(lambda: len(stage.placed()) == 4), stage.all_pods()
    stage.delete("a", "b", "c", "d")
    assert stage.until(lambda: not stage.keepers())
    assert stage.wrong() == []
