"""Which tests share a worker when several run at once (pytest-xdist).

Control planes are heavy: all tests of tests/real run on one worker, one after the other, and the
contract suite on its real server on one, while others run the rest, a file at a time.
"""

from __future__ import annotations

from typing import Any

import pytest

REAL, CONTRACT = "tests/real/", "tests/contract/"


def group_of(nodeid: str) -> str:
    """Tests with the same answer run on the same worker."""
    file, _, name = nodeid.partition("::")
    if file.startswith(REAL):
        return REAL
    if file.startswith(CONTRACT) and "[real" in name:
        return CONTRACT
    return file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return ByGroup(config, log)
