"""The console in a real Chromium: how soon it is there, how smoothly it scrolls, what it weighs.

On a large cluster (tests/browser/crowd.py), without a cache, from Chromium's own tracing. Needs
Chromium (`make parts`) and the dev group.
"""

from __future__ import annotations

import json
import platform
import tempfile
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

OPTIONS: dict[str, Any] = {"nodes": 1000, "jobs": 10000}
#: Page -> address and what is there when it can be read.
PAGES = {
    "overview": ("", ".queue-bars li"),
    "queues": ("queues", "tbody tr"),
    "nodes": ("nodes", ".gpu-map canvas"),
    "jobs": ("jobs", ".line:not(.blank)"),
}
#: Page -> what scrolls in it, how far (pixels) and how quickly (pixels a second).
SCROLLED = {"jobs": (".virtual", 12_000, 4_000), "nodes": (".gpu-map", 400, 400)}
CATEGORIES = [
    "loading",
    "blink.user_timing",
    "cc",
    "benchmark",
    "toplevel",
    "devtools.timeline",
    "disabled-by-default-devtools.timeline",
]
PRESENTED = ("STATE_PRESENTED_ALL", "STATE_PRESENTED_PARTIAL")
DROPPED = "STATE_DROPPED"
LONG_TASK_MS = 50.0
#: Longer without a frame: nothing scrolls.
PAUSE_S = 0.5


def measure(options: dict[str, Any]) -> dict[str, Any]:
    from tests.browser import chromium
    from tests.browser.crowd import Crowd, serve

    with ExitStack() as stop:
        crowd = Crowd(options["nodes"], options["jobs"])
        origin = serve(crowd, stop).url.rstrip("/")
        browser = stop.enter_context(chromium.browser())
        _load(browser, origin, "overview")  # the boards are made at the first look
        loads = {name: _load(browser, origin, name) for name in PAGES}
        scrolls = {name: _scroll(browser, origin, name) for name in SCROLLED}
        version = browser.version
    return {
        "benchmark": "console",
        "sizes": {"nodes": options["nodes"], "jobs": options["jobs"]},
        "loads": loads,
        "scrolls": scrolls,
        "static_bytes": _static_bytes(),
        "chromium": version,
        "python": platform.python_version(),
    }


def table(result: dict[str, Any]) -> str:
    sizes = ", ".join(f"{value:,} {key}" for key, value in result["sizes"].items())
    lines = [
        f"console: {sizes}, Chromium {result['chromium']}; the files: {result['static_bytes']:,} B",
        "page       first paint  largest paint   to be read  main thread blocked  transferred",
    ]
    for name, load in result["loads"].items():
        lines.append(
            f"{name:9} {load['first_paint_ms']:9.0f} ms {load['largest_paint_ms']:11.0f} ms"
            f" {load['ready_ms']:9.0f} ms {load['blocked_ms']:17.0f} ms {load['bytes']:10,} B"
        )
    for name, scroll in result["scrolls"].items():
        lines.append(
            f"scrolling {name}: {scroll['frames_per_s']:.0f} frames/s, "
            f"{100 * scroll['dropped']:.1f} % of frames dropped, "
            f"longest task {scroll['longest_task_ms']:.0f} ms"
        )
    return "\n".join(lines)


def _load(browser: Browser, origin: str, name: str) -> dict[str, float]:
    """A page in a fresh profile that has a token: nothing is cached."""
    from tests.browser.stage import TOKEN

    path, shows = PAGES[name]
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    keep = f"sessionStorage.setItem('kai.token', {json.dumps(TOKEN)})"
    context.add_init_script(keep)
    page = context.new_page()
    sizes = _transferred(page)
    events = _Trace(browser, page)
    page.goto(f"{origin}/#/{path}", wait_until="commit")
    page.wait_for_selector(shows)
    ready = page.evaluate("performance.now()")
    page.wait_for_timeout(700)
    found = events.end()
    context.close()
    begin = _begin(found)
    return {
        "first_paint_ms": _first(found, "firstContentfulPaint", begin),
        "largest_paint_ms": _last(found, "largestContentfulPaint::Candidate", begin),
        "ready_ms": ready,
        "blocked_ms": sum(ms - LONG_TASK_MS for ms in _tasks(found) if ms > LONG_TASK_MS),
        "bytes": sum(sizes),
    }


