"""One job: its gangs and where their pods are, what happened to it, why it waits, its YAML."""

from __future__ import annotations

from typing import Any

import yaml

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import ApiError, Forbidden, NotFound, Object, Resource, key_of
from kai_ray.console import shapes
from kai_ray.console.api import past
from kai_ray.console.api.events import events_of
from kai_ray.console.api.timeline import timeline, uids_of
from kai_ray.console.asking import Ask, Text
from kai_ray.console.cluster import View
from kai_ray.console.job_rows import JobRow
from kai_ray.controllers.explain import (
    Explanation,
    explain_cycle,
    explain_workload,
    set_aside,
)
from kai_ray.sight.jobs import pods as P
from kai_ray.sight.jobs.remedies import REMEDIES

#: Pods of one job that are listed at most.
MOST_MEMBERS = 5000
#: Gangs of one job for which a decision is made again.
MOST_EXPLAINED = 3


def found(ask: Ask) -> tuple[View, JobRow]:
    """The job that the address names. Raises NotFound, also where the viewer may not see it."""
    view, path = ask.view, ask.path
    ask.must_see(path["namespace"])
    row = view.jobs.find(
        path["namespace"], path["kind"], path["name"], ask.query.get("apiVersion") or ""
    )
    if row is None:
        raise NotFound(
            f"there is no {path['kind']} {path['name']} in namespace {path['namespace']}, "
            "or it is neither in a gang nor suspended"
        )
    return view, row


def job(ask: Ask) -> shapes.JobDetail:
    """Everything about one job but its explanation, its YAML and its use of GPUs. One that is gone
    is told of by the history."""
    path = ask.path
    try:
        view, row = found(ask)
    except NotFound:
        ask.must_see(path["namespace"])
        before = past.gone(ask.view, path["namespace"], path["kind"], path["name"])
        if before is None:
            raise
        return past.detail(ask.view, before)
    groups = view.jobs.groups(row)
    owner = view.jobs.owner(row)
    objects = [g | {"kind": R.POD_GROUP.kind} for g in groups]
    if owner is not None:
        objects.insert(0, owner | {"kind": row.job.kind})
    events = events_of(ask, *objects)
    moments, origin = timeline(view, row, events)
    hold = row.job.hold
    return shapes.JobDetail(
        **{name: getattr(row.shown, name) for name in row.shown.__struct_fields__},
        labels={str(k): str(v) for k, v in row.job.labels.items()},
        gangs=[_gang(view, row, group) for group in groups],
        timeline=moments,
        history_from=origin,
        events=events,
        waits_for=shapes.WaitsFor(list(hold.victims), hold.until) if hold else None,
    )


def _gang(view: View, row: JobRow, group: Object) -> shapes.Gang:
    name = group["metadata"]["name"]
    gang = next(g for g in row.job.gangs if g.name == name)
    pods = view.jobs.pods(group)
    return shapes.Gang(
        name=name,
        queue=gang.queue,
        minimum=gang.minimum,
        state=gang.status,
        reason=gang.reason,
        message=gang.message,
        topology=gang.topology,
        subgroups=[shapes.Subgroup(*subgroup) for subgroup in gang.subgroups],
        members=[_member(view, pod) for pod in pods[:MOST_MEMBERS]],
    )


def _member(view: View, pod: Object) -> shapes.Member:
    status = pod.get("status") or {}
    leaving = pod["metadata"].get("deletionTimestamp")
    return shapes.Member(
        name=pod["metadata"]["name"],
        node=P.node(pod),
        phase="Terminating" if leaving and not P.finished(pod) else P.phase(pod),
        subgroup=str((pod["metadata"].get("labels") or {}).get(L.SUBGROUP) or ""),
        gpus=view.nodes.gpus(pod),
        started_at=status.get("startTime") or "",
        message=_says(status),
    )


def _says(status: Object) -> str:
    """A pod's own message, else why a container waits, else why it has no place."""
    if status.get("message") or status.get("reason"):
        return str(status.get("message") or status.get("reason"))
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            return ": ".join(str(waiting[k]) for k in ("reason", "message") if waiting.get(k))
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "")
    return ""


