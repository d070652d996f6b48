"""What happens in the cluster appears on the page by itself, with a stream and without one."""

from __future__ import annotations

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from tests.browser.conftest import Viewer
from tests.browser.stage import Stage

pytestmark = pytest.mark.slow


def small(name: str) -> dict:
    main = {"name": "main", "image": "i", "resources": {"limits": {"cpu": "1"}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {L.QUEUE: "search"}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [main]}}},
    }


def test_a_new_job_appears_and_goes(viewer: Viewer, demo: Stage) -> None:
    page = viewer.go("jobs", ".live.live")
    demo.create(small("newcomer"))
    page.locator(".line", has_text="newcomer").locator("text=Running").wait_for()
    demo.cluster.client.delete(R.BY_KIND["batch/v1", "Job"], "newcomer", "default")
    page.locator(".line", has_text="newcomer").wait_for(state="detached")


def test_the_overview_counts_and_tells(viewer: Viewer, demo: Stage) -> None:
    page = viewer.go("", ".live.live")
    page.locator(".feed").wait_for()
    demo.create(small("told-of"))
    page.locator(".feed li", has_text="told-of").first.wait_for()
    demo.cluster.client.delete(R.BY_KIND["batch/v1", "Job"], "told-of", "default")


def test_without_a_stream_it_polls(viewer: Viewer, demo: Stage) -> None:
    viewer.page.route("**/api/v1/live*", lambda route: route.abort())
    viewer.page.reload()
    page = viewer.go("jobs", ".live.polling")
    demo.create(small("polled"))
    page.locator(".line", has_text="polled").wait_for()
    demo.cluster.client.delete(R.BY_KIND["batch/v1", "Job"], "polled", "default")


def test_a_server_that_is_away_is_said_and_waited_for(viewer: Viewer, demo: Stage) -> None:
    page = viewer.go("queues", "tbody tr:nth-child(5)")
    page.wait_for_selector(".live.live")
    page.context.set_offline(True)
    page.evaluate("dispatchEvent(new Event('offline'))")
    page.wait_for_selector(".live.offline, .live.polling", timeout=60_000)
    assert page.locator("tbody tr").count() > 3, "what was known stays"
    page.context.set_offline(False)
    page.wait_for_selector(".live.live", timeout=60_000)


def test_a_field_that_is_typed_in_is_left_alone(viewer: Viewer, demo: Stage) -> None:
    page = viewer.go("queues/search", "input[name=quota]:not([disabled])")
    page.fill("input[name=quota]", "9")
    demo.create(small("meanwhile"))
    page.wait_for_timeout(2500)
    assert page.input_value("input[name=quota]") == "9"
    assert page.evaluate("document.activeElement.name") == "quota"
    demo.cluster.client.delete(R.BY_KIND["batch/v1", "Job"], "meanwhile", "default")
