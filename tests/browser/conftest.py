"""A real Chromium in front of a console; whatever it complains of fails the test."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from kai_ray.cluster.kubeconfig import Connection
from kai_ray.console.watched import Watched
from tests.browser import chromium
from tests.browser.crowd import Crowd
from tests.browser.crowd import serve as serve_crowd
from tests.browser.stage import DEMO, TOKEN, Stage, open_stage

#: What Chromium calls an error although the page expects it, by its first words.
NETWORK = "Failed to load resource"


@dataclass
class Viewer:
    """One tab. `complaints` are errors of the page; `refusals` answers other than success."""

    page: Page
    origin: str
    complaints: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    def listen(self) -> Viewer:
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda m: self._heard(m.type, m.text, m.location.get("url", "")))
        return self

    def _heard(self, kind: str, text: str, url: str) -> None:
        if kind == "error":
            found = self.refusals if text.startswith(NETWORK) else self.complaints
            found.append(f"{text} {url}")

    def sign_in(self) -> Viewer:
        self.page.goto(f"{self.origin}/#token={TOKEN}")
        self.page.wait_for_selector("h1")
        return self

    def go(self, path: str, shows: str = "h1") -> Page:
        self.page.goto(f"{self.origin}/#/{path}")
        self.page.wait_for_selector(shows)
        return self.page


def until(page: Page, expression: str, timeout_s: float = 15.0) -> None:
    """Waits for JavaScript to be true. Playwright's own way is forbidden by the page's policy."""
    end = time.monotonic() + timeout_s
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"after {timeout_s:g} s still not: {expression}"
        page.wait_for_timeout(50)


@pytest.fixture(scope="package")  # while it is open, no other event loop may run
def browser() -> Iterator[Browser]:
    with chromium.browser() as opened:
        yield opened


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The demo's queues and workloads: some run, some wait. What ends does so in an hour."""
    stage = open_stage(DEMO, Path(tmp_path_factory.mktemp("state")))
    stage.play()
    yield stage
    stage.close()


@pytest.fixture(scope="session")
def large() -> Iterator[str]:
    """1,000 nodes and 10,000 jobs, where they are served."""
    with ExitStack() as stop:
        yield serve_crowd(Crowd(1000, 10000), stop).url.rstrip("/")


@pytest.fixture
def pair(browser: Browser) -> Iterator[Viewer]:
    """Signed in on a console over two clusters, of which the second does not answer."""
    with ExitStack() as stop:
        away = Watched("west", Connection("http://127.0.0.1:9"), home=False)
        away.start()
        stop.callback(away.stop)
        origin = serve_crowd(Crowd(8, 40), stop, away.cluster).url.rstrip("/")
        viewer = _viewer(browser, origin, stop).sign_in()
        yield viewer
        assert viewer.complaints == []


def _viewer(browser: Browser, origin: str, stop: ExitStack) -> Viewer:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    stop.callback(context.close)
    page = context.new_page()
    page.set_default_timeout(15_000)
    return Viewer(page, origin).listen()


@pytest.fixture
def viewer(browser: Browser, demo: Stage) -> Iterator[Viewer]:
    """Signed in on the demo."""
    with ExitStack() as stop:
        viewer = _viewer(browser, demo.origin, stop).sign_in()
        yield viewer
        assert viewer.complaints == []


@pytest.fixture
def stranger(browser: Browser, demo: Stage) -> Iterator[Viewer]:
    """In front of the demo without a token."""
    with ExitStack() as stop:
        viewer = _viewer(browser, demo.origin, stop)
        yield viewer
        assert viewer.complaints == []


@pytest.fixture
def crowded(browser: Browser, large: str) -> Iterator[Viewer]:
    """Signed in on the large cluster."""
    with ExitStack() as stop:
        viewer = _viewer(browser, large, stop).sign_in()
        yield viewer
        assert viewer.complaints == []
