"""With a history: timelines that outlive a job, figures over time, reports to look at and keep."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import World, world_of


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """`depth` ran for 20 minutes and was deleted; `flow` has run since."""
    from kai_ray.cluster import resources as R

    folder: Path = tmp_path_factory.mktemp("state")
    with world_of(state_dir=folder) as made:
        made.queue("vision", quota=8)
        made.queue("robots")
        made.job("depth", "vision", user="ada", runs_s=1200)
        made.job("flow", "robots", gpus=4, user="bob", runs_s=90_000)
        made.run(1800)
        made.cluster.store.delete(R.JOB, "depth", "default")
        made.run(1800)
        yield made


def test_a_job_that_is_gone_is_told_of_by_the_history(world: World) -> None:
    names = [job["name"] for job in world.get("/jobs")["jobs"]]
    assert names == ["flow"]
    job = world.get("/jobs/default/Job/depth")
    assert (job["state"], job["historyFrom"], job["queue"]) == ("Succeeded", "history", "vision")
    what = [moment["what"] for moment in job["timeline"]]
    assert what[0] == "created" and "started" in what and "ended" in what
    assert world.send("GET", "/api/v1/jobs/default/Job/never").status == 404


def test_a_job_that_lives_has_its_whole_timeline(world: World) -> None:
    job = world.get("/jobs/default/Job/flow")
    assert job["historyFrom"] == "history"
    assert [m["what"] for m in job["timeline"]][:2] == ["created", "grouped"]


def test_queues_over_time(world: World) -> None:
    seen = world.get("/history/queues?queue=vision&since=1h&step=60")
    assert set(seen["series"]) == {"vision"}
    series = seen["series"]["vision"]
    assert len({len(column) for column in series.values()}) == 1
    held = [value for value in series["allocated"] if value is not None]
    assert max(held) == 8 and held[-1] == 0
    assert seen["step"] == 60
    assert set(world.get("/history/queues")["series"]) >= {"vision", "robots"}


def test_jobs_of_the_past(world: World) -> None:
    jobs = {job["name"]: job for job in world.get("/history/jobs?since=1d")["jobs"]}
    assert set(jobs) == {"depth", "flow"}
    assert jobs["depth"]["gpuHours"] == pytest.approx(8 / 3, rel=0.05)
    assert world.get("/history/jobs?user=ada")["jobs"][0]["name"] == "depth"
    assert world.get("/history/jobs?limit=1&offset=1")["jobs"][0]["name"] in jobs


def test_reports_in_every_form(world: World) -> None:
    told = world.get("/reports/usage?by=user&since=1d")
    assert {row["name"] for row in told["rows"]} == {"ada", "bob"}
    answer = world.send("GET", "/api/v1/reports/usage?by=queue&format=csv")
    rows = list(csv.DictReader(io.StringIO(answer.body.decode())))
    assert {row["queue"] for row in rows} >= {"vision", "robots"}
    assert answer.headers["content-disposition"] == 'attachment; filename="usage-queue.csv"'
    page = world.send("GET", "/api/v1/reports/job/default/Job/depth?format=html")
    assert page.headers["content-type"].startswith("text/html") and b"<svg" in page.body
    assert "attachment" in page.headers["content-disposition"]
    assert world.get("/reports/job/default/Job/depth")["outcome"] == "Succeeded"


@pytest.mark.parametrize(
    ("path", "status", "field"),
    [
        ("/reports/usage?by=colour", 400, "by"),
        ("/reports/usage?since=yesteryear", 400, "since"),
        ("/reports/usage?format=pdf", 400, "format"),
        ("/reports/job/default/Job/never", 404, ""),
        ("/history/queues?since=400d", 400, "since"),
        ("/history/queues?since=-5m", 400, "since"),
        ("/history/queues?step=-1", 400, "step"),
        ("/history/queues?queue=" + ",".join(f"q{n}" for n in range(60)), 400, "queue"),
        ("/jobs/default/Job/flow/gpu?since=x", 400, "since"),
    ],
)
def test_what_cannot_be_asked(world: World, path: str, status: int, field: str) -> None:
    answer = world.send("GET", f"/api/v1{path}")
    assert (answer.status, answer.error["field"]) == (status, field), answer.body


def test_a_file_that_cannot_be_read_leaves_the_rest_of_the_pages(world: World) -> None:
    view = world.console.clusters.home.view()
    assert view.history is not None
    path, view.history.path = view.history.path, Path("/nowhere/history.sqlite")
    try:
        assert world.get("/jobs/default/Job/flow")["historyFrom"] == "sight"
        assert "nowhere" in world.get("/history/queues")["problem"]
        assert world.send("GET", "/api/v1/reports/usage").status == 503
        assert world.get("/overview")["state"]["ok"]
    finally:
        view.history.path = path


def test_without_a_history_it_says_what_to_do() -> None:
    with world_of("1x1") as plain:
        assert not plain.get("/session")["history"]
        refused = plain.send("GET", "/api/v1/reports/usage")
        assert refused.status == 404 and "--state" in refused.error["next"]
