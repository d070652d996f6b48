"""The console's small functions, asked in the browser that runs them."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Viewer

pytestmark = pytest.mark.slow

CASES = [
    ("format.js", "number", [0.5], "0.5"),
    ("format.js", "number", [-1], "unlimited"),
    ("format.js", "number", [None], "\u2013"),
    ("format.js", "number", [12345.678], "12,345.7"),
    ("format.js", "span", [59.6], "1m"),
    ("format.js", "span", [3599], "59m 59s"),
    ("format.js", "span", [3600], "1h"),
    ("format.js", "span", [90061], "1d 1h"),
    ("format.js", "span", [-5], "0s"),
    ("format.js", "percent", [0.505], "51%"),
    ("format.js", "words", ["InsufficientGpu"], "insufficient GPU"),
    ("format.js", "plural", [1, "GPU"], "1 GPU"),
    ("format.js", "plural", [0.5, "GPU"], "0.5 GPUs"),
    ("format.js", "seconds", ["not a time"], None),
    ("charts/series.js", "rounded", [32], 40),
    ("charts/series.js", "rounded", [0], 1),
    (
        "charts/series.js",
        "rowsOf",
        [{"at": [1, 2], "v": [3, None]}],
        [{"at": 1, "v": 3}, {"at": 2, "v": None}],
    ),
]


def test_small_functions(viewer: Viewer) -> None:
    for module, name, arguments, expected in CASES:
        found = viewer.page.evaluate(
            "async ([m, n, a]) => (await import(`/js/${m}`))[n](...a) ?? null",
            [module, name, arguments],
        )
        assert found == expected, f"{name}({arguments})"


def test_a_life_becomes_phases(viewer: Viewer) -> None:
    whats = ["created", "waits", "started", "evicted", "waits", "resumed", "started", "ended"]
    timeline = [{"at": i * 10, "what": what, "reason": ""} for i, what in enumerate(whats)]
    found = viewer.page.evaluate(
        """async t => (await import('/js/charts/phases.js')).phasesOf(t, 1000)
            .map(p => [p.phase, p.from, p.to])""",
        timeline,
    )
    assert found == [
        ["waiting", 0, 20],
        ["running", 20, 30],
        ["away", 30, 50],
        ["waiting", 50, 60],
        ["running", 60, 70],
    ]
