"""What all tests share: properties are not timed, since the machine may be busy."""

from __future__ import annotations

import os

from hypothesis import settings

pytest_plugins = ["tests.real.fixtures", "tests.workers"]

# In continuous integration a failure must mean the same tomorrow: no random examples there.
settings.register_profile("kai", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("kai")
