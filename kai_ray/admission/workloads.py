"""What a user should hear at once about a workload that is taken all the same.

It would wait, and its PodGroup would say why; these are the reasons that can be seen before: a
queue or a kind of GPU that does not exist, pods larger than any node, fields that are ignored.
Warnings are no verdict: a queue or a node may come later.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from kai_ray.admission.webhooks import WORKLOADS
from kai_ray.api import labels as names
from kai_ray.api import notify
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import AdmissionRequest, ApiError, NotFound, Object, Port, unheard
from kai_ray.cluster.selectors import parse_selector
from kai_ray.encode import requests
from kai_ray.encode.problems import MISREAD, Malformed
from kai_ray.podgrouper.groups import Group
from kai_ray.podgrouper.plan import groups_to_be
from kai_ray.podgrouper.values import GroupError
from kai_ray.podgrouper.workload import NoReader, Settings

#: More would only be cut by the API server.
_MOST = 8
_FEW = 4


class WorkloadAdmission:
    """Refuses nothing. `nodes` gives all nodes; without it nothing is said about them."""

    resources = frozenset(WORKLOADS)

    def __init__(
        self,
        settings: Settings | None = None,
        nodes: Callable[[Port], Iterable[Object]] | None = None,
    ) -> None:
        self._settings = settings or Settings()
        self._nodes = nodes

    def admit(self, request: AdmissionRequest, reader: Port) -> Object:
        obj = request.object
        if request.operation != "CREATE" or obj["metadata"].get("ownerReferences"):
            return obj
        if request.warn is unheard:
            return obj
        kind = request.resource
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
        for warning in list(self.warnings(whole, reader))[:_MOST]:
            request.warn(warning)
        return obj

    def warnings(self, obj: Object, reader: Port) -> Iterator[str]:
        """What there is to say about a workload that is about to be created."""
        for problem in notify.problems(obj["metadata"].get("annotations") or {}):
            yield f"nobody is told of it: {problem}"
        try:
            groups = groups_to_be(obj, _Lookups(reader), self._settings) or []
        except GroupError as error:
            yield f"it cannot be scheduled as it is: {error}"
            return
        said: set[str] = set()
        nodes = list(self._nodes(reader)) if self._nodes is not None and groups else []
        for group in groups[:_FEW]:
            for warning in (*_about_queue(group, reader), *group.notes, *_about_gpus(group, nodes)):
                if warning not in said:
                    said.add(warning)
                    yield warning


def _about_queue(group: Group, reader: Port) -> Iterator[str]:
    source = group.sources.get("queue") or "queue"
    try:
        queue = reader.get(kinds.QUEUE, group.queue)
    except NotFound:
        known = [q["metadata"]["name"] for q in _queues(reader)]
        close = difflib.get_close_matches(group.queue, known, 1)
        hint = f"did you mean {close[0]!r}?" if close else "create it, or name another"
        yield f"{source}: queue {group.queue!r} does not exist, so the job waits: {hint}"
        return
    except ApiError:
        return
    if (queue["metadata"].get("annotations") or {}).get(names.QUEUE_PAUSED) == "true":
        yield f"{source}: queue {group.queue!r} is paused: the job waits until it is resumed"


def _queues(reader: Port) -> Sequence[Object]:
    try:
        return reader.list(kinds.QUEUE).items
    except ApiError:
        return ()


def _about_gpus(group: Group, nodes: Sequence[Object]) -> Iterator[str]:
    """Pods that no node as it is now could take, each by itself."""
    if not nodes:
        return
    for member in group.members:
        spec = member.template.get("spec")
        if not isinstance(spec, dict) or not member.count:
            continue
        try:
            wanted = dict(requests.effective(spec))
            eligible = [n for n in nodes if _chosen(spec, n)]
        except (Malformed, *MISREAD):
            continue
        asked = {name: count for name, count in wanted.items() if name in names.GPU_RESOURCES}
        if not asked:
            continue
        if not eligible:
            yield f"{member.role}: {_no_type(spec, nodes)}"
            continue
        for name, count in asked.items():
            most = max(_has(node, name) for node in eligible)
            if count > most:
                there = f"the largest has {most}" if most else "none has any"
                yield (
                    f"{member.role}: a pod asks for {count} {name}, but of {len(eligible)} nodes "
                    f"that it may use {there}: it waits until one comes"
                )


def _no_type(spec: Object, nodes: Sequence[Object]) -> str:
    selector: Mapping[str, str] = spec.get("nodeSelector") or {}
    wanted = selector.get(names.GPU_PRODUCT)
    if wanted is not None:
        products = {(n["metadata"].get("labels") or {}).get(names.GPU_PRODUCT) for n in nodes}
        there = ", ".join(sorted(p for p in products if p)[:_FEW])
        if wanted not in products:
            return f"no node has {names.GPU_PRODUCT}={wanted}: there is {there or 'no GPU type'}"
    return "no node matches its node selector and affinity: it waits until one comes"


def _chosen(spec: Object, node: Object) -> bool:
    """Whether selector and required affinity of a pod take the node."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if not affinity:
        return True
    return any(
        _term(term.get("matchExpressions"), labels)
        and _term(term.get("matchFields"), {"metadata.name": node["metadata"]["name"]})
        for term in affinity.get("nodeSelectorTerms") or ()
    )


def _term(expressions: Sequence[Object] | None, values: Mapping[str, str]) -> bool:
    rules = [_requirement(e) for e in expressions or ()]
    return all(rule(values) for rule in rules)


def _requirement(expression: Object) -> Callable[[Mapping[str, str]], bool]:
    if expression.get("operator") in ("Gt", "Lt"):
        bound = int((expression.get("values") or ["0"])[0])
        more = expression["operator"] == "Gt"

        def holds(values: Mapping[str, str]) -> bool:
            try:
                value = int(values[expression["key"]])
            except (KeyError, ValueError):
                return False
            return value > bound if more else value < bound

        return holds
    (rule,) = parse_selector({"matchExpressions": [expression]})
    return rule.holds


def _has(node: Object, name: str) -> int:
    try:
        found = ((node.get("status") or {}).get("allocatable") or {}).get(name, 0)
        return requests.amount(name, found, "status.allocatable")
    except Malformed:
        return 0


class _Lookups(NoReader):
    """The port as rules read it: single objects only."""

    def __init__(self, port: Port) -> None:
        self._port = port

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Object | None:
        resource = kinds.BY_KIND.get((api_version, kind))
        if resource is None:
            return None
        try:
            return self._port.get(resource, name, namespace if resource.namespaced else "")
        except ApiError:
            return None
