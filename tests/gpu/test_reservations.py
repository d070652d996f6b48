"""The pods that keep shared cards: how a card is opened, who may have how much, when it goes."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

from kai_ray.cluster import resources as r
from tests.control import objects
from tests.gpu.stage import Stage
from tests.real.sharing.device_plugin import Devices


def test_the_first_who_shares_opens_a_card_and_the_last_closes_it() -> None:
    stage = Stage(gpus=4)
    stage.scheduler()
    stage.pods("a", "b")
    assert stage.until(lambda: len(stage.placed()) == 2)
    (keeper,) = stage.keepers()
    meta, (pod, other) = keeper["metadata"], stage.sharers()
    group = pod["metadata"]["labels"]["runai-gpu-group"]
    assert other["metadata"]["labels"]["runai-gpu-group"] == group
    digest = hashlib.sha256(f"node-0/{group}".encode()).hexdigest()
    assert meta["name"] == f"gpu-reservation-{digest[:16]}"
    assert meta["labels"] == {"app": "kai-resource-reservation", "runai-gpu-group": group}
    assert meta["annotations"]["karpenter.sh/do-not-disrupt"] == "true"
    (container,) = keeper["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert {e["name"] for e in container["env"]} == {"POD_NAME", "POD_NAMESPACE"}
    assert set(stage.placed().values()) == {(meta["annotations"]["run.ai/reserve_for_gpu_index"],)}
    stage.delete("a")
    stage.run(5)
    assert len(stage.keepers()) == 1
    stage.delete("b")
    stage.run(5)
    assert stage.keepers() == []
    assert stage.wrong() == []


def test_sixteen_halves_on_eight_cards_end_two_per_card() -> None:
    for seed in range(5):
        stage = Stage(gpus=8, seed=seed)
        stage.scheduler()
        stage.pods(*(f"p{i:02}" for i in range(17)))
        stage.until(lambda stage=stage: len(stage.placed()) == 17, 20)
        per_card = Counter(device for devices in stage.placed().values() for device in devices)
        assert sorted(per_card.values()) == [2] * 8
        assert stage.plugin.refused == []
        assert stage.wrong() == []


def test_whole_gpus_and_parts_never_meet_on_a_card() -> None:
    stage = Stage(gpus=2)
    stage.scheduler()
    stage.pods("a")
    stage.pod("whole", gpus=1)
    assert stage.until(lambda: stage.placed().keys() == {"a", "whole"})
    stage.pod("late", gpus=1)
    stage.run(5)
    assert "late" not in stage.placed()
    stage.delete("a")
    assert stage.until(lambda: "late" in stage.placed())
    assert stage.plugin.refused == []
    assert stage.wrong() == []


def test_several_cards_for_one_pod_are_distinct_and_each_is_kept() -> None:
    stage = Stage(gpus=3)
    stage.scheduler()
    stage.pod("two", "0.6", notes={"gpu_fraction_num_devices": "2"})
    stage.pod("m", notes={"gpu_memory": "60000"})
    assert stage.until(lambda: len(stage.placed()) == 2)
    assert len(set(stage.placed()["two"])) == 2
    assert len(stage.keepers()) == 3
    stage.pod("more", notes={"gpu_memory": "20000"})
    assert stage.until(lambda: "more" in stage.placed())
    assert stage.wrong() == []


def test_a_gang_is_bound_only_when_all_of_its_cards_are_there() -> None:
    stage = Stage(nodes=2, gpus=1, silent=True)
    stage.scheduler()
    stage.store.create(r.POD_GROUP, objects.podgroup("g", "default-queue", 2))
    for name in ("g-0", "g-1"):
        stage.pod(name, "0.9", gang="g")
    stage.run(5)
    assert len(stage.keepers()) == 2
    assert not any(p["spec"].get("nodeName") for p in stage.store.list(r.POD, "default").items)
    stage.plugin.silent = False
    for keeper in stage.keepers()[:1]:
        stage.plugin.reconcile(f"kai-resource-reservation/{keeper['metadata']['name']}")
    stage.run(1)
    assert stage.placed() == {}
    for keeper in stage.keepers():
        stage.plugin.reconcile(f"kai-resource-reservation/{keeper['metadata']['name']}")
    assert stage.until(lambda: len(stage.placed()) == 2, 5)
    assert stage.wrong() == []


def test_a_card_that_is_never_named_is_given_back_after_a_while_and_said() -> None:
    stage = Stage(silent=True)
    stage.scheduler()
    stage.pods("a")
    stage.run(45)
    assert stage.placed() == {}
    assert "named no device" in stage.events("a")["BindFailed"]
    stage.plugin.silent = False
    assert stage.until(lambda: "a" in stage.placed(), 120)
    assert stage.wrong() == []


def test_a_card_that_the_node_does_not_have_is_not_promised_again_and_again() -> None:
    stage = Stage(gpus=2)
    stage.plugin.nodes["node-0"] = Devices(1)
    stage.scheduler()
    stage.pods("a", "b", fraction="0.9")
    stage.run(30)
    assert len(stage.placed()) == 1
    assert 1 <= len(stage.plugin.refused) < 15
    assert stage.wrong() == []


def test_after_a_restart_the_books_come_from_the_pods() -> None:
    stage = Stage(gpus=2)
    runtime, _ = stage.scheduler()
    stage.pods("a", "b", "c")
    assert stage.until(lambda: len(stage.placed()) == 3)
    stage.kill(runtime)
    stage.scheduler()
    stage.pods("d", "e")
    stage.run(20)
    assert stage.placed().keys() == {"a", "b", "c", "d"}
    assert len(stage.keepers()) == 2
    assert stage.wrong() == []


def test_the_book_of_a_card_names_who_may_have_how_much() -> None:
    stage = Stage(gpus=1)
    stage.scheduler()
    stage.pods("a", fraction="0.25")
    assert stage.until(lambda: len(stage.placed()) == 1)
    (keeper,) = stage.keepers()
    book = json.loads(keeper["metadata"]["annotations"]["kai.scheduler/gpu-shares"])
    ((uid, entry),) = book.items()
    assert uid == stage.sharers()[0]["metadata"]["uid"]
    assert (entry["pod"], entry["mib"]) == ("default/a", 20_000)


def test_who_shares_without_isolation_is_told_so() -> None:
    stage = Stage(gpus=1)
    stage.scheduler()
    stage.pods("a")
    assert stage.until(lambda: "SharedWithoutIsolation" in stage.events("a"))
    assert "nothing there enforces that" in stage.events("a")["SharedWithoutIsolation"]
    (pod,) = stage.sharers()
    assert pod["metadata"]["annotations"]["kai.scheduler/gpu-isolation"] == "none"
