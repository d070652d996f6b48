"""Pictures of every page, for docs/: `python -m tests.browser.screenshots [FOLDER]`.

The demo plays for a minute, so that there is something to see; then 1,000 nodes with 10,000 jobs.
"""

from __future__ import annotations

import base64
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page

from tests.browser import chromium
from tests.browser.crowd import Crowd
from tests.browser.crowd import serve as serve_crowd
from tests.browser.stage import DEMO, TOKEN, Stage, open_stage

FOLDER = Path(__file__).parents[2] / "docs" / "console"
SIZE = {"width": 1440, "height": 900}
#: How much the demo has to tell before it is looked at.
PLAYED_S = 60.0
QUALITY = 82

#: file -> address, and what must be there before the picture is taken
DEMO_PAGES = {
    "overview": ("", ".feed li"),
    "queues": ("queues", "tbody tr"),
    "nodes": ("nodes/gpu-3", ".devices li"),
    "jobs": ("jobs", ".line:not(.blank)"),
    "job": ("jobs/default/TrainJob/finetune", ".phases"),
    "decisions": ("decisions", ".cycle"),
    "reports": ("reports?since=1h", ".usage td"),
}
DARK_PAGES = {
    "overview-dark": ("", ".feed li"),
    "job-dark": ("jobs/default/PyTorchJob/resnet", ".phases"),
}
LARGE_PAGES = {
    "large-overview": ("", ".queue-bars li"),
    "large-queues": ("queues", "tbody tr"),
    "large-nodes": ("nodes", ".gpu-map canvas"),
    "large-nodes-use": ("nodes/gpu-37?by=use", ".devices li"),
    "large-jobs": ("jobs?state=Waiting&sort=-gpus", ".line:not(.blank)"),
}


def main(folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stop:
        browser = stop.enter_context(chromium.browser())
        stage = open_stage(DEMO, Path(stop.enter_context(tempfile.TemporaryDirectory())))
        stop.callback(stage.close)
        _play(stage)
        page = _page(browser, stage.origin, "light")
        _take(page, stage.origin, DEMO_PAGES, folder)
        _preview(page, stage, folder)
        _take(_page(browser, stage.origin, "dark"), stage.origin, DARK_PAGES, folder)
        stage.close()
        large = serve_crowd(Crowd(1000, 10000), stop).url.rstrip("/")
        _take(_page(browser, large, "light"), large, LARGE_PAGES, folder)


def _play(stage: Stage) -> None:
    """The demo, and its gang that needs a rack; then a job makes room for an older one."""
    stage.play()
    stage.submit("rules/rack")
    time.sleep(PLAYED_S)


def _page(browser: Browser, origin: str, scheme: Literal["light", "dark"]) -> Page:
    context = browser.new_context(viewport=SIZE, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(f"{origin}/#token={TOKEN}")
    page.wait_for_selector("h1")
    return page


def _take(page: Page, origin: str, pages: dict[str, tuple[str, str]], folder: Path) -> None:
    for name, (path, shows) in pages.items():
        page.goto(f"{origin}/#/{path}")
        page.wait_for_selector(shows)
        page.wait_for_timeout(1500)  # the rest of the page: charts, the stream
        _save(page, folder / f"{name}.webp")


def _preview(page: Page, stage: Stage, folder: Path) -> None:
    page.goto(f"{stage.origin}/#/queues/vision")
    page.fill("input[name=quota]:not([disabled])", "14")
    page.wait_for_selector(".preview li")
    page.wait_for_timeout(1000)
    _save(page, folder / "queue-edit.webp")


def _save(page: Page, path: Path) -> None:
    session = page.context.new_cdp_session(page)
    options = {"format": "webp", "quality": QUALITY}
    path.write_bytes(base64.b64decode(session.send("Page.captureScreenshot", options)["data"]))
    session.detach()
    print(f"{path}  {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
