"""Who decides queue, priority, preemptibility, topology and delays, and in which order.

The order is the same for all kinds and does not depend on which pod came last:
KAI's label or annotation (top owner, then owners from the nearest up, then the pod at hand or, seen
from the workload, its pod templates) > the kind's own field, if a Queue or PriorityClass of that
name exists > namespace label > default of the kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kai_ray.api import labels as keys
from kai_ray.api.durations import parse_duration

from .groups import Member
from .values import (
    Object,
    annotations_of,
    dig,
    group_of,
    kind_of,
    labels,
    name_of,
)
from .workload import Workload

#: The values of KAI's own priority classes, for readers that cannot look them up.
KNOWN_PRIORITIES = {
    "train": 50,
    "build-preemptible": 75,
    "build": 100,
    "inference": 125,
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
DEFAULT_PRIORITY = 50
#: What the label kai.scheduler/workload-type means where no priority class is named.
CLASS_OF_TYPE = {
    "train": "train",
    "training": "train",
    "build": "build",
    "interactive": "build",
    "interactive-preemptible": "build-preemptible",
    "build-preemptible": "build-preemptible",
    "inference": "inference",
    "serving": "inference",
}
#: From this value on, a workload without an explicit word is not preemptible.
NON_PREEMPTIBLE_FROM = 100
PREEMPTIBILITIES = ("preemptible", "non-preemptible")

#: Queue names that other schedulers' labels give; they count if a Queue of that name exists.
_FOREIGN_QUEUE_LABELS = (keys.KUEUE_QUEUE, "volcano.sh/queue-name", "yunikorn.apache.org/queue")
_FOREIGN_QUEUE_ANNOTATIONS = ("scheduling.volcano.sh/queue-name", "yunikorn.apache.org/queue")
_FOREIGN_PRIORITY_LABELS = ("kueue.x-k8s.io/priority-class",)


@dataclass(frozen=True, slots=True)
class Found:
    value: str
    source: str


def _called(obj: Object, what: str = "") -> str:
    return f"{kind_of(obj)[1] or what or 'object'} {name_of(obj)}".strip()


def sources(w: Workload, members: Iterable[Member]) -> Iterator[tuple[str, Object]]:
    """(words, object) in the order in which their labels and annotations count."""
    yield _called(w.top, "owner"), w.top
    seen = {id(w.top)}
    for owner in (*w.owners, w.subject):
        if id(owner) not in seen:
            seen.add(id(owner))
            yield _called(owner, "owner"), owner
    if w.pod is not None:
        yield f"pod {name_of(w.pod)}", w.pod
        return
    for member in members:
        if not member.optional:
            yield f"template of {member.role}", member.template


def _first_label(w: Workload, members: Iterable[Member], key: str) -> Found | None:
    for words, obj in sources(w, members):
        value = labels(obj).get(key, "")
        if value:
            return Found(value, f"label {key} of {words}")
    return None


def _namespace_label(w: Workload, key: str) -> Found | None:
    namespace = w.reader.get("v1", "Namespace", w.namespace) if w.namespace else None
    value = labels(namespace).get(key, "")
    return Found(value, f"label {key} of Namespace {w.namespace}") if value else None


def queue_of(
    w: Workload, members: tuple[Member, ...], native: tuple[tuple[str, Any], ...]
) -> Found:
    found = _first_label(w, members, w.settings.queue_label) or _project_queue(w, members)
    if found:
        return found
    for source, value in (*native, *_foreign(w, members, _FOREIGN_QUEUE_LABELS, labels)):
        if _exists(w, "scheduling.run.ai/v2", "Queue", value):
            return Found(value, source)
    for source, value in _foreign(w, members, _FOREIGN_QUEUE_ANNOTATIONS, annotations_of):
        if _exists(w, "scheduling.run.ai/v2", "Queue", value):
            return Found(value, source)
    return _namespace_label(w, w.settings.queue_label) or Found(
        w.settings.default_queue, "default queue"
    )


def _project_queue(w: Workload, members: tuple[Member, ...]) -> Found | None:
    """KAI's older label: the project, with the pod's node pool behind a dash."""
    project = _first_label(w, members, keys.LEGACY_PROJECT)
    if project is None:
        return None
    pool = pod_label(w, members, w.settings.node_pool_label)
    return Found(f"{project.value}-{pool}", project.source) if pool else project


def _foreign(
    w: Workload, members: tuple[Member, ...], names: tuple[str, ...], part: Any
) -> Iterator[tuple[str, str]]:
    for key in names:
        for words, obj in sources(w, members):
            if key in part(obj):
                yield f"{key} of {words}", part(obj)[key]


def _exists(w: Workload, api_version: str, kind: str, name: Any) -> bool:
    return (
        isinstance(name, str) and bool(name) and w.reader.get(api_version, kind, name) is not None
    )


def pod_label(w: Workload, members: Iterable[Member], key: str) -> str:
    """A label of the pods themselves: from the pod at hand, else from the templates."""
    if w.pod is not None:
        return labels(w.pod).get(key, "")
    for member in members:
        if not member.optional and labels(member.template).get(key):
            return labels(member.template)[key]
    return ""


def pod_annotation(w: Workload, members: Iterable[Member], key: str) -> str:
    if w.pod is not None:
        return annotations_of(w.pod).get(key, "")
    for member in members:
        if not member.optional and annotations_of(member.template).get(key):
            return annotations_of(member.template)[key]
    return ""


def priority_of(
    w: Workload,
    members: tuple[Member, ...],
    default: str,
    native: tuple[tuple[str, Any], ...],
    queue: str = "",
) -> Found:
    """The first that exists as a PriorityClass; the kind's default is not looked up.

    Nobody's word at all: the type of the workload, then the default of its `queue`.
    """
    for words, obj in sources(w, members):
        value = labels(obj).get(keys.PRIORITY_CLASS, "")
        if priority_exists(w, value):
            return Found(value, f"label {keys.PRIORITY_CLASS} of {words}")
    foreign = _foreign(w, members, _FOREIGN_PRIORITY_LABELS, labels)
    for source, value in (*native, *foreign, *_pod_priorities(w, members)):
        if priority_exists(w, value):
            return Found(value, source)
    found = _namespace_label(w, keys.PRIORITY_CLASS)
    if found and priority_exists(w, found.value):
        return found
    typed = _by_type(w, members)
    if typed:
        return typed
    for entry, source in kind_defaults(w):
        if priority_exists(w, entry.get("priorityName")):
            return Found(entry["priorityName"], source)
    return queue_default(w, queue) or Found(default, "default of the kind")


def _by_type(w: Workload, members: tuple[Member, ...]) -> Found | None:
    """The class of the workload's type: build, train, inference."""
    found = _first_label(w, members, keys.WORKLOAD_TYPE)
    name = CLASS_OF_TYPE.get(found.value) if found else None
    return Found(name, found.source) if found and name and priority_exists(w, name) else None