def _scroll(browser: Browser, origin: str, name: str) -> dict[str, float]:
    """One long, quick gesture, as a finger or a wheel makes it."""
    from tests.browser.stage import TOKEN

    path, shows = PAGES[name]
    scrolled, far, speed = SCROLLED[name]
    height = 900 if name == "jobs" else 420  # so that there is something to scroll
    context = browser.new_context(viewport={"width": 1440, "height": height})
    page = context.new_page()
    page.goto(f"{origin}/#token={TOKEN}")
    page.goto(f"{origin}/#/{path}")
    page.wait_for_selector(shows)
    page.wait_for_timeout(1000)
    box = page.locator(scrolled).bounding_box()
    assert box is not None
    session = context.new_cdp_session(page)
    events = _Trace(browser, page)
    for distance in (-far, far):
        gesture = {
            "x": box["x"] + box["width"] / 2,
            "y": box["y"] + box["height"] / 2,
            "yDistance": distance,
            "speed": speed,
            "preventFling": True,
            "gestureSourceType": "mouse",
        }
        session.send("Input.synthesizeScrollGesture", gesture)
    found = events.end()
    context.close()
    shown, missed, seconds = _frames(found)
    return {
        "frames_per_s": shown / seconds if seconds else 0.0,
        "dropped": missed / max(1, shown + missed),
        "longest_task_ms": max(_tasks(found), default=0.0),
    }


# ---------------------------------------------------------------------- the trace


class _Trace:
    """Chromium's own record, from now until `end`."""

    def __init__(self, browser: Browser, page: Page) -> None:
        self._browser = browser
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name) / "trace.json"
        browser.start_tracing(page=page, path=self._path, categories=CATEGORIES)

    def end(self) -> list[dict[str, Any]]:
        self._browser.stop_tracing()
        with self._folder:
            return json.loads(self._path.read_text())["traceEvents"]


def _begin(events: list[dict[str, Any]]) -> float:
    """When the visit that painted last began, in microseconds; NaN where the trace does not say."""
    starts = {_navigation(e): e["ts"] for e in events if e["name"] == "navigationStart"}
    painted = [e for e in events if e["name"] == "firstContentfulPaint"]
    painted.sort(key=lambda e: e["ts"])
    known = [starts[_navigation(e)] for e in painted if _navigation(e) in starts]
    return known[-1] if known else float("nan")


def _navigation(event: dict[str, Any]) -> str:
    """Which visit of a page an event belongs to."""
    return (event["args"].get("data") or {}).get("navigationId", "")


def _first(events: list[dict[str, Any]], name: str, begin: float) -> float:
    times = [e["ts"] for e in events if e["name"] == name and e["ts"] >= begin]
    return (min(times) - begin) / 1000 if times else float("nan")


def _last(events: list[dict[str, Any]], name: str, begin: float) -> float:
    times = [e["ts"] for e in events if e["name"] == name and e["ts"] >= begin]
    return (max(times) - begin) / 1000 if times else float("nan")


def _tasks(events: list[dict[str, Any]]) -> list[float]:
    """Milliseconds of each task of the page's main thread."""
    mains = {
        (e["pid"], e["tid"])
        for e in events
        if e["name"] == "thread_name" and e["args"].get("name") == "CrRendererMain"
    }
    return [
        e["dur"] / 1000
        for e in events
        if e["name"].endswith("RunTask") and e.get("dur") and (e["pid"], e["tid"]) in mains
    ]


def _frames(events: list[dict[str, Any]]) -> tuple[int, int, float]:
    """While something scrolled: frames shown, frames missed, seconds. A frame that was made in two
    parts (scrolled, and drawn anew) counts once."""
    shown: set[tuple[int, int]] = set()
    missed: set[tuple[int, int]] = set()
    times: list[float] = []
    for event in events:
        if event["name"] != "PipelineReporter" or event["ph"] != "b":
            continue
        report = (event.get("args") or {}).get("frame_reporter") or {}
        if report.get("scroll_state", "SCROLL_NONE") == "SCROLL_NONE":
            continue
        frame = (event["pid"], report["frame_sequence"])
        times.append(event["ts"])
        if report["state"] in PRESENTED:
            shown.add(frame)
        elif report["state"] == DROPPED:
            missed.add(frame)
    times.sort()
    gaps = [(b - a) / 1e6 for a, b in pairwise(times)]
    return len(shown), len(missed - shown), sum(gap for gap in gaps if gap < PAUSE_S)


def _transferred(page: Page) -> list[float]:
    """Grows by the bytes of each answer, as they came over the wire."""
    sizes: list[float] = []
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.on("Network.loadingFinished", lambda e: sizes.append(e["encodedDataLength"]))
    return sizes


def _static_bytes() -> int:
    import kai_ray.console

    folder = Path(kai_ray.console.__file__).parent / "static"
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
