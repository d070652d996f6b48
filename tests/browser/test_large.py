"""1,000 nodes and 10,000 jobs stay usable."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Viewer, until

pytestmark = pytest.mark.slow


def test_ten_thousand_jobs_are_a_hundred_lines(crowded: Viewer) -> None:
    page = crowded.go("jobs", ".line:not(.blank)")
    assert "10,000" in page.inner_text(".head .sub")
    assert page.locator(".line").count() < 100
    page.keyboard.press("End")
    page.wait_for_selector("#line-9999:not(.blank)")
    assert page.locator(".line").count() < 100


def test_any_stretch_of_them_is_fetched_when_it_is_seen(crowded: Viewer) -> None:
    page = crowded.go("jobs?sort=name", ".line:not(.blank)")
    names: list[str] = []
    for top in (0, 3000, 7000):
        page.evaluate("t => document.querySelector('.virtual').scrollTop = t * 34", top)
        page.wait_for_selector(f"#line-{top + 2}:not(.blank)")
        names.append(page.inner_text(f"#line-{top + 2} .name"))
    assert names == sorted(names)
    assert len(set(names)) == 3


def test_searching_and_filtering_narrow_it_down(crowded: Viewer) -> None:
    page = crowded.go("jobs", ".line:not(.blank)")
    page.fill("input[type=search]", "whisper vision-a")
    until(page, "/^[\\d,]+ of 10,000$/.test(document.querySelector('.head .sub').textContent)")
    found = page.locator(".line:not(.blank)").all_inner_texts()
    assert found
    assert all("whisper" in text and "vision-a" in text for text in found)
    page.get_by_role("button", name="Running").click()
    until(page, "location.hash.includes('state=Running')")
    until(
        page,
        "[...document.querySelectorAll('.line .badge')].every(b => b.textContent === 'Running')",
    )


def test_the_map_shows_every_rack_and_finds_a_node(crowded: Viewer) -> None:
    page = crowded.go("nodes", ".gpu-map canvas")
    drawn = page.evaluate(
        """() => {
          const canvas = document.querySelector('.gpu-map canvas');
          const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
          const seen = new Set();
          for (let i = 0; i < data.length; i += 4) {
            if (data[i + 3]) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
          }
          return seen.size;
        }"""
    )
    assert drawn > 24, "a colour for each of the queues"
    page.fill("input[type=search]", "gpu-517")
    page.get_by_role("button", name="List").click()
    page.wait_for_selector(".line:has-text('gpu-517')")
    assert page.locator(".line").count() == 1


def test_one_long_list_follows_another(crowded: Viewer) -> None:
    page = crowded.go("nodes?view=list", ".line")
    crowded.go("jobs", ".line .badge:has-text('Waiting')")
    page.go_back()
    page.wait_for_selector(".line:has-text('gpu-0')")


def test_nothing_but_what_is_in_view_is_asked_for(crowded: Viewer) -> None:
    asked: list[str] = []
    crowded.page.on("request", lambda r: asked.append(r.url) if "/api/v1/jobs" in r.url else None)
    page = crowded.go("jobs?sort=-age", ".line:not(.blank)")
    page.wait_for_timeout(1000)
    assert len(asked) == 1
