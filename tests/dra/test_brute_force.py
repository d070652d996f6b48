"""Against brute force on small nodes: whoever can have devices gets them, and nobody else's."""

from __future__ import annotations

from itertools import permutations
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.dra import objects as o
from tests.dra.planning import Planned

_SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
DOMAIN = f"device.attributes['{o.GPU_DRIVER}']"
#: Expression -> whether a device (a, b) suits.
WHERE: dict[str, Any] = {
    "true": lambda a, b: True,
    f"{DOMAIN}.a == 0": lambda a, b: a == 0,
    f"{DOMAIN}.a == 1": lambda a, b: a == 1,
    f"{DOMAIN}.b == 0": lambda a, b: b == 0,
    f"{DOMAIN}.a == 0 || {DOMAIN}.b == 1": lambda a, b: a == 0 or b == 1,
}

Kind = tuple[int, int]
Want = tuple[str, int]
_kinds = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=6)
_wants = st.lists(
    st.tuples(st.sampled_from(sorted(WHERE)), st.integers(1, 3)), min_size=1, max_size=2
)


def _devices(kinds: list[Kind]) -> list[dict[str, Any]]:
    return [o.device(f"d{i}", attributes={"a": a, "b": b}) for i, (a, b) in enumerate(kinds)]


def _spec(wants: list[Want], bound: bool = False) -> dict[str, Any]:
    requests = [o.exactly(f"r{i}", count=n, where=[w]) for i, (w, n) in enumerate(wants)]
    more = {"constraints": [{"matchAttribute": f"{o.GPU_DRIVER}/b"}]} if bound else {}
    return o.spec(*requests, **more)


def _feasible(kinds: list[Kind], free: list[int], pods: list[tuple[list[Want], bool]]) -> bool:
    """Whether devices for all pods exist, by trying: pods one after the other, with going back."""
    if not pods:
        return True
    (wants, bound), rest = pods[0], pods[1:]
    slots = [where for where, count in wants for _ in range(count)]
    if len(slots) > len(free):
        return False
    seen: set[frozenset[int]] = set()
    for chosen in permutations(free, len(slots)):
        taken = frozenset(chosen)
        if taken in seen or not all(
            WHERE[w](*kinds[d]) for w, d in zip(slots, chosen, strict=True)
        ):
            continue
        if bound and len({kinds[d][1] for d in chosen}) > 1:
            continue
        seen.add(taken)
        if _feasible(kinds, [d for d in free if d not in taken], rest):
            return True
    return False


def _world(kinds: list[Kind], held: set[int]) -> Planned:
    world = Planned(o.slice_of("node-0", _devices(kinds)))
    if held:
        status = {"allocation": o.allocation("node-0", *(f"d{i}" for i in sorted(held)))}
        world.apply(o.claim("theirs", meta={"uid": "theirs"}, status=status))
    return world


@_SETTINGS
@given(_kinds, st.sets(st.integers(0, 5), max_size=2), st.lists(_wants, min_size=1, max_size=4))
@example(
    [(0, 0), (0, 1), (1, 0), (1, 1)], set(), [[(f"{DOMAIN}.a == 0", 2)], [(f"{DOMAIN}.b == 0", 2)]]
)
def test_pods_get_devices_exactly_if_they_exist_beside_those_before(
    kinds: list[Kind], held: set[int], pods: list[list[Want]]
) -> None:
    held = {d for d in held if d < len(kinds)}
    world = _world(kinds, held)
    for i, wants in enumerate(pods):
        world.pod(f"p{i}", _spec(wants))
    found = world.devices()
    free = [d for d in range(len(kinds)) if d not in held]
    placed: list[tuple[list[Want], bool]] = []
    for i, wants in enumerate(pods):
        expected = _feasible(kinds, free, [*placed, (wants, False)])
        assert (f"p{i}" in found) == expected, (kinds, held, pods, found)
        if expected:
            placed.append((wants, False))
    _sound(found, kinds, held)


def _sound(found: dict[str, list[str]], kinds: list[Kind], held: set[int]) -> None:
    every = [d for devices in found.values() for d in devices]
    assert not [d for d in every if d.startswith("!")], found
    assert len(every) == len(set(every))
    assert not set(every) & {f"node-0/d{i}" for i in held}


@_SETTINGS
@given(_kinds, st.sets(st.integers(0, 5), max_size=2), _wants)
def test_one_pod_with_a_constraint_is_placed_exactly_if_it_fits(
    kinds: list[Kind], held: set[int], wants: list[Want]
) -> None:
    held = {d for d in held if d < len(kinds)}
    world = _world(kinds, held)
    world.pod("p", _spec(wants, bound=True))
    found = world.devices()
    free = [d for d in range(len(kinds)) if d not in held]
    assert ("p" in found) == _feasible(kinds, free, [(wants, True)]), (kinds, held, wants, found)
    _sound(found, kinds, held)


@_SETTINGS
@given(_kinds, st.lists(st.tuples(_wants, st.booleans()), min_size=2, max_size=4))
def test_pods_with_and_without_constraints_never_run_into_each_other(
    kinds: list[Kind], pods: list[tuple[list[Want], bool]]
) -> None:
    world = _world(kinds, set())
    for i, (wants, bound) in enumerate(pods):
        world.pod(f"p{i}", _spec(wants, bound))
    found = world.devices()
    _sound(found, kinds, set())
    values = {f"node-0/d{i}": b for i, (_, b) in enumerate(kinds)}
    for i, (_, bound) in enumerate(pods):
        if bound and f"p{i}" in found:
            assert len({values[d] for d in found[f"p{i}"]}) == 1