def explain(ask: Ask) -> dict[str, Any]:
    """Why it waits, and what is missing: of the last cycle; where the console is not part of the
    scheduler, the decision is made again on what the cluster holds."""
    view, row = found(ask)
    job, groups = row.job, view.jobs.groups(row)
    told = _of_last_cycle(view, row, groups)
    if told is not None:
        return _with_help(told)
    with view.explaining:
        clock, port = view.runtime.clock, ask.cluster.port
        if not groups:
            made = [explain_workload(port, job.kind, job.name, job.namespace, clock=clock)]
        else:
            names = [group["metadata"]["name"] for group in groups[:MOST_EXPLAINED]]
            made = [
                explain_workload(port, R.POD_GROUP.kind, name, job.namespace, clock=clock)
                for name in names
            ]
    gangs = tuple(gang for one in made for gang in one.gangs)
    sentence = made[0].sentence.replace(f"PodGroup {made[0].name}", f"{job.kind} {job.name}", 1)
    return _with_help(Explanation(job.kind, job.name, job.namespace, sentence, gangs))


def _with_help(told: Explanation) -> dict[str, Any]:
    """`help` is what would change it, where somebody can."""
    made = told.to_dict()
    for gang in made["gangs"]:
        queue = (gang["queue"] or {}).get("name") or "QUEUE"
        gang["help"] = REMEDIES.get(gang["reason"], "").format(queue=queue)
    return made


def _of_last_cycle(view: View, row: JobRow, groups: list[Object]) -> Explanation | None:
    if view.inside is None or not groups:
        return None
    pool = (groups[0]["metadata"].get("labels") or {}).get(L.NODE_POOL) or ""
    loop = view.inside.loop(pool)
    cycle = loop.last if loop is not None else None
    if (
        loop is None
        or cycle is None
        or not {key_of(g) for g in groups} & {*cycle.encoded.names.gangs}
    ):
        return None
    cache, job = view.runtime.informer(R.POD_GROUP), row.job
    return explain_cycle(
        cycle,
        groups,
        lambda key: cache.get(key.name, key.namespace),
        job.kind,
        job.name,
        job.namespace,
        loop.policy,
        set_aside(view.runtime.informer(R.NODE)),
    )


def yaml_text(ask: Ask) -> Text:
    """The workload and its PodGroups as YAML, read with the viewer's rights."""
    view, row = found(ask)
    wanted: list[tuple[Resource, str]] = []
    if row.job.resource is not None and row.job.resource != R.POD_GROUP:
        wanted.append((row.job.resource, row.job.name))
    wanted += [(R.POD_GROUP, group["metadata"]["name"]) for group in view.jobs.groups(row)]
    parts: list[str] = []
    for resource, name in wanted:
        try:
            obj = ask.port.get(resource, name, row.job.namespace)
        except Forbidden:
            parts.append(f"# {resource.kind} {name}: you may not read it\n")
        except ApiError as error:
            parts.append(f"# {resource.kind} {name}: {error.message}\n")
        else:
            parts.append(yaml.safe_dump(_plain(obj, resource), sort_keys=False, width=100))
    return Text("---\n".join(parts))


def _plain(obj: Object, resource: Resource) -> Object:
    """As it was written: kind first, without the record of who wrote which field."""
    meta = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    rest = {k: v for k, v in obj.items() if k not in ("apiVersion", "kind", "metadata")}
    return {
        "apiVersion": obj.get("apiVersion") or resource.api_version,
        "kind": obj.get("kind") or resource.kind,
        "metadata": meta,
        **rest,
    }


def gpu(ask: Ask) -> shapes.JobUse:
    """What its pods do with their GPUs now, and did."""
    since_s = past.length(ask, "since", 6 * 3600.0)
    view, row = found(ask)
    use = view.nodes.use
    now: list[shapes.DeviceUse] = []
    problem = ""
    for group in view.jobs.groups(row):
        pods = [pod for pod in view.jobs.pods(group) if P.node(pod) and not P.finished(pod)]
        problem = problem or use.of_pods(pods, view.now_s).problem
        now += [device for pod in pods for device in _devices(view, pod)]
    series = past.use(view, uids_of(view, row), view.now_s - since_s)
    return shapes.JobUse(now or None, series, problem)


def _devices(view: View, pod: Object) -> list[shapes.DeviceUse]:
    uid, node = pod["metadata"].get("uid") or "", P.node(pod)
    state = view.nodes.use.nodes.get(node)
    if state is None or view.nodes.use.stale(node, view.now_s):
        return []
    return [
        shapes.DeviceUse(
            pod=pod["metadata"]["name"],
            node=node,
            index=device.index,
            uuid=device.uuid,
            utilization=device.utilization,
            used_mi_b=device.used_mib,
            memory_mi_b=device.memory_mib,
        )
        for device in state.devices
        if uid in device.holders
    ]
