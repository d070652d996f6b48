"""Debian's Chromium, driven by Playwright; nothing is downloaded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.parts import debian

if TYPE_CHECKING:
    from playwright.sync_api import Browser

#: No window; time and colours as on any other machine.
FLAGS = ["--headless=new", "--disable-gpu", "--force-color-profile=srgb", "--lang=en-GB"]


@contextmanager
def browser() -> Iterator[Browser]:
    """Skips the test where there is no Chromium."""
    from playwright.sync_api import sync_playwright

    path = debian.need(debian.CHROMIUM)
    # Chromium's own sandbox refuses to start for root.
    flags = [*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=flags)
        try:
            yield opened
        finally:
            opened.close()
