"""Why a job waits and what would help: the same decision, made again on what the server holds."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import Clock
from kai_ray.cluster.port import Port
from kai_ray.sdk.finding import Found
from kai_ray.sight.jobs.listing import Job
from kai_ray.sight.jobs.remedies import REMEDIES

if TYPE_CHECKING:
    from kai_ray.controllers.explain import Explanation as Verdict
    from kai_ray.controllers.explain import GangExplanation

#: Events that say why a workload has no gang or no pods.
_REFUSALS = ("InvalidPodGroup", "FailedCreate", "FailedCreatePod")


@dataclass(frozen=True)
class Explanation:
    """Why a job waits: `str()` gives the sentence and the details, one a line.

    `reason` is the typed word (`OverLimit`, ...), `help` what would help, `gangs` the figures.

    >>> job = kai.submit(kai_ray.BatchJob("huge", image="busybox", gpus=9), queue="vision")
    >>> why = job.wait(until="decided").explain()
    >>> why.status, why.reason
    ('Waiting', 'LargerThanAnyNode')
    >>> print(why)
    Job huge: ...
      reason    LargerThanAnyNode
    ...
    """

    kind: str
    namespace: str
    name: str
    status: str
    reason: str
    sentence: str
    help: str
    position: int | None
    lines: tuple[str, ...]
    gangs: tuple[dict[str, Any], ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        first, *rest = (html.escape(line.strip()) for line in self.lines)
        return f"<b>{first}</b><br>" + "<br>".join(rest)

    def document(self) -> dict[str, Any]:
        """The explanation as `kai explain -o json` prints it.

        >>> kai.job("huge").explain().document()["reason"]
        'LargerThanAnyNode'
        """
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "status": self.status,
            "reason": self.reason,
            "sentence": self.sentence,
            "position": self.position,
            "gangs": list(self.gangs),
        }


def explain(port: Port, found: Found, clock: Clock | None = None) -> Explanation:
    """Makes the decision again for one workload, at the clock's time; nothing is changed."""
    job = found.job
    verdicts = _verdicts(port, job, clock) if job is not None and job.gangs else []
    lines: list[str] = []
    suspended = job is not None and job.status == "Suspended"
    if suspended:
        lines = [_suspended(found), *_who_suspended(found)]
    elif job is not None:
        for verdict in verdicts:
            for gang in verdict.gangs:
                lines += _gang(gang, job)
        if verdicts and not lines:
            lines = ["its gang has not been looked at yet"]
    without = _suspended(found) if suspended else "" if verdicts else _without_gang(found)
    lines = lines or [without]
    if job is None or not any(g.pods for g in job.gangs):
        refused = _refused(port, found)
        lines += [f"  refused   {refused}"] * bool(refused)
    gangs = tuple(g for v in verdicts for g in v.to_dict()["gangs"])
    first = next((g for g in gangs if g["state"] == "Waiting"), gangs[0] if gangs else {})
    reason = "" if suspended else first.get("reason", "")
    return Explanation(
        kind=found.resource.kind,
        namespace=found.namespace,
        name=found.name,
        status=job.status if job else "Unknown",
        reason=reason,
        sentence=without or first.get("sentence", ""),
        help=REMEDIES.get(reason, "").format(queue=job.queue if job else "QUEUE"),
        position=job.position if job else None,
        lines=tuple(lines),
        gangs=gangs,
    )


def _suspended(found: Found) -> str:
    return f"{found} is suspended: kai job resume {found.name} puts it back into its queue"


def _who_suspended(found: Found) -> list[str]:
    """The rule for idle jobs leaves word; a user's hand does not."""
    word = (found.object["metadata"].get("annotations") or {}).get(L.SUSPENDED_BY)
    return [f"  because   {word}"] if word else []


def _without_gang(found: Found) -> str:
    return f"{found} has no gang yet: its operator has made no pods, or it is not ours"


def _refused(port: Port, found: Found) -> str:
    """What stopped the pods or the gang from being made, as the last event about it says."""
    fields = f"involvedObject.kind={found.resource.kind},involvedObject.name={found.name}"
    events = port.list(R.EVENT, found.namespace, fields=fields).items
    uid = found.object["metadata"].get("uid")
    told = [
        e
        for e in events
        if e.get("reason") in _REFUSALS and e["involvedObject"].get("uid") in (None, "", uid)
    ]
    last = max(told, key=lambda e: e.get("lastTimestamp") or "", default=None)
    return str(last.get("message")) if last else ""


def _verdicts(port: Port, job: Job, clock: Clock | None) -> list[Verdict]:
    from kai_ray.controllers.explain import explain_workload

    whole = explain_workload(port, job.kind, job.name, job.namespace, clock=clock)
    if whole.gangs:
        return [whole]
    # Its gangs belong to an object in between (the JobSet of a TrainJob).
    return [
        explain_workload(port, "PodGroup", g.name, job.namespace, clock=clock) for g in job.gangs
    ]


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
    if gang.reason in REMEDIES:
        lines.append(f"  help      {REMEDIES[gang.reason].format(queue=_queue_name(gang, job))}")
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
