"""`kai describe`: everything about one queue, job or node, ending with conditions and events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kai_ray.api import labels as L
from kai_ray.cli import connect, output
from kai_ray.cli.failures import missing
from kai_ray.cli.lazy import LazyGroup
from kai_ray.cli.output import Column
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import ApiError, NotFound, Object, Port

if TYPE_CHECKING:
    from kai_ray.sdk.finding import Found

describe = LazyGroup(
    "describe",
    {},
    aliases={"queues": "queue", "jobs": "job", "nodes": "node", "no": "node", "kq": "queue"},
    help="Show everything about one queue, job or node.",
    no_args_is_help=True,
)

EVENTS: tuple[Column[Object], ...] = (
    Column("TYPE", lambda e: e.get("type") or ""),
    Column("REASON", lambda e: e.get("reason") or ""),
    Column("AGE", lambda e: output.age(_when(e))),
    Column("COUNT", lambda e: str(e.get("count") or 1)),
    Column("MESSAGE", lambda e: e.get("message") or ""),
)
CONDITIONS: tuple[Column[Object], ...] = (
    Column("TYPE", lambda c: c.get("type") or ""),
    Column("STATUS", lambda c: c.get("status") or ""),
    Column("REASON", lambda c: c.get("reason") or ""),
    Column("AGE", lambda c: output.age(c.get("lastTransitionTime"))),
    Column("MESSAGE", lambda c: c.get("message") or ""),
)


@describe.command("queue")
@click.argument("name")
@connect.connected
def queue(name: str) -> None:
    """Show one queue: amounts per resource, what is below it, its jobs."""
    from kai_ray.cli.views import jobs as job_view
    from kai_ray.cli.views import queues as view
    from kai_ray.sight import queue_list
    from kai_ray.sight.jobs import listing

    port = connect.open_connection().port
    rows = queue_list.read(port)
    found = next((q for q in rows if q.name == name), None)
    if found is None:
        raise missing("queue", name, next="kai get queues")
    below = [q.name for q in rows if q.parent == name]
    fields(
        ("Name", found.name),
        ("Display name", (found.object.get("spec") or {}).get("displayName") or ""),
        ("Parent", found.parent or "none (top level)"),
        ("Queues below", ", ".join(below)),
        ("Priority", str(found.priority)),
        ("State", queue_list.state_sentence(found)),
        *queue_list.policies(found, rows),
    )
    units: tuple[tuple[str, Any, Any], ...] = (
        ("GPU (devices)", found.gpu, output.number),
        ("CPU (cores)", found.cpu, view.cores),
        ("Memory", found.memory, view.megabytes),
    )
    columns: tuple[Column[Any], ...] = (
        Column("RESOURCE", lambda r: r[0]),
        Column("QUOTA", lambda r: r[2](r[1].quota)),
        Column("LIMIT", lambda r: r[2](r[1].limit)),
        Column("WEIGHT", lambda r: output.number(r[1].weight)),
        Column("FAIR-SHARE", lambda r: "" if r[1].fair_share is None else r[2](r[1].fair_share)),
        Column("ALLOCATED", lambda r: r[2](r[1].allocated)),
        Column("BORROWED", lambda r: r[2](r[1].borrowed)),
        Column("REQUESTED", lambda r: r[2](r[1].requested)),
    )
    section("Amounts", columns, units)
    subtree = _subtree(rows, name)
    jobs = [j for j in listing.read(port, None) if j.queue in subtree]
    live = [j for j in jobs if j.status not in listing.ENDED]
    section("Jobs", job_view.WITH_NAMESPACE, live)
    _ending(port, found.object)


def _subtree(rows: Sequence[Any], name: str) -> set[str]:
    found = {name}
    for row in rows:  # parents come first
        if row.parent in found:
            found.add(row.name)
    return found


@describe.command("job")
@click.argument("name", metavar="[KIND/]NAME")
@connect.connected
def job(name: str) -> None:
    """Show one job: its gangs and pods, why it waits, conditions and events."""
    from kai_ray.cli.views import gpu_use
    from kai_ray.sdk.finding import find
    from kai_ray.sight.jobs import pods as P

    connection = connect.open_connection()
    port = connection.port
    found = find(connection.port, connection.namespace, name)
    if found.job is None:
        fields(("Name", found.name), ("Kind", found.resource.kind), ("Status", "no gang yet"))
        _ending(port, found.object)
        return
    row = found.job
    names = {g.name for g in row.gangs}
    members = [p for p in port.list(R.POD, row.namespace).items if P.gang_name(p) in names]
    fields(
        ("Name", row.name),
        ("Namespace", row.namespace),
        ("Kind", f"{row.kind} ({row.api_version})"),
        ("Queue", row.queue),
        ("Priority", str(row.priority)),
        ("Status", row.status),
        ("GPUs", output.number(row.gpus)),
        ("GPU use", gpu_use.of_pods(port, members)),
        ("Position", f"{row.position} in queue {row.queue}" if row.position else ""),
        ("Nodes", ", ".join(row.nodes)),
        ("Has to leave", _notice(found.object)),
        ("Gave way", f"{row.evicted.message}, at {row.evicted.since}" if row.evicted else ""),
        ("Waits for", f"pods of {', '.join(row.hold.victims)}" if row.hold else ""),
        ("Room is kept", f"until {row.hold.until}" if row.hold else ""),
        ("Topology", ", ".join(sorted({g.topology for g in row.gangs if g.topology}))),
        ("Age", output.age(row.created)),
    )
    gangs: tuple[Column[Any], ...] = (
        Column("GANG", lambda g: g.name),
        Column("MIN", lambda g: str(g.minimum)),
        Column("PODS", lambda g: str(g.pods)),
        Column("RUNNING", lambda g: str(g.running)),
        Column("SUCCEEDED", lambda g: str(g.succeeded)),
        Column("FAILED", lambda g: str(g.failed)),
        Column("STATUS", lambda g: g.status),
    )
    section("Gangs", gangs, row.gangs)
    subgroups: tuple[Column[Any], ...] = (
        Column("SUBGROUP", lambda s: s[0]),
        Column("MIN", lambda s: str(s[1])),
        Column("PODS", lambda s: str(s[2])),
        Column("RUNNING", lambda s: str(s[3])),
    )
    section("Subgroups", subgroups, [s for g in row.gangs for s in g.subgroups])
    pods: tuple[Column[Object], ...] = (
        Column("POD", lambda p: p["metadata"]["name"]),
        Column("GPUS", lambda p: output.number(P.gpus(p))),
        Column("PHASE", lambda p: P.phase(p)),
        Column("NODE", lambda p: P.node(p)),
        *([Column("CARD", lambda p: ",".join(P.shares(p)))] if any(map(P.shares, members)) else ()),
        Column("AGE", lambda p: output.age(p["metadata"].get("creationTimestamp"))),
    )
    section("Pods", pods, members)
    if row.status in ("Waiting", "Evicted"):
        _explain(port, found)
    groups = [_group(port, row.namespace, g.name) for g in row.gangs]
    _ending(port, found.object, *[g for g in groups if g])


def _notice(obj: Object) -> str:
    """Why and by when a job has to go that still runs."""
    text = (obj["metadata"].get("annotations") or {}).get(L.EVICTION_NOTICE)
    try:
        said = json.loads(text) if text else {}
        return f"by {said['deadline']}: {said['message']}" if said else ""
    except (ValueError, TypeError, KeyError):
        return ""


def _group(port: Port, namespace: str, name: str) -> Object | None:
    try:
        return port.get(R.POD_GROUP, name, namespace)
    except NotFound:
        return None


def _explain(port: Port, found: Found) -> None:
    from kai_ray.sdk import explaining

    click.echo("\nWhy it waits:")
    for line in explaining.explain(port, found).lines:
        click.echo(f"  {line}" if line else "")


@describe.command("node")
@click.argument("name")
@connect.connected
def node(name: str) -> None:
    """Show one node: labels, taints, what runs on it."""
    from kai_ray.cli.views import gpu_use
    from kai_ray.sight import claimed as devices
    from kai_ray.sight import node_list as view
    from kai_ray.sight.jobs import pods as P

    port = connect.open_connection().port
    try:
        obj = port.get(R.NODE, name)
    except NotFound as error:
        raise missing("node", name, next="kai get nodes") from error
    pods = port.list(R.POD, fields=f"spec.nodeName={name}").items
    claimed = devices.read(port)
    row = view.node(obj, [p for p in pods if not P.finished(p)], claimed)
    spec = obj.get("spec") or {}
    taints = [
        f"{t['key']}={t.get('value', '')}:{t.get('effect', '')}" for t in spec.get("taints") or []
    ]
    fields(
        ("Name", row.name),
        ("State", row.state),
        ("GPUs", f"{output.number(row.gpus)}, {output.number(row.free)} free" if row.gpus else ""),
        ("Model", row.model),
        ("CPU", row.cpu),
        ("Memory", row.memory),
        ("Pods", f"{row.pods} of {row.slots}"),
        ("Taints", ", ".join(taints)),
        ("Quarantine", row.quarantine),
        ("Bad devices", "; ".join(row.bad_devices)),
        ("Reserved for", (obj["metadata"].get("labels") or {}).get(L.RESERVED_FOR) or ""),
        ("Age", output.age(row.created)),
    )
    told = gpu_use.of_node(port, name, pods)
    if told.problem:
        fields(("GPU use", told.problem))
    labels = sorted((obj["metadata"].get("labels") or {}).items())
    columns: tuple[Column[tuple[str, str]], ...] = (
        Column("LABEL", lambda i: i[0]),
        Column("VALUE", lambda i: i[1]),
    )
    section("Labels", columns, labels)
    section("GPUs", gpu_use.DEVICES, told.rows)
    cards: tuple[Column[Any], ...] = (
        Column("CARD", lambda c: c.group),
        Column("USED", lambda c: f"{c.used:.0%}"),
        Column("PODS", lambda c: ", ".join(c.pods)),
    )
    section("Shared GPUs", cards, row.cards)
    running: tuple[Column[Object], ...] = (
        Column("NAMESPACE", lambda p: p["metadata"]["namespace"]),
        Column("POD", lambda p: p["metadata"]["name"]),
        Column("GPUS", lambda p: output.number(P.gpus(p) + claimed.of(p))),
        Column("PHASE", lambda p: P.phase(p)),
        Column("GANG", lambda p: P.gang_name(p)),
    )
    section("Pods", running, [p for p in pods if not P.finished(p)])
    _ending(port, obj)


def fields(*rows: tuple[str, str]) -> None:
    """`Name:   value` lines; empty values are left out."""
    width = max(len(name) for name, _ in rows) + 2
    for name, value in rows:
        if value:
            click.echo(f"{name + ':':{width}}{value}")


def section(title: str, columns: Sequence[Column[Any]], rows: Sequence[Any]) -> None:
    """An indented table below a title; nothing where there are no rows."""
    if not rows:
        return
    click.echo(f"\n{title}:")
    for line in output.lines(columns, rows, colour=output.use_colour()):
        click.echo(f"  {line}")


def _ending(port: Port, *objects: Object) -> None:
    """Conditions and events of the objects, as kubectl's describe ends."""
    conditions = [c for o in objects for c in (o.get("status") or {}).get("conditions") or []]
    section("Conditions", CONDITIONS, conditions)
    # The same news is told on the user's object and on its gang: once is enough here.
    events = {
        (e.get("reason"), e.get("message")): e for o in reversed(objects) for e in _events(port, o)
    }
    section("Events", EVENTS, sorted(events.values(), key=_when))


def _events(port: Port, obj: Object) -> list[Object]:
    meta = obj["metadata"]
    fields_ = f"involvedObject.kind={obj['kind']},involvedObject.name={meta['name']}"
    try:
        found = port.list(R.EVENT, meta.get("namespace") or None, fields=fields_).items
    except ApiError:
        return []
    return [e for e in found if e["involvedObject"].get("uid") in (None, "", meta.get("uid"))]


def _when(event: Object) -> str:
    return (
        event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
        or ""
    )
