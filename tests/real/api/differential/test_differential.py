"""Whatever the world, the same script ends in the same placements, groups, conditions, events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.real.api.differential import picture, script, worlds
from tests.real.control_plane import ControlPlane


def play(world: worlds.World, expected: list[Any] | None = None) -> list[Any]:
    """What is seen after each step; ends at the first that is not as expected."""
    seen: list[Any] = []
    for i, step in enumerate(script.STEPS):
        step(world)
        wanted = expected[i] if expected else None
        seen.append(
            world.settle(lambda: picture.take(world.port, world.namespace, script.QUEUES), wanted)
        )
        if expected and seen[-1] != wanted:
            break
    return seen


def states(seen: Any, name: str) -> dict[str, int]:
    return seen["pods"][name]["states"]


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    with worlds.embedded() as world:
        return play(world)


def test_the_script_tells_what_it_should(expected: list[Any]) -> None:
    """Else the comparison would compare nothing."""
    at = {step.__name__: seen for step, seen in zip(script.STEPS, expected, strict=True)}
    assert states(at["fits"], "small") == {"Running": 4}
    assert states(at["does_not_fit"], "huge") == {"Pending Unschedulable": 5}
    assert states(at["borrows"], "borrower") == {"Running": 12}
    assert states(at["reclaims"], "owner") == {"Running": 8}
    assert states(at["reclaims"], "borrower") == {"Pending Unschedulable": 12}
    assert states(at["preempts"], "urgent") == {"Running": 6}
    assert "small" not in at["stops_what_is_small"]["pods"]
    assert states(at["goes_on"], "small") == {"Running": 4}
    assert at["stays_together"]["pods"]["first-rack"] == {"states": {"Running": 6}, "racks": 1}
    assert states(at["stays_together"], "third-rack") == {"Pending Unschedulable": 4}
    assert states(at["comes_as_pods"], "ray-head") == {"Running": 1}
    reasons = {reason for _, _, reason in expected[-1]["events"]}
    assert len(reasons) >= 4, reasons


@pytest.mark.slow
def test_a_real_server_ends_where_the_embedded_cluster_does(
    ours: ControlPlane,
    real_namespace: str,
    gpu_nodes: Callable[..., list[str]],
    expected: list[Any],
) -> None:
    with worlds.real(ours, real_namespace, gpu_nodes) as world:
        try:
            for i, seen in enumerate(play(world, expected)):
                assert seen == expected[i], script.STEPS[i].__name__
        finally:
            script.forget(world)
