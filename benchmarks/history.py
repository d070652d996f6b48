"""Write a month of history for a large cluster and read it back: size, cost, times.

Jobs come and go as on a busy cluster (waits, starts, evictions, ends); queues, nodes and the GPU
use of jobs are sampled as by the scheduler, with noise, and rolled up and forgotten as it goes on.
"""

from __future__ import annotations

import heapq
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kai_ray.history.families import CLUSTER, DAY_S, JOBS, NODES, QUEUES
from kai_ray.history.job_book import Use
from kai_ray.history.job_event import JobEvent, What
from kai_ray.history.journal import HistorySettings, Journal
from kai_ray.history.reader import HistoryReader

OPTIONS = {"nodes": 1000, "jobs": 100_000, "queues": 100, "days": 30.0}
START, GPUS = 1_767_225_600.0, 8
_STEP = QUEUES.levels[0].step_s


def measure(options: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.sqlite"
        return _written(path, options) | {"read_ms": _read(path, options)}


def _written(path: Path, options: dict[str, Any]) -> dict[str, Any]:
    end_s = START + options["days"] * DAY_S
    journal = Journal(HistorySettings(path), START)
    world = _World(options)
    events = world.events(end_s)
    upcoming = next(events, None)
    cpu_s, longest_s, now = time.process_time(), 0.0, START
    while now < end_s:
        now += _STEP
        while upcoming is not None and upcoming.at_s <= now:
            world.take(upcoming)
            journal.jobs.take(upcoming)
            upcoming = next(events, None)
        world.sample(journal, now)
        begin = time.perf_counter()
        journal.advance(now, 10 * _STEP)
        if not journal.commit():
            raise SystemExit(journal.problem)
        journal.roll_up(now)
        if now % 3600 == 0:
            journal.forget(now)
        longest_s = max(longest_s, time.perf_counter() - begin)
    cpu_s = time.process_time() - cpu_s
    journal.forget(now)
    sizes = _sizes(journal)
    journal.close()
    about = HistoryReader(path).about()
    return {
        "benchmark": "history",
        "sizes": {name: options[name] for name in OPTIONS},
        "file_mb": round(path.stat().st_size / 1e6, 1),
        "parts_mb": sizes,
        "jobs": about.jobs,
        "events": about.events,
        "samples": about.samples,
        "cpu_s": round(cpu_s, 1),
        "cpu_ms_per_sample": round(1000 * cpu_s / (options["days"] * DAY_S / _STEP), 2),
        "longest_write_ms": round(1000 * longest_s, 1),
    }


def _sizes(journal: Journal) -> dict[str, float]:
    """Payload by table; what is left of the file is indices and room."""
    sums = {
        "samples": "SELECT family || ' ' || step_s, sum(length(data) + 24) FROM samples GROUP BY 1",
        "jobs": "SELECT 'jobs', sum(length(uid) + length(namespace) + length(name) + length(held) "
        "+ length(holding) + length(grp) + length(message) + 200) FROM jobs",
        "events": "SELECT 'events', sum(length(reason) + length(message) + length(nodes) "
        "+ length(for_whom) + length(grp) + 30) FROM events",
    }
    rows = [row for query in sums.values() for row in journal._file.read(query)]
    return {name: round((size or 0) / 1e6, 2) for name, size in rows}


def _read(path: Path, options: dict[str, Any]) -> dict[str, float]:
    reader = HistoryReader(path)
    end = START + options["days"] * DAY_S
    job = reader.jobs(limit=1)[0]
    asked: dict[str, Callable[[], object]] = {
        "a job and its events": lambda: (reader.job(job.uid), reader.events(job.uid)),
        "a page of jobs": lambda: reader.jobs(end - DAY_S, limit=100),
        "queues, a day": lambda: reader.queues(end - DAY_S),
        "queues, a month": lambda: reader.queues(START),
        "nodes, a week": lambda: reader.nodes(end - 7 * DAY_S, end, 3600),
        "GPU use of a job": lambda: reader.gpu(job.uid),
        "spending, a month": lambda: reader.spent(START, end, ("queue", "user")),
    }
    found: dict[str, float] = {}
    for name, ask in asked.items():
        begin = time.perf_counter()
        ask()
        found[name] = round(1000 * (time.perf_counter() - begin), 1)
    return found


class _World:
    """Jobs of 1 to 64 GPUs that wait, run for hours, and are sometimes evicted on their way."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._draw = np.random.default_rng(1)
        self._options = options
        self.queues = [f"department-{q % 10}-team-{q}" for q in range(options["queues"])]
        self.nodes = [f"gpu-node-{n:04d}" for n in range(options["nodes"])]
        self._held: dict[str, tuple[float, int]] = {}  # running jobs: GPUs, queue
        self._queue_held = np.zeros(len(self.queues))
        self._allocated = np.zeros(len(self.nodes))
        self._uses: list[Use] = []

    def events(self, end_s: float) -> Iterator[JobEvent]:
        """By time."""
        draw, count = self._draw, self._options["jobs"]
        births = np.sort(draw.uniform(START, end_s, count))
        later: list[tuple[float, int, JobEvent]] = []
        number = 0
        for job, born in enumerate(births.tolist()):
            for event in self._life(job, born):
                number += 1
                heapq.heappush(later, (event.at_s, number, event))
            following = births[job + 1] if job + 1 < count else end_s
            while later and later[0][0] <= following:
                yield heapq.heappop(later)[2]

    def _life(self, job: int, born: float) -> Iterator[JobEvent]:
        draw = self._draw
        gpus = float(draw.choice([1, 1, 1, 2, 4, 8, 8, 16, 64]))
        person = int(draw.integers(300))
        queue, user = person % len(self.queues), f"user-{person}"
        mean_s = 0.8 * len(self.nodes) * GPUS * (self._options["days"] * DAY_S)
        run_s = float(draw.exponential(mean_s / self._options["jobs"] / 12))
        first = int(draw.integers(len(self.nodes)))
        where = tuple(
            self.nodes[(first + n) % len(self.nodes)] for n in range(max(1, int(gpus) // GPUS))
        )
        uid = f"{job:08x}-5a1c-4f2e-9b7d-{job * 7919 % 2**48:012x}"

        def made(at_s: float, what: What, held: float = 0.0, **more: Any) -> JobEvent:
            types = (("NVIDIA-H100-80GB-HBM3", "h100", held),) if held else ()
            return JobEvent(
                at_s, what, uid, f"team-{queue}", f"train-llm-{job}", "PyTorchJob",
                "kubeflow.org/v1", f"pg-train-llm-{job}-{uid}", self.queues[queue], user, "",
                gpus, held, int(held), types=types, **more,
            )  # fmt: skip

        yield made(born, "created")
        yield made(born, "grouped")
        at = born + float(draw.exponential(1800))
        reason = str(draw.choice(["InsufficientGpu", "BehindOthers", "OverLimit"]))
        text = f"{int(draw.integers(900))} nodes lack GPUs; the nearest lacks {int(gpus)} of them"
        yield made(born + 1, "waits", reason=reason, message=text)
        yield made(at, "started", gpus, nodes=where)
        yield made(at + 20, "ready", gpus)
        if draw.random() < 0.15:
            at += run_s / 2
            text = "Evicted for PyTorchJob other of queue other, which is below its share (reclaim)"
            whom = "PyTorchJob team-1/other"
            yield made(at, "evicted", reason="Reclaimed", message=text, for_whom=whom, nodes=where)
            at += 600
            yield made(at, "resumed", gpus, nodes=where)
            yield made(at + 20, "ready", gpus)
        how = str(draw.choice(["Succeeded", "Failed"], p=[0.9, 0.1]))
        message = f"{int(gpus)} pods have succeeded, none is left"
        yield made(at + run_s, "ended", reason=how, message=message)

    def take(self, event: JobEvent) -> None:
        gpus, queue = self._held.pop(event.uid, (0.0, 0))
        self._queue_held[queue] -= gpus
        if event.held:
            queue = int(event.queue.rpartition("-")[2])
            self._held[event.uid] = (event.held, queue)
            self._queue_held[queue] += event.held
        for name in event.nodes[:8]:
            self._allocated[int(name[-4:])] = float(self._draw.integers(GPUS + 1))

    def sample(self, journal: Journal, now: float) -> None:
        draw, samples = self._draw, journal.samples
        held, count = self._queue_held, len(self.nodes)
        waiting = np.floor(held / 10)
        amounts = {"quota": 80.0, "limit": -1.0, "fair_share": held * 1.1, "waiting": waiting}
        amounts |= {"allocated": held, "requested": held + waiting * 8}
        amounts |= {"cpu_allocated": held * 12_000, "cpu_requested": held * 15_000}
        amounts |= {"memory_allocated": held * 2**37, "memory_requested": held * 2**37}
        samples.add(QUEUES, now, self.queues, amounts)
        whole = {"gpus": float(count * GPUS), "allocated": held.sum(), "requested": held.sum()}
        samples.add(CLUSTER, now, [""], {k: [v] for k, v in whole.items()} | {"cycle_s": [0.04]})
        if now % NODES.levels[0].step_s == 0:
            busy = draw.uniform(0.6, 1.0, count) * self._allocated
            columns = {"gpus": float(GPUS), "allocated": self._allocated, "shared": 0.0}
            columns |= {"used": busy, "used_mib": np.floor(busy * 65_536), "ready": 1.0}
            samples.add(NODES, now, self.nodes, columns)
        if now % 60 == 0:
            uses = {u: Use(g, g, 0.8 * g) for u, (g, _) in self._held.items()}
            journal.jobs.use(uses, now - 60, now)
        if now % JOBS.levels[0].step_s == 0 and self._held:
            found = [(journal.jobs.id_of(u), g) for u, (g, _) in self._held.items()]
            rows = [(number, gpus) for number, gpus in found if number is not None]
            gpus = np.array([g for _, g in rows])
            part = draw.uniform(0.6, 1.0, gpus.size)
            columns = {"held": gpus, "known": gpus, "used": gpus * part}
            columns |= {"used_mib": np.floor(gpus * part * 65_536)}
            samples.add_ids(JOBS, now, np.array([n for n, _ in rows], dtype=np.int32), columns)
            journal.jobs.keep_use(self._held)


def table(result: dict[str, Any]) -> str:
    sizes = ", ".join(f"{value:g} {key}" for key, value in result["sizes"].items())
    lines = [f"history: {sizes}"]
    lines += [f"  {'file':<28} {result['file_mb']} MB"]
    lines += [f"    {name:<26} {size} MB" for name, size in result["parts_mb"].items()]
    names = ("jobs", "events", "samples", "cpu_s", "cpu_ms_per_sample", "longest_write_ms")
    lines += [f"  {name:<28} {result[name]}" for name in names]
    lines += [f"  read {name:<23} {ms} ms" for name, ms in result["read_ms"].items()]
    return "\n".join(lines)
