"""Why a workload waits, asked of any API server: list, encode, decide, and say what came out.

Nothing on the server takes part: the same decision is made again here, on what it holds now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import Clock, SystemClock
from kai_ray.cluster.pages import listed
from kai_ray.cluster.port import Key, NotFound, Object, Port, key_of
from kai_ray.cluster.served import device_kinds
from kai_ray.controllers import facts as f
from kai_ray.controllers.amounts import resource_list
from kai_ray.controllers.conditions import find
from kai_ray.controllers.cycle import Cycle, carried_out
from kai_ray.controllers.eviction_words import evicted_sentence, hold_sentence, notice_sentence
from kai_ray.controllers.explanation import (
    Explanation,
    GangExplanation,
    Nearest,
    QueueExplanation,
)
from kai_ray.controllers.facts import GangFacts, gang_facts
from kai_ray.controllers.idle.words import left_sentence, warned_sentence
from kai_ray.controllers.owners import controller, top_owner
from kai_ray.controllers.picture import spared
from kai_ray.controllers.protection import protected_sentence
from kai_ray.controllers.shard_choice import shard_of
from kai_ray.controllers.told_usage import usage_of
from kai_ray.controllers.verdict import Verdict, Verdicts
from kai_ray.controllers.victim_choice import choose
from kai_ray.controllers.words import amount, word
from kai_ray.encode import (
    ADDED_RESOURCES,
    RESOURCES,
    EncodeConfig,
    Encoded,
    Encoder,
    MemberOf,
    bad_devices,
)
from kai_ray.podgrouper.members import Members
from kai_ray.scheduler import DEFAULT, Policy, decide
from kai_ray.scheduler.gpu.lack import cards_asked
from kai_ray.scheduler.plan import Wait
from kai_ray.scheduler.reason import Reason

_FEW = 5
#: Waits that nobody's leaving would end.
_NOT_FOR_ROOM = (
    Reason.GANG_INCOMPLETE,
    Reason.POD_GATED,
    Reason.SUSPENDED,
    Reason.MISCONFIGURED,
    Reason.OVER_LIMIT,
    Reason.NON_PREEMPTIBLE_OVER_QUOTA,
)
_QUEUE_ROWS = ("cpu", "memory", "gpu")

__all__ = [
    "Explanation",
    "GangExplanation",
    "Nearest",
    "QueueExplanation",
    "explain_cycle",
    "explain_workload",
    "set_aside",
]


def explain_workload(
    port: Port,
    kind: str,
    name: str,
    namespace: str = "default",
    *,
    config: EncodeConfig | None = None,
    member_of: MemberOf | None = None,
    policy: Policy = DEFAULT,
    clock: Clock | None = None,
) -> Explanation:
    """`kind` is a workload's kind, "PodGroup" or "Pod" (in any case of letters).

    `member_of` tells the gang of pods that carry none; by default their owners are read.
    """
    config, policy = shard_of(port, kind, name, namespace, config, policy)
    encoder, groups, aside = _listed(port, config, member_of or Members.over(port).of)
    clock = clock or SystemClock()
    kept = spared(port, clock, encoder, groups.values())
    encoded = encoder.snapshot(clock.now())
    plan = choose(encoded, *kept, lambda snapshot: decide(snapshot, policy))
    cycle = carried_out(0, encoded, plan)
    chosen = [g for g in groups.values() if _belongs(g, kind, name, namespace)]
    if kind.lower() == "pod":
        chosen = _of_pod(encoded, groups, Key(namespace, name))
    if not chosen:
        return Explanation(kind, name, namespace, _nothing(encoder, kind, name, namespace))

    return explain_cycle(cycle, chosen, groups.get, kind, name, namespace, policy, aside)


def explain_cycle(
    cycle: Cycle,
    chosen: Iterable[Object],
    group_of: Callable[[Key], Object | None],
    kind: str,
    name: str,
    namespace: str,
    policy: Policy = DEFAULT,
    aside: tuple[str, ...] = (),
) -> Explanation:
    """The same of a cycle that has been: what was decided, for the PodGroups `chosen`.

    `group_of` finds the PodGroup of any gang. At least one has to be chosen.
    """
    encoded = cycle.encoded

    def queue_of(key: Key) -> str:
        return ((group_of(key) or {}).get("spec") or {}).get("queue") or ""

    verdicts = Verdicts(encoded, cycle.plan.waits, queue_of)
    gangs = gang_facts(cycle)
    found = [
        replace(
            _gang(cycle, gangs, verdicts, g, queue_of(key_of(g))),
            protected=_protected(encoded, verdicts.waits.get(key_of(g)), policy),
            set_aside=aside if _wants_gpus(encoded, verdicts.waits.get(key_of(g))) else (),
        )
        for g in chosen
    ]
    found.sort(key=lambda g: (g.state != "Waiting", g.name))
    return Explanation(kind, name, namespace, _summary(kind, name, found), tuple(found))


def _listed(
    port: Port, config: EncodeConfig | None, member_of: MemberOf | None
) -> tuple[Encoder, dict[Key, Object], tuple[str, ...]]:
    """All objects taken in, the PodGroups, and which devices are set aside."""
    encoder = Encoder(config, member_of)
    groups: dict[Key, Object] = {}
    aside: tuple[str, ...] = ()
    for resource in (*RESOURCES, *ADDED_RESOURCES, *device_kinds(port)):
        # A kind that is not served has none.
        objects = listed(port, resource, unless=NotFound)
        encoder.apply_all(resource, objects)
        if resource == kinds.POD_GROUP:
            groups = {key_of(obj): obj for obj in objects}
        elif resource == kinds.QUEUE:
            encoder.set_usage(usage_of(objects))
        elif resource == kinds.NODE:
            aside = set_aside(objects)
    return encoder, groups, aside


def set_aside(nodes: Iterable[Object]) -> tuple[str, ...]:
    """A few of the devices that nobody gets, and why."""
    return tuple(islice((words for node in nodes for words in _set_aside(node)), _FEW))


def _set_aside(node: Object) -> Iterator[str]:
    for device in bad_devices.read(node["metadata"].get("annotations") or {}):
        until = f" until {device.until}" if device.until else ""
        yield f"device {device.name} of {node['metadata']['name']}{until}: {device.reason}"


def _wants_gpus(encoded: Encoded, wait: Wait | None) -> bool:
    """Whether a gang waits for room, and asks for GPUs or parts of them."""
    if wait is None or wait.klass < 0 or wait.reason in _NOT_FOR_ROOM:
        return False
    return cards_asked(encoded.snapshot, wait.klass) > 0


def _belongs(group: Object, kind: str, name: str, namespace: str) -> bool:
    key = key_of(group)
    if key.namespace != namespace:
        return False
    if kind.lower() == "podgroup":
        return key.name == name
    return any(
        owner is not None
        and owner.key.name == name
        and kind.lower() in (owner.resource.kind.lower(), owner.resource.plural)
        for owner in (top_owner(group), controller(group))
    )


def _of_pod(encoded: Encoded, groups: dict[Key, Object], pod: Key) -> list[Object]:
    row = encoded.names.row_of(pod)
    gang = int(encoded.snapshot.tasks.gang[row]) if row >= 0 else -1
    if gang >= 0:
        return [groups[encoded.names.gang(gang)]]
    found = encoded.names.pod_objects.get(pod) or {}
    annotations = (found.get("metadata") or {}).get("annotations") or {}
    key = Key(pod.namespace, annotations.get(names.POD_GROUP) or "")
    return [groups[key]] if key in groups else []


def _nothing(encoder: Encoder, kind: str, name: str, namespace: str) -> str:
    if kind.lower() == "pod":
        pod = encoder.pods.objects.get(Key(namespace, name))
        if pod is None:
            return f"there is no pod {name} in namespace {namespace}"
        if not encoder.pods.ours(pod):
            scheduler = pod["spec"].get("schedulerName") or "default-scheduler"
            return f"pod {name} is not ours: its scheduler is {scheduler}"
        problem = encoder.problems.get(("Pod", Key(namespace, name)))
        if problem is not None:
            return f"pod {name} cannot be read: {problem.message}"
    return (
        f"{kind} {name} has no PodGroup in namespace {namespace}: it does not exist, is suspended, "
        "or has not been grouped yet"
    )


def _gang(
    cycle: Cycle, gangs: GangFacts, verdicts: Verdicts, group: Object, queue: str
) -> GangExplanation:
    key = key_of(group)
    row = gangs.row_of.get(key)
    if row is None:
        text = "belongs to another node pool"
        return GangExplanation(key.name, key.namespace, "Empty", "", text)
    figures = gangs.figures[:, row].tolist()
    verdict, wait = verdicts.of(key), verdicts.waits.get(key)
    state, reason, text = _state(group, figures, verdict, _placed_now(cycle, row))
    told = wait if state in ("Waiting", "Growing") else None
    return GangExplanation(
        name=key.name,
        namespace=key.namespace,
        state=state,
        reason=reason,
        sentence=text,
        reasons={word(r): n for r, n in told.counts} if told else {},
        nearest=_nearest(cycle, told) if told else None,
        queue=_queue(cycle, queue, told),
        behind=_behind(cycle, told) if told else (),
        wanted=told.wanted if told else 0,
        placeable=told.placeable if told else 0,
        evicted=_why_it_left(group, state),
        notice=notice_sentence(group) or warned_sentence(group),
        waits_for=hold_sentence(group, cycle.encoded.snapshot.now_s),
    )


def _why_it_left(group: Object, state: str) -> str:
    evicted = evicted_sentence(group) if state in ("Waiting", "Starting") else ""
    idle = left_sentence(group) if state in ("Waiting", "Starting", "Empty") else ""
    return evicted or idle


def _protected(encoded: Encoded, wait: Wait | None, policy: Policy) -> str:
    if wait is None or wait.reason in _NOT_FOR_ROOM:
        return ""
    return protected_sentence(encoded, wait.gang, policy.evicting)


def _placed_now(cycle: Cycle, row: int) -> int:
    gang = cycle.encoded.snapshot.tasks.gang
    return int((gang[cycle.plan.bind_task] == row).sum())


def _counted(pods: int) -> str:
    return "1 pod" if pods == 1 else f"{pods} pods"


def _in_places(pods: int) -> str:
    return f"{_counted(pods)} {'has' if pods == 1 else 'have'} a place"


def _state(
    group: Object, figures: list[int], verdict: Verdict | None, placed_now: int
) -> tuple[str, str, str]:
    said = find(group, "Scheduled")
    placed = figures[f.PLACED]
    if verdict is not None and verdict.blocks_start and not figures[f.SATISFIED]:
        return "Waiting", verdict.word, verdict.message
    if placed_now:
        if said.get("reason") == "BackingOff":
            return "Waiting", "BackingOff", str(said.get("message"))
        return "Starting", "", f"{_counted(placed_now)} can start with the next cycle"
    if placed and verdict is not None:
        text = f"{_in_places(placed)}; the others wait: {verdict.message}"
        return "Growing", verdict.word, text
    if placed:
        return "Running", "", f"{_in_places(placed)}, {figures[f.RUNNING]} running"
    if figures[f.SUCCEEDED]:
        count = figures[f.SUCCEEDED]
        return "Finished", "", f"{count} {'pod has' if count == 1 else 'pods have'} succeeded"
    least = max(1, figures[f.MINIMUM])
    text = "its pod does not exist yet" if least == 1 else f"none of {least} pods exists yet"
    return "Waiting", "GangIncomplete", text


def _nearest(cycle: Cycle, wait: Wait) -> Nearest | None:
    if wait.nearest < 0:
        return None
    resources = cycle.encoded.snapshot.resources
    node = cycle.encoded.names.node(wait.nearest)
    lacks = " and ".join(amount(row, value, resources) for row, value in wait.missing)
    values = [0] * len(resources)
    for row, value in wait.missing:
        values[row] = value
    return Nearest(node, resource_list(values, resources), f"{node} lacks {lacks}")


def _queue(cycle: Cycle, name: str, wait: Wait | None) -> QueueExplanation | None:
    rows = cycle.encoded.names.queues
    cause = wait.queue_cause if wait else None
    if cause is not None:
        name = rows[cause.queue]
    if name not in rows:
        return None
    row, queues = rows.index(name), cycle.encoded.snapshot.queues
    return QueueExplanation(
        name,
        resource_list(cycle.plan.allocated[:, row].tolist(), _QUEUE_ROWS),
        _bounds(queues.quota[:, row].tolist()),
        _bounds(queues.limit[:, row].tolist()),
        word(cause.reason) if cause else "",
    )


def _bounds(values: list[float]) -> dict[str, str]:
    listed = resource_list([max(0.0, v) for v in values], _QUEUE_ROWS)
    keys = ("cpu", "memory", names.NVIDIA_GPU)
    return {
        key: "unlimited" if value < 0 else listed.get(key, "0")
        for key, value in zip(keys, values, strict=True)
    }


def _behind(cycle: Cycle, wait: Wait) -> tuple[str, ...]:
    return tuple(cycle.encoded.names.gang(g).name for g in wait.behind[:_FEW])


def _summary(kind: str, name: str, gangs: list[GangExplanation]) -> str:
    first = gangs[0]
    verb = {"Waiting": "waits", "Growing": "runs", "Finished": "is finished"}.get(
        first.state, first.state.lower()
    )
    if first.state == "Running":
        verb = "runs"
    elif first.state == "Starting":
        verb = "is about to start"
    reason = f" ({first.reason})" if first.reason else ""
    others = f" and {len(gangs) - 1} more gangs" if len(gangs) > 1 else ""
    told = (first.sentence, first.notice, first.waits_for, first.evicted)
    text = "; ".join(filter(None, told))
    return f"{kind} {name} {verb}{reason}: {text}{others}"
