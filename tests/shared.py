"""Where the recorded facts live that several tests judge by: scenarios, manifests, traces.

They are no part of the repository. `KAI_SHARED` names their folder; without it the folder `shared`
beside the repository is used. Tests that need them are skipped by name where they are absent.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).resolve().parents[2] / "shared"


def find_shared() -> Path | None:
    """The folder of recorded facts, or None."""
    folder = Path(os.environ.get("KAI_SHARED", _BESIDE))
    return folder if folder.is_dir() else None


def shared_dir(*parts: str) -> Path:
    """A folder or file among the recorded facts; skips the calling test where it is absent."""
    folder = find_shared()
    if folder is None:
        pytest.skip("recorded facts are absent: set KAI_SHARED to their folder")
    path = folder.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"recorded facts lack {'/'.join(parts)}")
    return path
