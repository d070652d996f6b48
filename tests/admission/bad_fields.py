"""Objects that make no sense: each with the field that is wrong, and a word of what to write.

The same table is tried on the embedded cluster and on a real API server, where a definition, a
policy or the webhook refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Object, Resource
from tests.control import objects


@dataclass(frozen=True)
class Bad:
    """`words`: in the refusal, whoever says it. `by_us`: only the webhook can know."""

    name: str
    resource: Resource
    obj: Object
    field: str
    words: tuple[str, ...]
    by_us: bool = False


def _queue(name: str, field: str, *words: str, by_us: bool = False, **queue: Any) -> Bad:
    return Bad(f"queue-{name}", kinds.QUEUE, objects.queue("bad", **queue), field, words, by_us)


def _noted_queue(key: str, value: str, *words: str) -> Bad:
    queue = objects.queue("bad")
    queue["metadata"]["annotations"] = {f"kai.scheduler/{key}": value}
    field = f"metadata.annotations[kai.scheduler/{key}]"
    return Bad(f"queue-{key}", kinds.QUEUE, queue, field, words)


def _share(**more: Any) -> Object:
    return {"quota": 0, "limit": -1, "overQuotaWeight": 1, **more}


QUEUES = [
    *(
        _queue(f"{key}-{value}", f"spec.resources.gpu.{key}", *words, gpu=_share(**{key: value}))
        for key in ("quota", "limit", "overQuotaWeight")
        for value, words in (
            (-2, ("-1",)),
            (-0.5, ("0 or more",)),
            (2**63, ()),
            ("4", ("number",)),
            (True, ("number",)),
        )
    ),
    _queue("above", "spec.resources.gpu", "limit", "lower", gpu=_share(quota=8, limit=4)),
    _queue("own-parent", "parentQueue", "another queue", parent="bad"),
    _queue("parent", "spec.parentQueue", "nowhere", "create it", parent="nowhere", by_us=True),
    _queue("priority", "spec.priority", "32", priority=2**40, by_us=True),
    _queue("runtime", "spec.preemptMinRuntime", preemptMinRuntime="soon"),
    Bad(
        "queue-resources",
        kinds.QUEUE,
        {"metadata": {"name": "bad"}, "spec": {}},
        "spec.resources",
        ("equired",),
    ),
    _noted_queue("placement-strategy", "tight", "neither binpack nor spread"),
    _noted_queue("default-priority-class", "Upper Case", "priority class"),
    _noted_queue("allowed-priority-classes", "train, B C", "separated by commas"),
    _noted_queue("node-pools", "a,,b", "separated by commas"),
    _noted_queue("gpu-types", "H 100", "separated by commas"),
    _noted_queue("max-run-time", "3 days", "such as 12h"),
    _noted_queue("reserved-gpus", "2.5", "whole number"),
    _noted_queue("drain-deadline", "tomorrow", "RFC 3339"),
    _noted_queue("notify", "ftp://example.com/", "https://"),
    _noted_queue("notify-on", "started, finished", "ended"),
    _noted_queue("notify-after", "a while", "such as 30m"),
]


def _group(name: str, field: str, *words: str, by_us: bool = False, **spec: Any) -> Bad:
    minimum = spec.pop("minimum", None)
    group = objects.podgroup("bad", "default-queue", minimum, **spec)
    del group["metadata"]["creationTimestamp"]
    return Bad(f"podgroup-{name}", kinds.POD_GROUP, group, field, words, by_us)


def _tree(name: str, subs: list[Object], field: str, *words: str, by_us: bool = True) -> Bad:
    return _group(f"tree-{name}", field, *words, by_us=by_us, subGroups=subs)


POD_GROUPS = [
    _group("minimum", "spec.minMember", minimum=-1),
    _group("both", "minSubGroup", "minMember", minimum=1, minSubGroup=1),
    _group("preemptibility", "spec.preemptibility", "non-preemptible", preemptibility="perhaps"),
    _group("delay", "spec.preemptionDelay", preemptionDelay="5 minutes"),
    _group(
        "many",
        "spec.subGroups",
        "10000",
        subGroups=[{"name": f"s{i}", "minMember": 1} for i in range(10_001)],
    ),
    _tree(
        "twice",
        [{"name": "a", "minMember": 1}, {"name": "a", "minMember": 1}],
        "spec.subGroups[1]",
        by_us=False,
    ),
    _tree(
        "parent", [{"name": "a", "minMember": 1, "parent": "b"}], "spec.subGroups[0].parent", "'b'"
    ),
    _tree("name", [{"name": "A", "minMember": 1}], "spec.subGroups[0].name", by_us=False),
    _tree("no-minimum", [{"name": "a"}], "spec.subGroups[0].minMember", "equired"),
    _tree(
        "leaf",
        [{"name": "a", "minSubGroup": 1}],
        "spec.subGroups[0].minSubGroup",
        "use minMember",
    ),
    _tree(
        "leaf-both",
        [{"name": "a", "minMember": 1, "minSubGroup": 1}],
        "spec.subGroups[0]",
        "minSubGroup",
        by_us=False,
    ),
    _tree(
        "negative",
        [{"name": "a", "minMember": -1}],
        "spec.subGroups[0].minMember",
        by_us=False,
    ),
    _tree(
        "inner",
        [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 1, "parent": "a"}],
        "spec.subGroups[0].minMember",
        "use minSubGroup",
    ),
    _tree(
        "cycle",
        [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}],
        "spec.subGroups",
        "cycle",
        "break it",
    ),
]


def _topology(name: str, levels: list[Object], *words: str) -> Bad:
    obj = {"metadata": {"name": "bad"}, "spec": {"levels": levels}}
    return Bad(f"topology-{name}", kinds.TOPOLOGY, obj, "spec", words)


TOPOLOGIES = [
    _topology("empty", [], "levels"),
    _topology(
        "twice", [{"nodeLabel": "rack"}, {"nodeLabel": "rack"}], "there twice", "its own name"
    ),
    _topology(
        "host", [{"nodeLabel": "kubernetes.io/hostname"}, {"nodeLabel": "rack"}], "last level"
    ),
    _topology(
        "alias",
        [{"nodeLabel": "a", "alias": "x"}, {"nodeLabel": "b", "alias": "x"}],
        "there twice",
        "its own name",
    ),
]


def _shard(name: str, spec: Object, field: str, *words: str, by_us: bool = False) -> Bad:
    obj = {"metadata": {"name": "bad"}, "spec": spec}
    return Bad(f"shard-{name}", kinds.SCHEDULING_SHARD, obj, field, words, by_us)


SHARDS = [
    _shard("strategy", {"placementStrategy": {"gpu": "tight"}}, "spec.placementStrategy.gpu"),
    _shard("k", {"kValue": -1}, "spec.kValue"),
    _shard("action", {"actions": {"juggle": {}}}, "spec.actions[juggle]", by_us=True),
    _shard("window", {"usageDBConfig": {"clientType": "magic"}}, "clientType", by_us=True),
]


def _pod(name: str, notes: dict[str, str], key: str, *words: str, **pod: Any) -> Bad:
    gpus = pod.pop("gpus", 0)
    made = objects.pod("bad", gpus=gpus, annotations=notes, **pod)
    made["metadata"].pop("uid", None)
    made["metadata"].pop("creationTimestamp", None)
    made.pop("status", None)
    return Bad(f"pod-{name}", kinds.POD, made, f"metadata.annotations[{key}]", words)


PODS = [
    *(
        _pod(f"fraction-{value}", {"gpu-fraction": value}, "gpu-fraction", "such as 0.5")
        for value in ("0", "1", "1.5", "-0.5", "NaN", "half", "0_5", "")
    ),
    *(
        _pod(f"memory-{value}", {"gpu-memory": value}, "gpu-memory", "whole MiB")
        for value in ("0", "-1", "8Gi", "1.5", "")
    ),
    *(
        _pod(
            f"devices-{value}",
            {"gpu-fraction": "0.5", "gpu-fraction-num-devices": value},
            "gpu-fraction-num-devices",
            "1 to 1024",
        )
        for value in ("0", "-1", "two", "1025")
    ),
    _pod("both", {"gpu-fraction": "0.5", "gpu-memory": "8000"}, "gpu-memory", "not both"),
    _pod("whole", {"gpu-fraction": "0.5"}, "gpu-fraction", "cannot stand beside", gpus=1),
    _pod("alone", {"gpu-fraction-num-devices": "2"}, "gpu-fraction-num-devices", "beside it"),
    _pod("mps", {"mps": "true"}, "mps", "beside it"),
    _pod(
        "container",
        {"gpu-fraction": "0.5", "gpu-fraction-container-name": "other"},
        "gpu-fraction-container-name",
        "name one of them",
    ),
    *(
        _pod(f"group-{value[:5]}", {"pod-group-name": value}, "pod-group-name", "DNS name")
        for value in ("Upper", "a/b", "x" * 300, "")
    ),
]

ALL = [*QUEUES, *POD_GROUPS, *TOPOLOGIES, *SHARDS, *PODS]
