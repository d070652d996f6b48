"""Every page on the running demo, in a real Chromium."""

from __future__ import annotations

import re
from typing import Literal

import pytest

from tests.browser.conftest import Viewer, until
from tests.browser.stage import TOKEN, Stage

pytestmark = pytest.mark.slow

PAGES = {
    "": ("Overview", "Why jobs wait"),
    "queues": ("Queues", "vision"),
    "queues/vision": ("Queues", "Rules"),
    "nodes": ("Nodes", "32 GPUs held"),
    "nodes/gpu-1": ("Nodes", "H100"),
    "nodes?view=list": ("Nodes", "cpu-1"),
    "nodes?by=use": ("Nodes", "busy"),
    "jobs": ("Jobs", "finetune"),
    "jobs/default/TrainJob/finetune": ("finetune", "Timeline"),
    "jobs/default/TrainJob/finetune?tab=events": ("finetune", "Reason"),
    "jobs/default/TrainJob/finetune?tab=yaml": ("finetune", "apiVersion"),
    "decisions": ("Decisions", "started"),
    "reports": ("Usage", "GPU hours held"),
}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_shows_itself_and_complains_of_nothing(
    viewer: Viewer, theme: Literal["light", "dark"]
) -> None:
    viewer.page.emulate_media(color_scheme=theme)
    for path, (title, text) in PAGES.items():
        page = viewer.go(path, f'h1:text-is("{title}")')
        page.get_by_text(text).first.wait_for()
    assert viewer.refusals == []


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("nowhere", "There is no such page"),
        ("queues/nobody", "nobody"),
        ("nodes/none-such", "none-such"),
        ("jobs/default/RayJob/none", "none"),
        ("jobs/%/%E0%A4%A/x", "x"),
        ("jobs?sort=%22%3E%3Cscript&state=%00", "sort"),
        ("reports?by=colour&since=yesterday", "by"),
    ],
)
def test_a_wrong_address_is_answered_with_words(viewer: Viewer, path: str, says: str) -> None:
    page = viewer.go(path, ".banner.bad, .empty:not(.loading)")
    assert says in page.inner_text("main")
    page.keyboard.press("g")
    page.keyboard.press("o")
    page.wait_for_selector('h1:text-is("Overview")')


def test_who_has_no_token_is_asked_for_one(stranger: Viewer) -> None:
    page = stranger.page
    page.goto(f"{stranger.origin}/#/queues")
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("not accepted").wait_for()
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_selector('h1:text-is("Queues")')


def test_the_token_does_not_stay_in_the_address(stranger: Viewer) -> None:
    page = stranger.sign_in().page
    assert "token" not in page.url
    page.reload()
    page.wait_for_selector('h1:text-is("Overview")')
    assert page.context.cookies() == []


def test_a_word_of_a_user_is_never_markup(viewer: Viewer, demo: Stage) -> None:
    evil = "<img src=x onerror=alert(1)>"
    unlimited = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    demo.create(
        {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": "odd"},
            "spec": {
                "displayName": evil,
                "resources": {
                    "gpu": unlimited | {"quota": 1},
                    "cpu": unlimited,
                    "memory": unlimited,
                },
            },
        }
    )
    page = viewer.go("")
    page.get_by_text(evil).wait_for()
    assert page.locator("img").count() == 0


def test_a_chosen_theme_stays(viewer: Viewer) -> None:
    page = viewer.go("queues")
    for theme in ("light", "dark"):
        page.locator(".foot button").first.click()
        page.wait_for_selector(f'html[data-theme="{theme}"]')
    page.reload()
    page.wait_for_selector('html[data-theme="dark"] h1')
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(map(int, re.findall(r"\d+", dark)[:3])) < 120


def test_the_keyboard_reaches_everything(viewer: Viewer) -> None:
    page = viewer.go("")
    for key, title in {"q": "Queues", "n": "Nodes", "j": "Jobs", "d": "Decisions"}.items():
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_selector(f'h1:text-is("{title}")')
    page.keyboard.press("?")
    assert "go to queues" in page.inner_text("dialog")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_selector(".line")
    page.keyboard.press("/")
    page.keyboard.type("resn")
    until(page, "document.querySelectorAll('.line').length === 1")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.wait_for_selector('h1:text-is("resnet")')
    page.keyboard.press("Escape")
    page.wait_for_selector('h1:text-is("Jobs")')
    assert "search=resn" in page.url, "back means back to what was searched for"


def test_anything_is_found_by_a_part_of_its_name(viewer: Viewer) -> None:
    page = viewer.go("")
    page.keyboard.press("Control+k")
    page.keyboard.type("pu-3")
    page.locator("dialog a", has_text="gpu-3").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_selector("aside[aria-label='Node gpu-3']")


def test_a_gpu_on_the_map_leads_to_its_node_and_job(viewer: Viewer, demo: Stage) -> None:
    page = viewer.go("nodes", ".gpu-map canvas")
    box = page.locator(".gpu-map").bounding_box()
    assert box
    page.mouse.move(box["x"] + 25, box["y"] + 40)
    page.wait_for_selector(".map-tip:not([hidden])")
    assert "gpu-0" in page.inner_text(".map-tip")
    page.mouse.click(box["x"] + 25, box["y"] + 40)
    panel = page.locator("aside[aria-label='Node gpu-0']")
    panel.locator(".devices li").nth(7).wait_for()
    panel.locator(".devices a").first.click()
    page.wait_for_selector("text=Timeline")