def type_of(w: Workload, members: tuple[Member, ...], notes: list[str]) -> str:
    """The workload's type as it is said; one that does not exist is none."""
    found = _first_label(w, members, keys.WORKLOAD_TYPE)
    if found is None or found.value in CLASS_OF_TYPE:
        return found.value if found else ""
    words = "is ignored; write one of train, build, inference"
    notes.append(f"{found.source}: {found.value!r} {words}")
    return ""


def queue_default(w: Workload, queue: str) -> Found | None:
    """What the queue, or the next above it that says so, gives workloads that name no class."""
    seen: set[str] = set()
    while queue and queue not in seen:
        seen.add(queue)
        found = w.reader.get("scheduling.run.ai/v2", "Queue", queue)
        if found is None:
            return None
        value = annotations_of(found).get(keys.DEFAULT_PRIORITY_CLASS, "")
        if value:
            source = f"annotation {keys.DEFAULT_PRIORITY_CLASS} of Queue {queue}"
            return Found(value, source) if priority_exists(w, value) else None
        parent = dig(found, "spec.parentQueue")
        queue = parent if isinstance(parent, str) else ""
    return None


def priority_exists(w: Workload, name: Any) -> bool:
    return _exists(w, "scheduling.k8s.io/v1", "PriorityClass", name)


