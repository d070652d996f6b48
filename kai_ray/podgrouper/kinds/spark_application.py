"""SparkApplication: driver and executors are one group, named as Spark's own selector label.

Executors exist only once the driver runs, so the driver starts alone; with the first executor the
minimum is the driver and all executors that the application asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kai_ray.podgrouper.build import build_group, group_name
from kai_ray.podgrouper.groups import Group, Member
from kai_ray.podgrouper.values import Object, count, dig, flag, labels, metadata, text
from kai_ray.podgrouper.workload import Place, Rule, Workload

from .pod import SPARK_SELECTOR

ROLE = "spark-role"


def executors(app: Object) -> int:
    """Executors that must start with the driver."""
    if flag(app, "spec.dynamicAllocation.enabled"):
        least = count(app, "spec.dynamicAllocation.minExecutors", None)
        if least is None:
            least = count(app, "spec.dynamicAllocation.initialExecutors", 0)
        return least or 0
    found = count(app, "spec.executor.instances", 1)
    return 1 if found is None else found


def spark_groups(w: Workload) -> list[Group]:
    name = _name(w.subject, w.pod)
    wanted = executors(w.subject)
    members = [Member("driver", _template(w.subject, "driver"), 1)]
    members.append(Member("executor", _template(w.subject, "executor"), wanted))
    minimum = 1 if _driver_first(w) else 1 + wanted
    native = (
        ("spec.batchSchedulerOptions.queue", dig(w.subject, "spec.batchSchedulerOptions.queue")),
    )
    priority = "spec.batchSchedulerOptions.priorityClassName"
    return [
        build_group(
            w,
            name=name,
            min_member=minimum,
            members=members,
            native_queue=native,
            native_priority=((priority, dig(w.subject, priority)),),
        )
    ]


def _name(app: Object, pod: Object | None) -> str:
    return (
        labels(pod).get(SPARK_SELECTOR) or text(app, "status.sparkApplicationId") or group_name(app)
    )


def _driver_first(w: Workload) -> bool:
    """Whether the group has only its driver yet, and it has no node."""
    if w.planning or w.pod is None or labels(w.pod).get(ROLE) != "driver":
        return False
    return not dig(w.pod, "spec.nodeName")


def _template(app: Object, role: str) -> Object:
    """A pod template with the sizes of one role."""
    spec: Any = dig(app, f"spec.{role}") or {}
    own = spec.get("template") if isinstance(spec.get("template"), dict) else {}
    memory = _spark_bytes(spec.get("memory"))
    amounts: Object = {"cpu": spec.get("coreRequest") or spec.get("cores") or 1}
    amounts["memory"] = memory + max(int(memory * _overhead(app, spec)), 384 * 2**20)
    gpu = spec.get("gpu")
    if isinstance(gpu, dict) and gpu.get("name"):
        amounts[str(gpu["name"])] = gpu.get("quantity") or 0
    return {
        "metadata": {
            **metadata(own),
            "labels": {**labels(own), **labels({"metadata": spec})},
            "annotations": spec.get("annotations") or {},
        },
        "spec": {
            **(own.get("spec") or {}),
            "containers": [{"name": f"spark-{role}", "resources": {"requests": amounts}}],
        },
    }


def _overhead(app: Object, spec: Object) -> float:
    value = spec.get("memoryOverheadFactor") or dig(app, "spec.memoryOverheadFactor")
    try:
        return float(value) if value is not None else 0.1
    except (TypeError, ValueError):
        return 0.1


_JVM_UNITS = {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def _spark_bytes(value: Any) -> int:
    """Spark's JVM sizes ("512m", "4g"); 1 GiB where nothing readable stands, as Spark assumes."""
    raw = str(value or "1g").strip().lower().removesuffix("ib").removesuffix("i")
    raw = raw[:-1] if raw.endswith("b") and raw[:-1][-1:] in _JVM_UNITS else raw
    unit = _JVM_UNITS.get(raw[-1:], 0)
    number = raw[:-1] if unit else raw
    return int(number) * (unit or 1) if number.isdecimal() and len(number) < 16 else 2**30


def place_spark_pod(w: Workload, pod: Object, groups: Sequence[Group]) -> Place:
    return Place(_name(w.subject, pod))


RULE = Rule(spark_groups, place_spark_pod, per_pod=True)
