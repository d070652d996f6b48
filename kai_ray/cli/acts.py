"""The first part of `kai demo`: one rule after the other, each in a quiet cluster.

An act is a folder of `examples/rules` with numbered files: each is submitted when the work of the
one before it runs. An act is over when all that was evicted runs again; then it is cleared away.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kai_ray.cli.connect import Connection
from kai_ray.cli.failures import Failure
from kai_ray.cli.story import Story
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import NotFound, Port, Resource
from kai_ray.sdk import manifests
from kai_ray.sdk.applying import apply, runs_pods
from kai_ray.sight import node_list
from kai_ray.sight.jobs.listing import ENDED, Job, read
from kai_ray.sim.cluster_file import RACK

LOOK_S = 0.2
#: No act takes longer; what has not happened by then will not.
LONGEST_S = 30.0
#: An object of an act: resource, name, namespace.
Made = tuple[Resource, str, str]
#: What an act shows once all of its work has run: a sentence, or "" if it did not happen.
Shown = Callable[[Connection, list[Job]], str]


@dataclass(frozen=True)
class Act:
    folder: str
    title: str
    rule: str = ""  # the reason word of the eviction that it shows
    shown: Shown | None = None


def play(
    connection: Connection,
    rules: Path,
    look: Callable[[Story, list[Job], float], None],
    say: Callable[[str], None],
) -> tuple[Story, list[str]]:
    """Plays all acts: the story with its evictions, and what else was seen. Raises Failure."""
    story, seen = Story(), []
    begin = time.monotonic()
    for act in ACTS:
        say(f"\n{act.title}")
        made: list[Made] = []

        def until(
            done: Callable[[list[Job]], bool], act: Act = act, made: list[Made] = made
        ) -> list[Job]:
            deadline = time.monotonic() + LONGEST_S
            while True:
                jobs = [
                    j
                    for j in read(connection.port, connection.namespace)
                    if (j.kind, j.name) in {(r.kind, name) for r, name, _ in made}
                ]
                look(story, jobs, time.monotonic() - begin)
                if done(jobs):
                    return jobs
                if time.monotonic() > deadline:
                    raise Failure(f"{act.title}: nothing more happened in {LONGEST_S:g} s")
                time.sleep(LOOK_S)

        jobs: list[Job] = []
        for file in sorted((rules / act.folder).glob("*.yaml")):
            wanted = _submit(connection, file, story, time.monotonic() - begin, made)
            jobs = until(lambda jobs, wanted=wanted: _run(jobs, wanted))
        if act.shown is not None:
            seen.append(act.shown(connection, jobs) or _missed(act))
            say(f"       {seen[-1]}")
        until(lambda jobs: all(a.back_s is not None for c in story.evicted() for a in c.away))
        if act.rule and not any(a.rule == act.rule for c in story.evicted() for a in c.away):
            _missed(act)
        _clear(connection.port, made)
        made.clear()
        until(lambda jobs: not connection.port.list(R.POD, connection.namespace).items)
    return story, seen


def _submit(
    connection: Connection,
    file: Path,
    story: Story,
    now_s: float,
    made: list[Made],
) -> set[tuple[str, str]]:
    wanted: set[tuple[str, str]] = set()
    for document in manifests.read([str(file)]):
        submitted = apply(connection.port, connection.namespace, document.object)
        resource = submitted.resource
        made.append((resource, submitted.name, connection.namespace if resource.namespaced else ""))
        if runs_pods(document.object):
            wanted.add((resource.kind, submitted.name))
            story.submit((resource.kind, submitted.name), now_s)
    return wanted


def _run(jobs: list[Job], wanted: set[tuple[str, str]]) -> bool:
    up = {(j.kind, j.name) for j in jobs if j.status in ("Running", *ENDED)}
    return wanted <= up


def _clear(port: Port, made: list[Made]) -> None:
    for resource, name, namespace in made:
        try:
            port.delete(resource, name, namespace)
        except NotFound:
            continue


def _missed(act: Act) -> str:
    raise Failure(
        f"{act.title}: that did not happen",
        next=f"kai up --cluster examples/cluster.yaml, then kai submit examples/rules/{act.folder}",
    )


def _one_card(connection: Connection, jobs: list[Job]) -> str:
    """Two pods on one card, half of it each."""
    for node in node_list.read(connection.port):
        for card in node.cards:
            if len(card.pods) > 1:
                names = " and ".join(f"Pod {name}" for name in card.pods)
                part = f"{card.used / len(card.pods):.0%} each"
                return f"{names} share one GPU of {node.name}, {part}"
    return ""


def _one_rack(connection: Connection, jobs: list[Job]) -> str:
    """All pods of a gang that must stay in one rack."""
    racks = {
        n["metadata"]["name"]: (n["metadata"].get("labels") or {}).get(RACK, "")
        for n in connection.port.list(R.NODE).items
    }
    for job in jobs:
        group = connection.port.get(R.POD_GROUP, job.gangs[0].name, job.namespace)
        bond = (group.get("spec") or {}).get("topologyConstraint") or {}
        homes = {racks[node] for node in job.nodes}
        level = bond.get("requiredTopologyLevel")
        if level and len(job.nodes) > 1 and len(homes) == 1:
            where = f"{' and '.join(job.nodes)} are both in {homes.pop()}"
            return f"{job.kind} {job.name} requires one {level}: {where}"
    return ""


ACTS = (
    Act("reclaim", "A queue takes back what it lent (reclaim)", rule="Reclaimed"),
    Act("preempt", "What matters more goes first in its queue (preempt)", rule="Preempted"),
    Act("consolidation", "A job moves so that a larger one fits (consolidation)", "Consolidated"),
    Act("sharing", "Two pods on half a GPU each", shown=_one_card),
    Act("rack", "A gang stays inside a rack", shown=_one_rack),
)
