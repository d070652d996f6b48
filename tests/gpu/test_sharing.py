"""Two pods on one card, and what keeps a third one off it."""

from __future__ import annotations

from collections import Counter

import pytest

from kai_ray.scheduler import Reason
from kai_ray.scheduler.gpu.order import packed, spread_out
from kai_ray.scheduler.policy import Placement, policy
from tests.core.world import Job, Node, Outcome, Pod, Queue, TaskState, World, X, running


def half(**more: object) -> Pod:
    return Pod(gpus=0, part=0.5, **more)  # type: ignore[arg-type]


def part(of: float, **more: object) -> Pod:
    return Pod(gpus=0, part=of, **more)  # type: ignore[arg-type]


def mib(amount: int, **more: object) -> Pod:
    return Pod(gpus=0, mib=amount, **more)  # type: ignore[arg-type]


def on(node: str, slot: int, of: float = 0.5, state: TaskState = TaskState.RUNNING) -> Pod:
    return part(of, node=node, slots=(slot,), state=state)


def per_card(out: Outcome) -> list[int]:
    """How many pods each device was given to, most first."""
    cards = Counter((out.bound[pod], slot) for pod, slots in out.devices.items() for slot in slots)
    return sorted(cards.values(), reverse=True)


def test_sixteen_halves_at_once_end_two_per_card() -> None:
    jobs = [Job(f"j{i:02}", [half()]) for i in range(16)]
    out = World([Node("a", gpus=4), Node("b", gpus=4)], jobs).decide()
    assert per_card(out) == [2] * 8


def test_sixteen_halves_of_one_gang_end_two_per_card() -> None:
    out = World([Node("a", gpus=8)], [Job("j", [half()] * 16, minimum=16)]).decide()
    assert per_card(out) == [2] * 8


def test_a_seventeenth_half_waits() -> None:
    jobs = [Job(f"j{i:02}", [half()]) for i in range(17)]
    out = World([Node("a", gpus=8)], jobs).decide()
    assert len(out.bound) == 16
    assert out.headline("j16") == "Waiting for GPUs: 0.5 needed at once, 0 free"


def test_a_share_opens_one_card_and_leaves_the_others_whole() -> None:
    jobs = [
        Job("a", [half()]),
        Job("b", [Pod(gpus=1)], created=1),
        Job("c", [Pod(gpus=1)], created=2),
    ]
    out = World([Node("n", gpus=2)], jobs).decide()
    assert set(out.bound) == {"a-0", "b-0"}


def test_whole_gpus_never_land_on_a_shared_card() -> None:
    jobs = [Job("r", [on("n", 0)]), Job("w", [Pod(gpus=2)])]
    out = World([Node("n", gpus=2)], jobs).decide()
    assert out.bound == {}
    assert (
        out.headline("w")
        == "Waiting for GPUs: 2 needed at once, 1 free; nearest node n lacks 1 GPU"
    )


@pytest.mark.parametrize(
    ("gpu", "used", "slot"),
    [
        (Placement.BINPACK, (0.2, 0.5), 1),  # the fullest that fits
        (Placement.BINPACK, (0.2, 0.8), 0),
        (Placement.BINPACK, (0.9, 0.8), 2),  # a new one last
        (Placement.SPREAD, (0.2, 0.5), 2),  # a new one first
    ],
)
def test_which_card_a_share_takes(gpu: Placement, used: tuple[float, float], slot: int) -> None:
    jobs = [Job(f"r{i}", [on("n", i, part_)]) for i, part_ in enumerate(used)]
    out = World([Node("n", gpus=3)], [*jobs, Job("p", [part(0.3)])]).decide(policy(gpu=gpu))
    assert out.devices == {"p-0": (slot,)}


def test_spread_takes_the_emptiest_where_no_card_is_new() -> None:
    jobs = [Job("r0", [on("n", 0, 0.6)]), Job("r1", [on("n", 1, 0.2)])]
    out = World([Node("n", gpus=2)], [*jobs, Job("p", [part(0.3)])]).decide(
        policy(gpu=Placement.SPREAD)
    )
    assert out.devices == {"p-0": (1,)}


def test_the_orders_rate_as_the_field_does() -> None:
    assert packed(0.7, False) > packed(0.2, False) > packed(0.0, True)
    assert spread_out(0.0, True) > spread_out(0.2, False) > spread_out(0.7, False)


def test_several_devices_of_a_pod_are_distinct_and_on_one_node() -> None:
    jobs = [Job("r", [on("a", 0)]), Job("p", [half(devices=3)])]
    out = World([Node("a", gpus=3), Node("b", gpus=2)], jobs).decide()
    assert out.bound["p-0"] == "a"
    assert sorted(out.devices["p-0"]) == [0, 1, 2]


