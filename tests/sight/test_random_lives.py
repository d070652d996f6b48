"""Whatever happens to jobs, their events add up to what their queues hold."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import NotFound
from kai_ray.scheduler.snapshot import GPU
from tests.sight.worlds import World

#: After one of the first, and before another, a job must have been out.
STARTS, STOPS = {"started", "resumed"}, {"evicted", "interrupted", "suspended", "ended"}


def shake(w: World, draw: np.random.Generator, names: list[str]) -> None:
    """Something that users and machines do."""
    act, store = draw.integers(6), w.cluster.store
    victim = str(draw.choice(names)) if names else ""
    try:
        if act == 0 and victim:
            store.delete(R.JOB, victim, "default")
        elif act == 1 and victim:
            store.patch(R.JOB, victim, {"spec": {"suspend": bool(draw.integers(2))}}, "default")
        elif act == 2:
            pods = store.list(R.POD, "default").items
            if pods:
                pod = pods[int(draw.integers(len(pods)))]["metadata"]["name"]
                store.delete(R.POD, pod, "default")
        else:
            name = f"job-{len(w.told)}-{draw.integers(1000)}"
            pods = int(draw.integers(1, 6))
            least = 1 if draw.random() < 0.4 else None
            seconds = int(draw.integers(10, 300))
            queue = str(draw.choice(["rich", "poor"]))
            w.job(name, queue, pods, seconds=seconds, least=least, tries=9)
            names.append(name)
    except NotFound:
        names.remove(victim)


@pytest.mark.parametrize("seed", range(3))
def test_events_add_up_to_what_queues_hold(seed: int) -> None:
    draw, names = np.random.default_rng(seed), list[str]()
    with World("3x4") as w:
        w.queue("rich", 2)
        w.queue("poor", 10)
        for _ in range(18):
            shake(w, draw, names)
            w.run(float(draw.integers(1, 40)))
            w.run(5)  # what is lost is told a moment later
            held: dict[tuple[str, str], float] = {}
            for event in w.told:
                held[event.group, event.queue] = event.held
            queues = w.sight.queues
            for queue in ("rich", "poor"):
                sums = sum(gpus for (_, name), gpus in held.items() if name == queue)
                assert sums == queues.allocated[GPU, queues.row_of[queue]], queue
        by_group: dict[str, list[str]] = defaultdict(list)
        for event in w.told:
            by_group[event.group].append(event.what)
        for words in by_group.values():
            assert words[:2] == ["created", "grouped"] or words[0] == "grouped"
            runs = False
            for word in words:
                if word in STARTS:
                    assert not runs, words
                    runs = True
                elif word in STOPS:
                    runs = False
            assert words.count("ended") <= 1
