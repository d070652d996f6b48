"""`kai explain`: why a job waits, in a sentence, then the figures behind it and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kai_ray.cli import connect, output
from kai_ray.cli.connect import Connection
from kai_ray.cluster import resources as R
from kai_ray.sdk.finding import Found, find
from kai_ray.sight.jobs.listing import Job

if TYPE_CHECKING:
    from kai_ray.controllers.explain import Explanation, GangExplanation

#: The command that changes what stands in the way, per reason.
HELP = {
    "QueuePaused": "kai queue resume {queue}",
    "QueueNotFound": "kai queue create {queue}, or label the job with another queue",
    "OverLimit": "kai queue set {queue} --gpu-limit N, or wait for the queue's own jobs to end",
    "NonPreemptibleOverQuota": "kai queue set {queue} --gpu N, or make the job preemptible",
    "InsufficientGpu": "kai get nodes shows where GPUs are free; kai get jobs -A who has them",
    "GangDoesNotFit": "kai get nodes shows where GPUs are free; a smaller minimum would start",
    "LargerThanAnyNode": "ask for less per pod: no node is that large",
    "BehindOthers": "kai get jobs -A --queue {queue} shows who is ahead",
    "UntoleratedTaint": "add a toleration, or take the taint off a node",
    "NodeSelectorMismatch": "kai describe node NAME shows the labels that a node has",
    "WaitingForVictims": "nothing: it starts as soon as they have gone",
    "WaitingForRelease": "nothing: it starts as soon as they have gone",
    "PreemptionDelay": "nothing: it may evict others once its preemption delay is over",
    "QueueDepth": "raise queueDepthPerAction of the SchedulingShard, or see who is ahead: "
    "kai get jobs -A --queue {queue}",
    "PriorityNotAllowed": "kai describe queue {queue} shows the priority classes that it allows",
    "QueueNodePoolMismatch": "kai describe queue {queue} shows the node pools and GPU types it may "
    "use",
    "ReservedForOthers": "kai describe queue NAME and kai describe node NAME show what is kept",
    "MaxRunTimeReached": "kubectl annotate queue {queue} kai.scheduler/max-run-time=24h "
    "--overwrite allows longer runs",
    "QueueDrained": "kai queue resume {queue}",
    "TopologyUnsatisfied": "kai get nodes shows who fills the domain; a preferred level in place "
    "of the required one would let it start",
    "TopologyNotFound": "kubectl get topologies shows which there are",
    "TopologyLevelNotFound": "kubectl get topologies -o yaml shows the levels there are",
    "FragmentedGpu": "kai get nodes shows which cards are shared; kai describe node NAME how full",
    "GpuTooSmall": "ask for less gpu-memory, or for nodes with larger cards",
    "GpuMemoryUnknown": "label the nodes with nvidia.com/gpu.memory, or ask for a gpu-fraction",
    "MigMismatch": "kai describe node NAME shows the profiles that a node offers",
    "ClaimWrongQueue": "label the ResourceClaim with kai.scheduler/queue: {queue}",
    "NumaUnaligned": "ask for less per pod, or for the policy best-effort",
    "GpusNotLinked": "ask for fewer GPUs per pod, or for the policy best-effort",
    "BackingOff": "kubectl get events shows what refused the pods",
}

#: Events that say why a workload has no gang or no pods.
_REFUSALS = ("InvalidPodGroup", "FailedCreate", "FailedCreatePod")


@click.command("explain")
@click.argument("name", metavar="[KIND/]NAME")
@click.option(
    "-o", "--output", "form", type=click.Choice(["table", "json", "yaml"]), default="table"
)
@connect.connected
def explain(name: str, form: str) -> None:
    """Say why a job waits and what would help.

    The decision is made again here, on what the API server holds now; nothing is changed.
    """
    connection = connect.open_connection()
    found = find(connection.port, connection.namespace, name)
    if form != "table":
        output.print_document(document(connection, found), form)
        return
    for line in _lines(connection, found):
        click.echo(line)


def sentences(connection: Connection, job: Job) -> list[str]:
    """The explanation of a job as lines: the sentence first."""
    lines: list[str] = []
    for explanation in _explanations(connection, job):
        for gang in explanation.gangs:
            lines += _gang(gang, job)
    return lines or ["its gang has not been looked at yet"]


def document(connection: Connection, found: Found) -> dict[str, Any]:
    """The explanation as `-o json` prints it."""
    job = found.job
    made: dict[str, Any] = {
        "kind": found.resource.kind,
        "namespace": found.namespace,
        "name": found.name,
        "status": job.status if job else "Unknown",
        "reason": "",
        "sentence": "",
        "position": job.position if job else None,
        "gangs": [],
    }
    if job is None or not job.gangs:
        return made | {"sentence": _without_gang(found)}
    explanations = _explanations(connection, job)
    gangs = [g for e in explanations for g in e.to_dict()["gangs"]]
    first = next((g for g in gangs if g["state"] == "Waiting"), gangs[0] if gangs else {})
    return made | {
        "reason": first.get("reason", ""),
        "sentence": first.get("sentence", ""),
        "gangs": gangs,
    }


def _lines(connection: Connection, found: Found) -> list[str]:
    job = found.job
    lines = sentences(connection, job) if job and job.gangs else [_without_gang(found)]
    if job is None or not any(g.pods for g in job.gangs):
        refused = _refused(connection, found)
        lines += [f"  refused   {refused}"] * bool(refused)
    return lines


def _without_gang(found: Found) -> str:
    if found.job is not None and found.job.suspended:
        return f"{found} is suspended: `kai job resume {found.name}` puts it back into its queue"
    return f"{found} has no gang yet: its operator has made no pods, or it is not ours"


def _refused(connection: Connection, found: Found) -> str:
    """What stopped the pods or the gang from being made, as the last event about it says."""
    fields = f"involvedObject.kind={found.resource.kind},involvedObject.name={found.name}"
    events = connection.port.list(R.EVENT, found.namespace, fields=fields).items
    uid = found.object["metadata"].get("uid")
    told = [
        e
        for e in events
        if e.get("reason") in _REFUSALS and e["involvedObject"].get("uid") in (None, "", uid)
    ]
    last = max(told, key=lambda e: e.get("lastTimestamp") or "", default=None)
    return str(last.get("message")) if last else ""


def _explanations(connection: Connection, job: Job) -> list[Explanation]:
    from kai_ray.controllers.explain import explain_workload

    port = connection.port
    whole = explain_workload(port, job.kind, job.name, job.namespace)
    if whole.gangs:
        return [whole]
    # Its gangs belong to an object in between (the JobSet of a TrainJob).
    return [explain_workload(port, "PodGroup", g.name, job.namespace) for g in job.gangs]


def _gang(gang: GangExplanation, job: Job) -> list[str]:
    what = f"{job.kind} {job.name}"
    if gang.state == "Waiting":
        lines = [f"{what}: {gang.sentence}"]
    elif gang.state == "Growing":
        lines = [f"{what} runs and would grow: {gang.sentence}"]
    else:
        lines = [f"{what}: {gang.sentence}"]
        lines += [f"  notice    {gang.notice}"] * bool(gang.notice)
        return lines + [f"  victims   {gang.waits_for}"] * bool(gang.waits_for)
    lines.append(f"  reason    {gang.reason}")
    if job.position and job.position > 1:
        lines.append(f"  place     {job.position} in queue {job.queue}")
    if gang.reasons:
        nodes = ", ".join(f"{word} on {count}" for word, count in gang.reasons.items())
        lines.append(f"  nodes     {nodes}")
    if gang.nearest is not None:
        lines.append(f"  nearest   {gang.nearest.text}")
    if gang.wanted and gang.placeable < gang.wanted:
        lines.append(f"  fits now  {gang.placeable} of {gang.wanted} pods")
    if gang.queue is not None:
        lines.append(f"  queue     {_queue(gang)}")
    if gang.evicted:
        lines.append(f"  evicted   {gang.evicted}")
    if gang.waits_for:
        lines.append(f"  victims   {gang.waits_for}")
    if gang.protected:
        lines.append(f"  protected {gang.protected}")
    lines += [f"  set aside {words}" for words in gang.set_aside]
    if gang.behind:
        lines.append(f"  behind    {', '.join(gang.behind)}")
    if gang.reason in HELP:
        lines.append(f"  help      {HELP[gang.reason].format(queue=_queue_name(gang, job))}")
    return lines


def _queue(gang: GangExplanation) -> str:
    assert gang.queue is not None
    gpu = "nvidia.com/gpu"
    used = gang.queue.allocated.get(gpu, "0")
    quota, limit = gang.queue.quota.get(gpu, "0"), gang.queue.limit.get(gpu, "0")
    text = f"{gang.queue.name} has {used} GPUs allocated, quota {quota}, limit {limit}"
    return f"{text} ({gang.queue.refuses})" if gang.queue.refuses else text


def _queue_name(gang: GangExplanation, job: Job) -> str:
    return gang.queue.name if gang.queue is not None else job.queue