def test_three_devices_do_not_come_from_two_nodes() -> None:
    out = World([Node("a", gpus=2), Node("b", gpus=2)], [Job("p", [half(devices=3)])]).decide()
    assert out.bound == {}
    assert out.waits["p"].reason is Reason.FRAGMENTED_GPU
    assert dict(out.waits["p"].free)[2] == 4


def test_enough_in_sum_on_no_single_card_is_called_fragmented() -> None:
    jobs = [Job("r0", [on("n", 0, 0.7)]), Job("r1", [on("n", 1, 0.6)]), Job("p", [half()])]
    out = World([Node("n", gpus=2)], jobs).decide()
    assert out.waits["p"].reason is Reason.FRAGMENTED_GPU
    assert out.headline("p") == (
        "Waiting for shared GPUs: a pod asks for 0.5 GPUs, 0.7 free in all, at most 0.4 of one "
        "device"
    )


def test_a_card_that_is_being_left_is_promised_not_given() -> None:
    jobs = [Job("r", [on("n", 0, 0.8, X)]), Job("p", [half()])]
    out = World([Node("n", gpus=1)], jobs).decide()
    assert out.bound == {}
    assert out.nominated == {"p-0": "n"}


def test_what_stays_on_a_card_bounds_what_comes_after_the_leaver() -> None:
    stays, leaves = Job("s", [on("n", 0, 0.6)]), Job("l", [on("n", 0, 0.4, X)])
    fits = World([Node("n", gpus=1)], [stays, leaves, Job("p", [part(0.4)])]).decide()
    assert fits.nominated == {"p-0": "n"}
    misses = World([Node("n", gpus=1)], [stays, leaves, Job("p", [half()])]).decide()
    assert misses.nominated == {}


def test_a_card_is_whole_again_when_its_last_user_leaves() -> None:
    jobs = [Job("r", [on("n", 0, 0.3, X)]), Job("w", [Pod(gpus=1)])]
    out = World([Node("n", gpus=1)], jobs).decide()
    assert out.nominated == {"w-0": "n"}


def test_room_that_is_there_now_goes_before_a_fuller_card_that_is_being_left() -> None:
    jobs = [
        Job("a", [on("n", 0, 0.5)]),
        Job("b", [on("n", 0, 0.4, X)]),
        Job("c", [on("n", 1, 0.2)]),
        Job("p", [half()]),
    ]
    out = World([Node("n", gpus=2)], jobs).decide()
    assert out.devices == {"p-0": (1,)}
    assert out.bound == {"p-0": "n"}


def test_memory_is_taken_of_cards_of_any_size() -> None:
    nodes = [Node("small", gpus=1, card=16_000), Node("large", gpus=1, card=80_000)]
    out = World(nodes, [Job("p", [mib(20_000)]), Job("q", [mib(12_000)], created=1)]).decide()
    assert out.bound["p-0"] == "large"
    assert out.bound["q-0"] == "large"  # shared before another card is opened
    assert out.plan.grant_mib.tolist() == [20_000, 12_000]


def test_a_part_counts_by_the_card_it_is_on() -> None:
    nodes = [Node("n", gpus=1, card=16_000)]
    jobs = [Job("r", [on("n", 0, 0.5)]), Job("p", [mib(8_000)]), Job("q", [mib(1)], created=1)]
    out = World(nodes, jobs).decide()
    assert set(out.bound) == {"p-0"}


def test_memory_beyond_every_card_is_said_so() -> None:
    out = World([Node("n", gpus=1, card=16_000)], [Job("p", [mib(20_000)])]).decide()
    assert dict(out.waits["p"].counts) == {Reason.GPU_TOO_SMALL: 1}


def test_memory_needs_a_node_that_says_how_much_it_has() -> None:
    out = World([Node("n", gpus=1)], [Job("p", [mib(1_000)])]).decide()
    assert dict(out.waits["p"].counts) == {Reason.GPU_MEMORY_UNKNOWN: 1}
    assert World([Node("n", gpus=1)], [Job("p", [half()])]).decide().bound == {"p-0": "n"}


def test_every_share_needs_two_pod_slots() -> None:
    out = World([Node("n", gpus=1, pods=1)], [Job("p", [half()])]).decide()
    assert dict(out.waits["p"].counts) == {Reason.NO_POD_SLOT: 1}
    assert World([Node("n", gpus=1, pods=2)], [Job("p", [half()])]).decide().bound


