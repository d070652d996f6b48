"""Nodes: a square for each GPU, who has it, and how well it is used."""

from __future__ import annotations

from collections import defaultdict

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import NotFound, Object
from kai_ray.console import shapes
from kai_ray.console.api.events import conditions_of, events_of
from kai_ray.console.asking import Ask
from kai_ray.console.cards import Card, Part
from kai_ray.console.cluster import View
from kai_ray.console.node_board import NodeRow
from kai_ray.sight import node_list
from kai_ray.sight.jobs import pods as P

#: Whose a square is, where it is no queue's.
FREE, NOT_OURS = -1, -2
MOST_PROBLEMS = 20
#: How often it is looked whether GPU data have grown old.
STALE_LOOK_S = 10.0


class Painter:
    """Turns names into indices: queues for colours, jobs that the viewer may see."""

    def __init__(self, view: View, seen: frozenset[str] | None) -> None:
        self._view = view
        self._seen = seen
        self.queues: dict[str, int] = {}
        self.jobs: dict[str, int] = {}

    def card(self, card: Card) -> shapes.Card:
        parts = [self._part(part) for part in card.parts]
        if not parts:
            return FREE, 0.0, -1, card.flags, card.utilization, []
        queue, _, job = parts[0]
        shared = parts if len(parts) > 1 or parts[0][1] < 1 else []
        return queue, round(card.used, 4), job, card.flags, card.utilization, shared

    def _part(self, part: Part) -> tuple[int, float, int]:
        row = self._view.jobs.of_gang(part.gang) if part.gang else None
        if row is None:
            return NOT_OURS, part.used, -1
        queue = self.queues.setdefault(row.job.queue, len(self.queues))
        if self._seen is not None and row.job.namespace not in self._seen:
            return queue, part.used, -1
        name = f"{row.job.namespace}/{row.job.kind}/{row.job.name}"
        return queue, part.used, self.jobs.setdefault(name, len(self.jobs))


def nodes(ask: Ask) -> shapes.Nodes:
    """Every node, node-2 before node-10, with who has which of its GPUs."""
    ask.must_list(R.NODE)
    view = ask.view
    seen = ask.sees(view)
    # GPU data grow old without any change.
    version = (view.jobs.version, view.nodes.version, view.now_s // STALE_LOOK_S)
    return view.kept(("nodes", seen), version, lambda: _nodes(view, seen))


def _nodes(view: View, seen: frozenset[str] | None) -> shapes.Nodes:
    view.jobs.rows()
    painter = Painter(view, seen)
    rows = view.nodes.rows()
    racks: dict[str, list[str]] = defaultdict(list)
    shown: list[shapes.Node] = []
    problems: list[str] = []
    for row in rows:
        one = _node(view, painter, row)
        shown.append(one)
        if row.rack:
            racks[row.rack].append(one.name)
        if one.problem:
            problems.append(one.problem)
    if len(problems) > MOST_PROBLEMS:
        more = len(problems) - MOST_PROBLEMS
        problems = [*problems[:MOST_PROBLEMS], f"and so for {more} more nodes"]
    return shapes.Nodes(
        at=view.at,
        queues=list(painter.queues),
        jobs=list(painter.jobs),
        nodes=shown,
        racks=[shapes.Rack(name, racks[name]) for name in sorted(racks, key=node_list.natural)],
        problems=problems,
    )


def node(ask: Ask) -> shapes.NodeDetail:
    """One node: its devices, what runs on it, conditions and events."""
    ask.must_list(R.NODE)
    view, name = ask.view, ask.path["name"]
    row = view.nodes.find(name)
    if row is None:
        raise NotFound(f"there is no node {name!r}")
    view.jobs.rows()
    seen = ask.sees(view)
    painter = Painter(view, seen)
    one = _node(view, painter, row)
    obj, use = row.node.object, row.use
    pods = view.nodes.pods(name)
    shown = [p for p in pods if seen is None or p["metadata"].get("namespace") in seen]
    notes = obj["metadata"].get("annotations") or {}
    return shapes.NodeDetail(
        **{field: getattr(one, field) for field in one.__struct_fields__},
        cpu=row.node.cpu,
        memory=row.node.memory,
        slots=row.node.slots,
        created=row.node.created,
        labels=obj["metadata"].get("labels") or {},
        annotations={k: str(v) for k, v in notes.items() if k.startswith("kai.scheduler/")},
        taints=[
            f"{t.get('key')}={t.get('value') or ''}:{t.get('effect') or ''}"
            for t in (obj.get("spec") or {}).get("taints") or ()
        ],
        conditions=conditions_of(obj),
        running=[_pod(view, pod) for pod in shown],
        hidden=len(pods) - len(shown),
        devices=_devices(row),
        observed_at=rfc3339(use.observed_s) if use and use.observed_s else "",
        queues=list(painter.queues),
        jobs=list(painter.jobs),
        events=events_of(ask, obj | {"kind": "Node"}),
    )


def _node(view: View, painter: Painter, row: NodeRow) -> shapes.Node:
    known = row.use is not None
    return shapes.Node(
        name=row.node.name,
        gpus=row.node.gpus,
        allocated=round(row.node.used, 4),
        free=round(row.node.free, 4),
        pods=row.node.pods,
        state=row.node.state,
        model=row.node.model,
        pool=row.pool,
        rack=row.rack,
        zone=row.node.zone,
        memory_mi_b=row.memory_mib,
        cards=[painter.card(card) for card in row.cards],
        domains=[list(domain) for domain in row.domains],
        problem=view.nodes.use.stale(row.node.name, view.now_s) if known else "",
    )


def _devices(row: NodeRow) -> list[shapes.Device] | None:
    if row.use is None:
        return None
    return [
        shapes.Device(
            index=d.index,
            uuid=d.uuid,
            model=d.model,
            memory_mi_b=d.memory_mib,
            used_mi_b=d.used_mib,
            utilization=d.utilization,
            healthy=d.healthy,
            problem=d.problem,
            numa_node=d.numa_node,
            links=list(d.links),
        )
        for d in row.use.devices
    ]


def _pod(view: View, pod: Object) -> shapes.NodePod:
    row = view.jobs.job_of_pod(pod)
    job = f"{row.job.namespace}/{row.job.kind}/{row.job.name}" if row else ""
    labels = pod["metadata"].get("labels") or {}
    return shapes.NodePod(
        namespace=pod["metadata"].get("namespace") or "",
        name=pod["metadata"]["name"],
        job=job,
        queue=row.job.queue if row else str(labels.get(L.QUEUE) or ""),
        gpus=view.nodes.gpus(pod),
        phase=P.phase(pod),
        since=(pod.get("status") or {}).get("startTime") or "",
    )
