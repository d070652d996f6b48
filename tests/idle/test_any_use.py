"""Whatever a job does with its GPUs: it is suspended after a long enough rest, and never before."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.idle.worlds import world

_FOR, _AFTER = 20, 10  # minutes
_SLACK = 3  # looks are taken every half minute, figures told as often
_spans = st.lists(st.integers(1, 45).filter(lambda m: abs(m - _FOR - _AFTER) > _SLACK), max_size=5)


@settings(max_examples=12, deadline=None)
@given(_spans, st.booleans())
def test_it_goes_after_a_long_enough_rest_and_never_before(spans: list[int], busy: bool) -> None:
    """`spans`: minutes of use and rest in turn; at the end it is busy."""
    phases, at, first = [], 0, None
    for minutes in spans:
        phases.append(f"{'80%' if busy else '1%'} for {minutes}m")
        if not busy and minutes > _FOR + _AFTER and first is None:
            first = at + _FOR + _AFTER
        at, busy = at + minutes, not busy
    phases.append("80%")
    with world(nodes=1) as w:
        w.queue("team", f"below 5% for {_FOR}m, suspend after {_AFTER}m, enforce")
        w.job("job", ", ".join(phases), pods=1)
        if first is None:
            w.run(at + 10)
            assert w.running("job") == 1, w.told
            assert "IdleSuspended" not in [reason for reason, _ in w.told]
            return
        w.run(first - 1)
        assert w.running("job") == 1, "it had its time of grace"
        w.run(1 + _SLACK)
        assert w.running("job") == 0, w.told
