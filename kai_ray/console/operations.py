"""Every operation of the JSON API: its address, what it takes, what it answers.

The table serves requests and makes the OpenAPI document, so neither can know more than the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kai_ray.console import shapes
from kai_ray.console.api import (
    decisions,
    job,
    jobs,
    nodes,
    overview,
    past,
    queue_edit,
    queues,
    reports,
)
from kai_ray.console.asking import Ask

PREFIX = "/api/v1"


@dataclass(frozen=True, slots=True)
class Word:
    """A parameter of the query."""

    name: str
    text: str
    kind: str = "string"  # or integer


@dataclass(frozen=True, slots=True)
class Operation:
    """`path` holds {names}; `answer` is a shape, a dictionary or text. Writes have a `body`."""

    method: str
    path: str
    run: Callable[[Ask], Any]
    answer: Any
    summary: str
    words: tuple[Word, ...] = ()
    body: Any = None
    writes: bool = False

    def match(self, parts: list[str]) -> dict[str, str] | None:
        """The names in an address, None for another address."""
        own = self.path.strip("/").split("/")
        if len(own) != len(parts):
            return None
        found: dict[str, str] = {}
        for mine, given in zip(own, parts, strict=True):
            if mine.startswith("{"):
                if not given:
                    return None
                found[mine[1:-1]] = given
            elif mine != given:
                return None
        return found


_JOB = "/jobs/{namespace}/{kind}/{name}"
_API_VERSION = Word("apiVersion", "Which API group, where two have the kind.")
_FILTERS = tuple(
    Word(name, f"Only of these (commas between): {name}.")
    for name in ("state", "queue", "kind", "namespace", "reason", "user")
)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET", "/overview", overview.overview, shapes.Overview, "What the cluster does just now"
    ),
    Operation("GET", "/clusters", overview.clusters, shapes.Clusters, "All clusters at a glance"),
    Operation("GET", "/queues", queues.queues, shapes.Queues, "The tree of queues"),
    Operation("GET", "/queues/{name}", queues.queue, shapes.QueueDetail, "One queue"),
    Operation(
        "POST",
        "/queues/preview",
        queue_edit.preview,
        shapes.Previewed,
        "The shares that changes of queues would lead to; nothing is changed",
        body=shapes.Preview,
    ),
    Operation(
        "PATCH",
        "/queues/{name}",
        queue_edit.change,
        shapes.Queue,
        "Change a queue with the viewer's rights",
        body=shapes.QueueChange,
        writes=True,
    ),
    Operation("GET", "/nodes", nodes.nodes, shapes.Nodes, "Nodes with a square per GPU"),
    Operation("GET", "/nodes/{name}", nodes.node, shapes.NodeDetail, "One node"),
    Operation(
        "GET",
        "/jobs",
        jobs.jobs,
        shapes.Jobs,
        "Jobs, filtered, searched and sorted",
        (
            Word("search", "All of these words must occur."),
            *_FILTERS,
            Word("sort", "A column; - before it turns it around."),
            Word("offset", "How many to leave out.", "integer"),
            Word("limit", "How many at most, 200 if not said.", "integer"),
        ),
    ),
    Operation("GET", _JOB, job.job, shapes.JobDetail, "One job", (_API_VERSION,)),
    Operation(
        "GET",
        f"{_JOB}/explain",
        job.explain,
        dict[str, Any],
        "Why it waits and what would help",
        (_API_VERSION,),
    ),
    Operation("GET", f"{_JOB}/yaml", job.yaml_text, str, "The objects as YAML", (_API_VERSION,)),
    Operation(
        "GET",
        f"{_JOB}/gpu",
        job.gpu,
        shapes.JobUse,
        "How it uses its GPUs",
        (_API_VERSION, Word("since", "How far back: 6h if not said.")),
    ),
    Operation(
        "GET",
        "/history/queues",
        past.queues,
        shapes.QueuePasts,
        "GPUs of queues over time",
        (
            Word("queue", "Of these queues, with commas; all, if not said."),
            Word("since", "How far back: 6h if not said, at most 31d."),
            Word("step", "Seconds between two points, at least.", "integer"),
        ),
    ),
    Operation(
        "GET",
        "/history/jobs",
        past.jobs,
        shapes.PastJobs,
        "Jobs that lived since then, also those that are gone",
        (
            Word("since", "How far back: 7d if not said, at most 31d."),
            *(Word(n, f"Of this {n} alone.") for n in ("queue", "user", "kind", "namespace")),
            Word("state", "waiting, running, suspended or ended."),
            Word("offset", "How many to leave out.", "integer"),
            Word("limit", "How many at most, 200 if not said.", "integer"),
        ),
    ),
    Operation(
        "GET",
        "/reports/usage",
        reports.usage,
        dict[str, Any],
        "GPU hours asked, held and used, and what they cost",
        (
            Word("by", "queue, user, kind or node-pool."),
            Word("since", "7d, 36h or a date."),
            Word("until", "Likewise; now, if not said."),
            Word("format", "json, csv or html."),
        ),
    ),
    Operation(
        "GET",
        "/reports/job/{namespace}/{kind}/{name}",
        reports.job,
        dict[str, Any],
        "What one job waited for, had, used and cost",
        (Word("format", "json, csv or html."),),
    ),
    Operation(
        "GET",
        "/decisions",
        decisions.decisions,
        shapes.Decisions,
        "The last cycles that decided something, newest first",
        (
            Word("limit", "How many at most, 50 if not said.", "integer"),
            Word("before", "Only those with a smaller id.", "integer"),
        ),
    ),
)
