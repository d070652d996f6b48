"""A whole cluster and its history: what was told is what is kept, whoever is killed in between."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import SystemClock, VirtualClock
from kai_ray.history.reader import HistoryReader
from kai_ray.sight.recorder import INTERVAL_S
from tests.sight.worlds import World


def key(event) -> tuple[float, str, str]:
    return (round(event.at_s, 3), event.name, event.what)


def busy(w: World, jobs: int = 12) -> None:
    """Two queues that take from one another."""
    w.queue("rich", 2)
    w.queue("poor", 6)
    for number in range(jobs):
        queue = "rich" if number % 3 else "poor"
        pods, seconds = 1 + number % 4, 50 + 20 * number
        least = 1 if number in (5, 11) else None
        w.job(f"job-{number}", queue, pods, seconds=seconds, least=least, tries=9)
        w.run(25)


def test_what_was_told_is_what_is_kept(tmp_path: Path) -> None:
    with World("2x4", tmp_path) as w:
        busy(w)
        w.run(3000)
        recorder = w.cluster.composition.recorder
        assert recorder is not None and recorder.problem == ""
        reader = recorder.reader()
        assert Counter(map(key, reader.each_event(0))) == Counter(map(key, w.told))
        assert {"evicted", "resumed", "nominated", "shrunk"} <= {e.what for e in w.told}
        rows = reader.jobs()
        assert {row.name for row in rows} == {f"job-{n}" for n in range(12)}
        assert {row.state for row in rows} == {"ended"}
        # What queues held, by samples and by the lives of jobs, is the same but for the sampling.
        series = reader.queues(0)
        sampled = sum((series.of(q)["allocated"] * INTERVAL_S).sum() for q in ("rich", "poor"))
        held = sum(row.held_gpu_s for row in rows)
        assert sampled == pytest.approx(held, rel=0.1)
        assert sum(row.gpu_s for row in reader.spent(0)) == pytest.approx(held, rel=1e-4)
        nodes, cluster = reader.nodes(0), reader.cluster(0)
        assert nodes.names == ("node-0", "node-1") and cluster.names == ("",)
        assert set(nodes.columns["gpus"].ravel().tolist()) == {4.0}
        assert cluster.columns["allocated"].max() <= 8.0


def test_samples_come_at_regular_times(tmp_path: Path) -> None:
    with World("1x4", tmp_path) as w:
        w.queue("team", 4)
        w.run(1000)
        at_s = w.cluster.composition.recorder.reader().queues(0).at_s  # type: ignore[union-attr]
        assert {b - a for a, b in itertools.pairwise(at_s)} == {INTERVAL_S}


def test_a_restart_goes_on_and_tells_nothing_twice(tmp_path: Path) -> None:
    clock = VirtualClock()
    with World("2x4", tmp_path, clock=clock) as w:
        busy(w)
        first = {key(e) for e in w.told}
    with World("2x4", tmp_path, clock=clock) as again:
        again.run(4000)
        reader = again.cluster.composition.recorder.reader()  # type: ignore[union-attr]
        new = {key(e) for e in again.told if not e.replayed}
        kept = Counter(map(key, reader.each_event(0)))
        assert max(kept.values()) == 1
        # A loss that had not settled when the process ended is told by the next one, if at all.
        assert set(kept) >= new | first
        assert {row.state for row in reader.jobs()} == {"ended"}
        for row in reader.jobs():
            words = [e.what for e in reader.events(row.uid)]
            assert words[0] == "created" and words[-1] == "ended"
            assert words.count("created") == words.count("ended") == 1


def test_a_job_deleted_while_nothing_ran_has_ended(tmp_path: Path) -> None:
    clock = VirtualClock()
    with World("2x4", tmp_path, clock=clock) as w:
        w.queue("team", 8)
        w.job("lost", "team", seconds=100_000)
        w.run(100)
    with World("2x4", tmp_path, clock=clock) as between:
        between.cluster.store.delete(R.JOB, "lost", "default")
        for group in between.cluster.store.list(R.POD_GROUP).items:
            between.cluster.store.delete(R.POD_GROUP, group["metadata"]["name"], "default")
        between.run(60)
        (row,) = between.cluster.composition.recorder.reader().jobs()  # type: ignore[union-attr]
        assert (row.state, row.outcome) == ("ended", "Deleted")


def test_without_a_file_nothing_is_recorded_and_all_goes_on() -> None:
    with World() as w:
        assert w.cluster.composition.recorder is None
        w.queue("team", 8)
        w.job("one", "team", seconds=10)
        w.run(60)
        assert w.words("one")[-1] == "ended"


def test_a_file_that_cannot_be_used_is_told_and_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "history.sqlite").write_bytes(b"something else" * 500)
    with World("2x4", tmp_path) as w:
        w.queue("team", 8)
        w.job("one", "team", seconds=10)
        w.run(60)
        assert w.words("one")[-1] == "ended"
        recorder = w.cluster.composition.recorder
        assert recorder is not None and "no SQLite file" in recorder.problem


def test_gpu_use_is_kept_with_jobs_and_nodes(tmp_path: Path) -> None:
    with World(state=tmp_path, gpu_use_s=30) as w:
        w.queue("team", 4)
        w.job("half", "team", pods=2, seconds=100_000, use="50%")
        w.run(1800)
        reader = w.cluster.composition.recorder.reader()  # type: ignore[union-attr]
        (row,) = reader.jobs()
        assert row.known_gpu_s == pytest.approx(row.held_gpu_s, rel=0.25)
        assert row.used_gpu_s / row.known_gpu_s == pytest.approx(0.5, abs=0.1)
        own = reader.gpu(row.uid).of(row.uid)
        assert own["held"][-1] == 2.0 and own["used"][-1] == pytest.approx(1.0, abs=0.2)
        assert own["used_mib"][-1] > 0
        (name,) = reader.nodes(0).names
        node = reader.nodes(0).of(name)
        assert node["used"][-1] == pytest.approx(1.0, abs=0.2)
        whole = reader.cluster(0).of("")
        assert whole["used"][-1] == pytest.approx(1.0, abs=0.2)
        spent = sum(part.used_gpu_s for part in reader.spent(0))
        assert spent == pytest.approx(row.used_gpu_s, rel=0.25)


def test_a_file_that_is_moved_away_is_followed_by_a_new_one(tmp_path: Path) -> None:
    with World("1x4", tmp_path) as w:
        w.queue("team", 4)
        w.job("long", "team", pods=2, seconds=100_000)
        w.run(200)
        old = tmp_path / "old.sqlite"
        (tmp_path / "history.sqlite").rename(old)
        for end in ("-wal", "-shm"):
            (tmp_path / f"history.sqlite{end}").rename(f"{old}{end}")
        w.run(200)
        reader = w.cluster.composition.recorder.reader()  # type: ignore[union-attr]
        (row,) = reader.jobs()
        assert (row.name, row.state) == ("long", "running")
        assert row.held_gpu_s == pytest.approx(2 * 400, rel=0.2)
        assert HistoryReader(old).jobs()[0].name == "long"


def test_a_file_that_is_mended_is_written_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kai_ray.sight.recorder._OPEN_AGAIN_S", 0.01)
    path = tmp_path / "history.sqlite"
    path.write_bytes(b"something else" * 500)
    with World("1x4", tmp_path) as w:
        w.queue("team", 4)
        w.job("one", "team", pods=2, seconds=300)
        w.run(100)
        recorder = w.cluster.composition.recorder
        assert recorder is not None and recorder.problem
        path.unlink()
        time.sleep(0.05)
        w.run(400)
        assert recorder.problem == ""
        assert [e.what for e in recorder.reader().each_event(0)] == w.words("one")
        assert recorder.reader().jobs()[0].held_gpu_s == pytest.approx(600, rel=0.05)


def start(folder: Path, clock: str) -> tuple[subprocess.Popen[str], list[dict]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.history.recording", str(folder), clock],
        stdout=subprocess.PIPE,
        text=True,
    )
    lines: list[dict] = []

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            try:
                lines.append(json.loads(line))
            except ValueError:
                return  # cut short

    threading.Thread(target=read, daemon=True).start()
    return process, lines


@pytest.mark.parametrize(("clock", "steps", "lag_s"), [("virtual", 25, 1.0), ("real", 12, 2.5)])
def test_kill_9_loses_nothing_older_than_an_interval(
    tmp_path: Path, clock: str, steps: int, lag_s: float
) -> None:
    process, lines = start(tmp_path, clock)
    end = time.monotonic() + 60
    while len(lines) < steps and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(lines) >= steps
    last = lines[-1]
    reader = HistoryReader(tmp_path / "history.sqlite")
    kept = {key(e) for e in reader.each_event(0)}
    safe = {
        (round(at, 3), name, what) for at, name, what in last["told"] if at < last["now"] - lag_s
    }
    assert len(safe) > 5 and safe <= kept
    at_s = reader.queues(0).at_s
    assert at_s[-1] > last["now"] - 2 * INTERVAL_S  # the sample of the last whole interval
    # And the next process goes on with it.
    with World("2x4", tmp_path, clock=SystemClock() if clock == "real" else _at(last)) as again:
        again.run(5 if clock == "real" else 3000)
        recorder = again.cluster.composition.recorder
        assert recorder is not None and recorder.problem == ""
        assert len(recorder.reader().jobs(limit=-1)) >= len({name for _, name, _ in safe})


def _at(last: dict) -> VirtualClock:
    clock = VirtualClock()
    clock.advance_to(last["now"])
    return clock


def test_labels_say_whose_job_it_is(tmp_path: Path) -> None:
    with World("1x4", tmp_path) as w:
        w.queue("team", 4)
        w.job("mine", "team", seconds=10, user="grace")
        w.run(60)
        reader = w.cluster.composition.recorder.reader()  # type: ignore[union-attr]
        assert [row.user for row in reader.jobs()] == ["grace"]
        assert [row.name for row in reader.jobs(user="grace", queue="team")] == ["mine"]
