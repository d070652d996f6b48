"""Several clusters in one console; one of them is down."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Viewer

pytestmark = pytest.mark.slow


def test_the_overview_shows_all_and_says_which_is_down(pair: Viewer) -> None:
    page = pair.go("", ".clusters")
    page.locator(".clusters .card", has_text="large").locator("text=of 64 GPUs").wait_for()
    away = page.locator(".clusters .down", has_text="west")
    away.locator(".badge:has-text('down')").wait_for(timeout=60_000)
    assert len(away.locator(".note").inner_text()) > 10, "why it is down"


def test_another_cluster_is_chosen_and_its_links_stay_in_it(pair: Viewer) -> None:
    page = pair.go("queues", "tbody tr")
    page.get_by_label("Cluster", exact=True).select_option("west")
    page.wait_for_selector(".banner:has-text('west')", timeout=30_000)
    assert "context=west" in page.url
    page.get_by_role("link", name="Jobs", exact=True).click()
    page.wait_for_selector('h1:text-is("Jobs")')
    assert "context=west" in page.url
    page.get_by_label("Cluster", exact=True).select_option("large")
    page.wait_for_selector(".line:not(.blank)")
    assert "context" not in page.url
