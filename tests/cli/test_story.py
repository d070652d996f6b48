"""The demonstration's story: who waited, for what, how long, and how it ended."""

from __future__ import annotations

from kai_ray.cli.story import Story, brief
from kai_ray.sight.jobs.gangs import Gang
from kai_ray.sight.jobs.listing import Job


def job(status: str, reason: str = "", kind: str = "Job", pods: int = 2) -> Job:
    placed = status in ("Running", "Starting")
    gang = Gang(
        name="g",
        queue="a",
        minimum=2,
        pods=pods,
        running=pods if status == "Running" else 0,
        bound=pods if placed else 0,
        succeeded=0,
        failed=0,
        gpus=float(pods),
        priority_class="",
        reason=reason,
        message=f"{reason} it is; more; and more" if reason else "",
        created="",
        nodes=("n1", "n2") if placed else (),
        subgroups=(),
    )
    return Job(
        namespace="default",
        name="j",
        kind=kind,
        api_version="batch/v1",
        queue="a",
        priority=50,
        status=status,
        reason=reason,
        message=gang.message,
        created="",
        gangs=(gang,),
        labels={},
    )


KEY = ("Job", "j")


def test_a_wait_counts_from_submission_to_start() -> None:
    story = Story()
    story.submit(KEY, 1.0)
    story.look([job("Waiting", "GangIncomplete")], 1.5)
    story.look([job("Waiting", "InsufficientGpu")], 2.0)
    story.look([job("Waiting", "WaitingForRelease")], 3.0)
    story.look([job("Running")], 4.0)
    story.look([job("Succeeded", pods=0)], 9.0)
    chapter = story.chapters[KEY]
    assert (chapter.wait_s, chapter.run_s) == (3.0, 5.0)
    assert chapter.waited_for == "InsufficientGpu"  # the first that is a wait at all
    assert chapter.nodes == ("n1", "n2")
    assert chapter.gang == "2 pods, 2 GPUs"  # as it was while it ran
    assert story.waited() == [chapter]


def test_news_is_told_once() -> None:
    story = Story()
    story.submit(KEY, 0.0)
    assert story.look([job("Waiting")], 0.1) == ["  0.1s  Job j waits in queue a"]
    assert story.look([job("Waiting")], 0.2) == []
    (line,) = story.look([job("Waiting", "InsufficientGpu")], 0.3)
    assert line.endswith("Job j in queue a: InsufficientGpu it is; more (InsufficientGpu)")
    assert story.look([job("Starting")], 0.4) == []
    assert story.look([job("Running")], 0.5) == ["  0.5s  Job j runs on n1, n2 (2 pods, 2 GPUs)"]
    assert story.look([job("Succeeded")], 0.6) == ["  0.6s  Job j succeeded"]


def test_a_job_that_had_to_give_way_says_so_and_keeps_its_first_wait() -> None:
    story = Story()
    story.submit(KEY, 0.0)
    story.look([job("Running")], 1.0)
    (line,) = story.look([job("Waiting", "InsufficientGpu")], 2.0)
    assert line.endswith("gave its place to others and is back in queue a")
    story.look([job("Running")], 3.0)
    assert story.chapters[KEY].wait_s == 1.0


def test_jobs_settle_when_they_end_and_services_when_they_run() -> None:
    story = Story()
    story.submit(KEY, 0.0)
    assert not story.settled([]) and story.unsettled([]) == ["Job j (no gang)"]
    story.look([job("Running")], 1.0)
    assert not story.settled([]) and story.unsettled([]) == ["Job j (Running)"]
    assert story.settled(["Job"]) and story.unsettled(["Job"]) == []
    story.look([job("Failed")], 2.0)
    assert story.settled([]) and story.unsettled([]) == ["Job j (Failed)"]


def test_a_brief_message_keeps_the_first_facts() -> None:
    assert brief("a; b; c; d") == "a; b"
    assert brief("") == ""
