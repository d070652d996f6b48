"""At the start of every recorded scheduler case: what each queue holds, asks for and is due.

All recorded cases take part, also those whose decisions are out of scope: the books of queues count
fractions, GPU memory, slices and claims long before they can be placed.
"""

from __future__ import annotations

import json

import numpy as np

from kai_ray.scheduler.shares.books import queue_books
from kai_ray.scheduler.shares.fair_share import fair_share
from tests.conformance import scenario
from tests.conformance.queue_rows import RESOURCES
from tests.conformance.verdict import Case
from tests.shared import shared_dir

#: Fractions of a GPU are added up in another order than recorded: the last bit may differ.
_LAST_BITS = 1e-12


def recorded_cases() -> list[Case]:
    files = sorted(shared_dir("scenarios").glob("scheduler__*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_what_queues_hold_and_are_due() -> None:
    compared, bad = 0, list[str]()
    for case in recorded_cases():
        differences, count = _compare(case)
        bad += [f"{case['id']}: {difference}" for difference in differences]
        compared += count
    assert not bad, "\n".join(bad[:20])
    assert compared > 3000


def _compare(case: Case) -> tuple[list[str], int]:
    world = scenario.build(case, scenario.start(case))
    books = queue_books(world.snapshot)
    k = case["config"]["fair_share_k_value"]
    share = fair_share(world.snapshot.queues, world.snapshot.total, books.request, k)
    ours = {
        "fair_share": share,
        "request": books.request,
        "allocated": books.allocated,
        "allocated_non_preemptible": books.non_preemptible,
    }
    bad, count = list[str](), 0
    for name, recorded in case["observed"]["queue_shares_at_start"].items():
        queue = world.queues.index(name)
        for r, resource in enumerate(RESOURCES):
            for word, amounts in ours.items():
                got, want = float(amounts[r, queue]), recorded[resource][word]
                count += 1
                if not np.isclose(got, want, rtol=_LAST_BITS, atol=0.0):
                    bad.append(f"{name}: {word} of {resource} is {got}, wanted {want}")
    return bad, count


def test_the_reader_sees_what_tasks_ask_for() -> None:
    """The recorded sums of requests, whatever became of the tasks."""
    for case in recorded_cases():
        for job in case["cluster"]["jobs"]:
            check = (case["expect"]["jobs"].get(job["name"]) or {}).get("input_check") or {}
            if "requested_gpus_total" in check:
                gpus = sum(task["request"]["gpus"] or 0 for task in job["tasks"])
                kinds = {task["request"]["gpu_kind"] for task in job["tasks"]}
                if kinds <= {"whole", "none"}:
                    assert gpus == check["requested_gpus_total"], case["id"]


def test_recorded_clusters_are_well_formed() -> None:
    """Weights of -1, over-committed nodes and deep trees are no reason to refuse a cluster."""
    for case in recorded_cases():
        if "dra" not in case["features"]:  # one case asks for 2^63 devices on purpose
            scenario.build(case, scenario.start(case)).snapshot.validate()
