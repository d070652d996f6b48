"""Queues are changed in the browser: what would follow is shown first, what is saved holds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kai_ray.cluster import resources as R
from tests.browser.conftest import Viewer, until
from tests.browser.stage import Stage

pytestmark = pytest.mark.slow


def gpu_of(stage: Stage, queue: str) -> dict[str, float]:
    return stage.cluster.client.get(R.QUEUE, queue)["spec"]["resources"]["gpu"]


@pytest.fixture
def vision(viewer: Viewer, demo: Stage) -> Iterator[Viewer]:
    before = dict(gpu_of(demo, "vision"))
    viewer.go("queues/vision", ".edit input[name=quota]:not([disabled])")
    yield viewer
    patch = {"spec": {"resources": {"gpu": before}, "priority": None}}
    demo.cluster.client.patch(R.QUEUE, "vision", patch)


def test_a_preview_shows_every_share_that_would_change(vision: Viewer, demo: Stage) -> None:
    page = vision.page
    page.fill("input[name=quota]", "14")
    page.wait_for_selector(".preview li[data-queue=vision]")
    after = float(page.inner_text(".preview li[data-queue=vision] b"))
    assert after > 9, "more quota means a larger share of a full cluster"
    others = page.locator(".preview li:not(.self) .by").all_inner_texts()
    assert "same" not in others, "only shares that change are shown"
    assert gpu_of(demo, "vision")["quota"] == 8, "nothing has been saved"


def test_what_is_saved_takes_effect(vision: Viewer, demo: Stage) -> None:
    page = vision.page
    page.fill("input[name=quota]", "12")
    page.fill("input[name=limit]", "20")
    page.fill("input[name=weight]", "2")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Queue vision is changed").wait_for()
    assert gpu_of(demo, "vision") == {"quota": 12, "limit": 20, "overQuotaWeight": 2}
    until(page, "document.querySelector('tr.on td:nth-child(4)').textContent.trim() === '12'")


def test_unlimited_is_a_word(vision: Viewer, demo: Stage) -> None:
    page = vision.page
    assert page.input_value("input[name=limit]") == "unlimited"
    page.fill("input[name=limit]", "16")
    page.get_by_role("button", name="Save").click()
    page.wait_for_selector(".field:not(.typed) input[name=limit]")
    page.fill("input[name=limit]", "unlimited")
    page.get_by_role("button", name="Save").click()
    until(page, "document.querySelector('.buttons .primary').disabled")
    demo.until(lambda: gpu_of(demo, "vision")["limit"] == -1, "the limit is gone")


@pytest.mark.parametrize(
    ("field", "text", "says"),
    [
        ("quota", "many", "A number"),
        ("limit", "-5", ""),
        ("weight", "-2", ""),
        ("quota", "1e99", ""),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(
    vision: Viewer, demo: Stage, field: str, text: str, says: str
) -> None:
    page = vision.page
    before = dict(gpu_of(demo, "vision"))
    page.fill(f"input[name={field}]", text)
    page.wait_for_selector(f".field:has(input[name={field}]) .field-problem")
    assert says in page.inner_text(".field-problem")
    assert page.get_by_role("button", name="Save").is_disabled()
    assert gpu_of(demo, "vision") == before
    page.get_by_role("button", name="Undo").click()
    page.wait_for_selector(".field-problem", state="detached")


def test_what_somebody_else_changed_meanwhile_is_not_overwritten(
    vision: Viewer, demo: Stage
) -> None:
    page = vision.page
    page.route("**/api/v1/queues", lambda route: route.abort())  # its news do not reach the page
    page.fill("input[name=quota]", "11")
    changed = {"spec": {"resources": {"gpu": {"quota": 9}}}}
    demo.cluster.client.patch(R.QUEUE, "vision", changed)
    page.get_by_role("button", name="Save").click()
    page.get_by_text("changed it from 8 to 9 meanwhile").wait_for()
    assert gpu_of(demo, "vision")["quota"] == 9


def test_a_change_of_something_else_does_not_stand_in_the_way(vision: Viewer, demo: Stage) -> None:
    page = vision.page
    page.route("**/api/v1/queues", lambda route: route.abort())
    page.fill("input[name=quota]", "11")
    demo.cluster.client.patch(R.QUEUE, "vision", {"spec": {"priority": 120}})
    page.get_by_role("button", name="Save").click()
    demo.until(lambda: gpu_of(demo, "vision")["quota"] == 11, "the quota is saved")
    assert demo.cluster.client.get(R.QUEUE, "vision")["spec"]["priority"] == 120


def test_a_queue_is_paused_and_resumed(vision: Viewer, demo: Stage) -> None:
    page = vision.page
    page.get_by_role("button", name="Pause").click()
    page.wait_for_selector("tr.on .badge:has-text('Paused')")
    page.get_by_role("button", name="Resume").click()
    page.wait_for_selector("tr.on .badge", state="detached")
