"""The end-to-end benchmark measures what it says: every contender binds every pod."""

from __future__ import annotations

import pytest

from benchmarks import e2e
from tests.real.fixtures import need


@pytest.mark.real
def test_every_contender_binds_every_pod() -> None:
    need(*e2e.PROGRAMS)
    options = e2e.OPTIONS | {"nodes": 4, "pods": 16}
    result = e2e.measure(options)
    assert [row["contender"] for row in result["rows"]] == ["bare", "kube-scheduler", "kai"]
    assert all(row["bound"] == 16 for row in result["rows"])
    assert all(0 < row["p50_ms"] <= row["p99_ms"] and row["cpu_s"] > 0 for row in result["rows"])
    assert "4 nodes" in e2e.table(result)