def _pod_priorities(w: Workload, members: Iterable[Member]) -> Iterator[tuple[str, Any]]:
    if w.pod is not None:
        yield f"priorityClassName of pod {name_of(w.pod)}", dig(w.pod, "spec.priorityClassName")
        return
    for member in members:
        spec = member.template.get("spec")
        if not member.optional and isinstance(spec, dict):
            yield f"priorityClassName of {member.role}", spec.get("priorityClassName")


def preemptibility_of(w: Workload, members: tuple[Member, ...], notes: list[str]) -> Found:
    """ "" where nobody says: then the priority decides."""
    for words, obj in sources(w, members):
        value = labels(obj).get(keys.PREEMPTIBILITY, "")
        if value in PREEMPTIBILITIES:
            return Found(value, f"label {keys.PREEMPTIBILITY} of {words}")
        if value:
            notes.append(
                f"label {keys.PREEMPTIBILITY} of {words}: {value!r} is ignored; "
                f"write {' or '.join(PREEMPTIBILITIES)}"
            )
    found = _namespace_label(w, keys.PREEMPTIBILITY)
    if found and found.value in PREEMPTIBILITIES:
        return found
    for entry, source in kind_defaults(w):
        if entry.get("preemptibility") in PREEMPTIBILITIES:
            return Found(entry["preemptibility"], source)
    return Found("", "priority class")


def kind_defaults(w: Workload) -> Iterator[tuple[dict[str, Any], str]]:
    """Entries of the defaults ConfigMap for the kinds in the chain: Kind.group, then bare Kind."""
    where = w.settings.defaults_config_map
    if where is None:
        return
    config = w.reader.get("v1", "ConfigMap", where[1], where[0])
    entries = _entries((config or {}).get("data"))
    for owner in w.owners or (w.subject,):
        api_version, kind = kind_of(owner)
        for group in (group_of(api_version), ""):
            for entry in entries:
                if kind and entry.get("typeName") == kind and (entry.get("group") or "") == group:
                    yield entry, f"ConfigMap {where[0]}/{where[1]} for {kind}"


def _entries(data: Any) -> list[dict[str, Any]]:
    raw = data.get("types") if isinstance(data, dict) else None
    try:
        parsed = json.loads(raw) if isinstance(raw, str) else []
    except ValueError:
        return []
    return [e for e in parsed if isinstance(e, dict)] if isinstance(parsed, list) else []


def is_preemptible(w: Workload, priority: str, preemptibility: str) -> bool:
    if preemptibility:
        return preemptibility == "preemptible"
    found = w.reader.get("scheduling.k8s.io/v1", "PriorityClass", priority)
    value = found.get("value") if found else KNOWN_PRIORITIES.get(priority, DEFAULT_PRIORITY)
    return not isinstance(value, int) or value < NON_PREEMPTIBLE_FROM


def delay_of(
    w: Workload, members: tuple[Member, ...], key: str, notes: list[str], *, negative: bool
) -> str:
    """The first valid Go duration in an annotation, "" for none."""
    for words, obj in sources(w, members):
        value = annotations_of(obj).get(key, "")
        if not value:
            continue
        seconds = parse_duration(value)
        if seconds is not None and (negative or seconds >= 0):
            return value
        notes.append(
            f"annotation {key} of {words}: {value!r} is ignored; write a duration such as 5m or 90s"
        )
    return ""
