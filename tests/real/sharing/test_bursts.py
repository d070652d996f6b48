"""Many at once: no card is ever promised twice, whoever decides."""

from __future__ import annotations

from collections import Counter

from tests.real.sharing.stage import Stage


def _per_card(stage: Stage) -> list[int]:
    held = Counter(device for devices in stage.placed().values() for device in devices)
    return sorted(held.values())


def test_sixteen_halves_on_eight_cards_end_two_per_card(stage: Stage) -> None:
    stage.nodes(1, 8)
    stage.schedulers(1)
    stage.pods([f"p{i:02}" for i in range(16)])
    assert stage.until(lambda: len(stage.placed()) == 16), stage.placed().keys()
    assert _per_card(stage) == [2] * 8
    assert stage.settles() == []
    stage.pods(["late"])
    stage.delete("p00")
    assert stage.until(lambda: "late" in stage.placed())
    stage.delete("late", *(f"p{i:02}" for i in range(1, 16)))
    assert stage.until(lambda: not stage.keepers()), "cards are kept for nobody"
    assert stage.plugin.refused == []
    assert stage.wrong() == []


def test_two_live_schedulers_share_out_the_same_cards(stage: Stage) -> None:
    stage.nodes(2, 8)
    stage.schedulers(2)
    stage.pods([f"p{i:02}" for i in range(36)])
    assert stage.until(lambda: len(stage.placed()) == 32, 60), len(stage.placed())
    assert _per_card(stage) == [2] * 16
    assert stage.settles() == []
    assert stage.plugin.refused == []


def test_a_thousand_at_once(stage: Stage) -> None:
    stage.nodes(32, 8)
    stage.schedulers(1)
    stage.pods([f"p{i:03}" for i in range(1000)], fraction="0.25")
    assert stage.until(lambda: len(stage.placed()) == 1000, 300), len(stage.placed())
    assert _per_card(stage) == [4] * 250
    assert stage.settles() == []
    assert stage.plugin.refused == []
