"""What a cluster does just now, on one page; and several clusters beside each other."""

from __future__ import annotations

from collections import Counter

from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import ApiError
from kai_ray.console import shapes
from kai_ray.console.api import queues
from kai_ray.console.asking import Ask
from kai_ray.console.cards import BAD
from kai_ray.console.cluster import Cluster, View
from kai_ray.console.node_board import NodeRow

WAITS = ("Waiting", "Evicted")
#: A GPU that is held and used less than this does next to nothing.
IDLE = 0.05
#: Cycles in the small plot.
RECENT = 120


def overview(ask: Ask) -> shapes.Overview:
    """GPUs, nodes, jobs, queues and the last cycle. What the viewer may not list is null."""
    cluster, view = ask.cluster, ask.view
    health, _ = cluster.health()
    gpus, nodes = _nodes(ask, view)
    jobs, waiting = _jobs(ask, view)
    return shapes.Overview(
        context=cluster.name,
        at=view.at,
        state=shapes.State(health.ok, health.message),
        gpus=gpus,
        nodes=nodes,
        jobs=jobs,
        waiting=waiting,
        queues=queues.rows(ask, view),
        cycle=_cycle(view),
        problems=_problems(ask, view),
    )


def _problems(ask: Ask, view: View) -> list[str]:
    """What keeps the pages from being the whole truth; where people cannot be told of their jobs,
    for who sees all of them."""
    found: list[str] = []
    if ask.viewer.may_list(R.NODE):
        silent = [row.node.name for row in view.nodes.rows() if _silent(view, row)]
        if silent:
            more = f" and {len(silent) - 1} more nodes" if len(silent) > 1 else ""
            found.append(f"{view.nodes.use.stale(silent[0], view.now_s)}{more}")
    if view.inside is not None and ask.sees(view) is None:
        found += view.inside.problems()
    return found


def _silent(view: View, row: NodeRow) -> bool:
    return row.use is not None and bool(view.nodes.use.stale(row.node.name, view.now_s))


def clusters(ask: Ask) -> shapes.Clusters:
    """Every cluster at a glance; one that is down says so and has no figures."""
    return shapes.Clusters([_glance(ask, cluster) for cluster in ask.clusters])


def _glance(ask: Ask, cluster: Cluster) -> shapes.ClusterGlance:
    health, _ = cluster.health()
    made = shapes.ClusterGlance(cluster.name, cluster.home, health.state, health.message)
    if not health.ok:
        return made
    there = Ask(ask.clusters, ask.viewer, query={"context": cluster.name})
    try:
        view = cluster.view()
        made.gpus, made.nodes = _nodes(there, view)
        made.jobs, made.waiting = _jobs(there, view)
        made.queues = queues.rows(there, view)
    except ApiError as error:
        made.state, made.message = "down", error.message
    return made


def _nodes(ask: Ask, view: View) -> tuple[shapes.Gpus | None, shapes.NodeCounts | None]:
    if not ask.viewer.may_list(R.NODE):
        return None, None
    rows = view.nodes.rows()
    total = sum(row.node.gpus for row in rows)
    allocated = sum(row.node.used for row in rows)
    used = [
        card.utilization
        for row in rows
        for card in row.cards
        if card.parts and card.utilization is not None
    ]
    gpus = shapes.Gpus(
        utilization=round(sum(used) / len(used), 4) if used else None,
        idle=sum(part < IDLE for part in used),
        total=total,
        allocated=round(allocated, 4),
        free=round(sum(row.node.free for row in rows), 4),
        shared=sum(len(row.node.cards) for row in rows),
        unhealthy=sum(_unhealthy(row) for row in rows),
    )
    counts = shapes.NodeCounts(
        total=len(rows),
        ready=sum(row.node.state == "Ready" for row in rows),
        not_ready=sum(not row.node.ready for row in rows),
        cordoned=sum(row.node.cordoned for row in rows),
        quarantined=sum(bool(row.node.quarantine) for row in rows),
        bad_devices=sum(bool(_unhealthy(row)) for row in rows),
    )
    return gpus, counts


def _unhealthy(row: NodeRow) -> int:
    return sum(bool(card.flags & BAD) for card in row.cards)


def _jobs(ask: Ask, view: View) -> tuple[shapes.JobCounts, shapes.Waiting]:
    seen = ask.sees(view)
    rows = [r for r in view.jobs.rows() if seen is None or r.job.namespace in seen]
    states = Counter(row.shown.state for row in rows)
    waiting = [row.shown for row in rows if row.shown.state in WAITS]
    return shapes.JobCounts(len(rows), dict(states)), shapes.Waiting(
        jobs=len(waiting),
        gpus=sum(job.gpus for job in waiting),
        by_reason=dict(Counter(job.reason or "Unknown" for job in waiting)),
        oldest=min((job.created for job in waiting if job.created), default=""),
    )


def _cycle(view: View) -> shapes.Cycle | None:
    """The last cycle of the process that this console is part of."""
    figures = view.inside.sight.cycles if view.inside is not None else ()
    if not figures:
        return None
    last = figures[-1]
    return shapes.Cycle(
        number=last.number,
        at=rfc3339(last.at_s),
        seconds=sum(last.seconds.values()),
        steps=dict(last.seconds),
        bound=last.bound,
        nominated=last.nominated,
        evicted=sum(last.evicted.values()),
        recent=[
            shapes.CyclePoint(f.number, rfc3339(f.at_s), sum(f.seconds.values()))
            for f in figures[-RECENT:]
        ],
    )