def test_a_shared_card_draws_shares_but_not_pods_without_gpus() -> None:
    nodes = [Node("cpu", gpus=0), Node("gpu", gpus=2)]
    jobs = [Job("r", [on("gpu", 0)]), Job("c", [Pod(gpus=0)]), Job("p", [half()])]
    out = World(nodes, jobs).decide()
    assert out.bound == {"c-0": "cpu", "p-0": "gpu"}


def test_devices_of_resource_slices_are_not_shared_by_fraction() -> None:
    out = World([Node("n", gpus=2, sliced=True)], [Job("p", [half()])]).decide()
    assert dict(out.waits["p"].counts) == {Reason.GPU_NOT_SHAREABLE: 1}


def test_a_pod_that_does_not_say_on_which_card_it_runs_is_counted_all_the_same() -> None:
    jobs = [Job("r", [running("n", gpus=0, part=0.8)]), Job("p", [half()])]
    assert World([Node("n", gpus=1)], jobs).decide().bound == {}


def test_cards_that_hold_too_much_already_are_left_alone() -> None:
    jobs = [Job("a", [on("n", 0, 0.9)]), Job("b", [on("n", 0, 0.9)]), Job("p", [part(0.1)])]
    out = World([Node("n", gpus=1)], jobs).decide()
    assert out.bound == {}


def test_limits_count_parts() -> None:
    jobs = [Job(f"j{i}", [half()], created=float(i)) for i in range(4)]
    out = World([Node("n", gpus=4)], jobs, [Queue("q", gpu_limit=1.5)]).decide()
    assert sorted(out.bound) == ["j0-0", "j1-0", "j2-0"]
    assert (
        out.headline("j3")
        == "Waiting for quota: queue q is at its limit of 1.5 GPUs (1.5 used, 0.5 asked)"
    )


def test_a_limit_counts_memory_by_the_card_that_it_lands_on() -> None:
    nodes = [Node("small", gpus=1, card=40_000), Node("large", gpus=1, card=80_000)]
    out = World(nodes, [Job("p", [mib(8_000)])], [Queue("q", gpu_limit=0.15)]).decide()
    assert out.bound == {"p-0": "large"}  # 0.1 of a card there, 0.2 on the other
    assert out.plan.allocated[2].tolist() == [0.1]
    tight = World(nodes, [Job("p", [mib(8_000)])], [Queue("q", gpu_limit=0.05)]).decide()
    assert tight.waits["p"].reason is Reason.OVER_LIMIT


def test_memory_waits_for_quota_where_only_the_larger_price_is_left() -> None:
    nodes = [Node("small", gpus=1, card=40_000), Node("large", gpus=0, card=80_000)]
    out = World(nodes, [Job("p", [mib(8_000)])], [Queue("q", gpu_limit=0.15)]).decide()
    assert out.bound == {}
    assert out.waits["p"].reason is Reason.OVER_LIMIT


# ---------------------------------------------------------------------- devices that fail


def test_a_device_that_fails_takes_nobody_more() -> None:
    """Slot 0 has half of its room left, and nobody gets it: the second card is opened."""
    jobs = [Job("runs", [on("a", 0)]), Job("new", [half()], created=5.0)]
    out = World([Node("a", gpus=2, closed=(0,))], jobs).decide()
    assert out.devices["new-0"] == (1,)


def test_what_waits_only_for_a_device_that_fails_says_that_nothing_is_free() -> None:
    jobs = [Job("runs", [on("a", 0)]), Job("new", [half()], created=5.0)]
    out = World([Node("a", gpus=1, closed=(0,))], jobs).decide()
    assert not out.bound
    assert "0 free" in out.headline("new")


def test_nobody_is_evicted_from_a_device_that_nobody_may_have() -> None:
    jobs = [
        Job("runs", [on("a", 0)], queue="lent"),
        Job("new", [half()], created=5.0),
        Job("whole", [Pod(gpus=1)], created=6.0),
    ]
    queues = (Queue("q", gpu_quota=1), Queue("lent", gpu_quota=0))
    assert not World([Node("a", gpus=1, closed=(0,))], jobs, queues).decide().evicted


def test_who_shares_a_device_that_fails_stays_while_others_move() -> None:
    """The whole GPU that is asked for is made by moving the other pod."""
    jobs = [
        Job("stuck", [on("a", 0)]),
        Job("moves", [on("a", 1)]),
        Job("beside", [on("b", 0)]),
        Job("new", [Pod(gpus=1)], created=5.0),
    ]
    out = World([Node("a", gpus=2, closed=(0,)), Node("b", gpus=1)], jobs).decide()
    assert set(out.evicted) == {"moves-0"}
    assert out.nominated == {"new-0": "a", "moves-0": "b"}
