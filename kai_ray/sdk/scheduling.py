"""What a user says about scheduling, as labels and annotations that all kinds of workload take."""

import difflib
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypedDict, Unpack

from kai_ray.api import labels as L
from kai_ray.sdk.errors import InvalidManifest

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
_PREEMPTIBILITY = {True: "preemptible", False: "non-preemptible"}


@dataclass(frozen=True)
class Topology:
    """Where pods of a gang must or should be together: levels of a Topology of the cluster.

    A level is a node label, or its alias in the Topology. `name` may be left out where the job is
    submitted to a cluster in which only one Topology has those levels.

    >>> kai_ray.annotations(topology=kai_ray.Topology("cluster", required="rack"))
    {'kai.scheduler/topology': 'cluster', 'kai.scheduler/topology-required-placement': 'rack'}
    """

    name: str = ""
    required: str = ""
    preferred: str = ""

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that are asked for.

        >>> kai_ray.Topology(required="rack", preferred="host").levels
        ('rack', 'host')
        """
        return tuple(level for level in (self.required, self.preferred) if level)


class Scheduling(TypedDict, total=False):
    """Options of `submit`, `labels` and `annotations`. All may be left out.

    queue: the queue to wait in. priority: a PriorityClass ("train", "build", "inference", ...).
    preemptible: True, False, or "semi-preemptible" (only pods above the minimum may go).
    user: for whom it runs, in reports. node_pool: where, by the pool's name.
    topology: a level that all pods share ("rack"), or a `Topology`.
    gpu_fraction: above 0 and below 1, of one card. gpu_memory: MiB of one card, instead.
    gpu_devices: the same part of so many cards.
    min_workers: start when so many workers fit. max_workers: grow up to so many when GPUs are free;
    what is above the wish is the first to shrink. eviction_grace: time to save work ("2m").

    >>> options: kai_ray.Scheduling = {"queue": "vision", "priority": "train"}
    >>> kai_ray.labels(**options)
    {'kai.scheduler/queue': 'vision', 'priorityClassName': 'train'}
    """

    queue: str | None
    priority: str | None
    preemptible: bool | str | None
    user: str | None
    node_pool: str | None
    topology: str | Topology | None
    gpu_fraction: float | None
    gpu_memory: int | None
    gpu_devices: int | None
    min_workers: int | None
    max_workers: int | None
    eviction_grace: str | timedelta | None


#: Options that become labels; the others become annotations.
LABELS = {
    "queue": L.QUEUE,
    "priority": L.PRIORITY_CLASS,
    "preemptible": L.PREEMPTIBILITY,
    "user": L.USER,
    "node_pool": L.NODE_POOL,
}
#: Options that belong on the pods, not on the workload.
ON_PODS = ("gpu_fraction", "gpu_memory", "gpu_devices")


def labels(**options: Unpack[Scheduling]) -> dict[str, str]:
    """What to put on an object that another tool makes: the options that are labels.

    For Ray's job client, the Kubeflow SDK, or plain YAML. Raises InvalidManifest for a value that
    no label can have, and for an option that is an annotation (see `annotations`).

    >>> kai_ray.labels(queue="vision", priority="build", preemptible=False)
    {'kai.scheduler/queue': 'vision', 'priorityClassName': 'build', \
'kai.scheduler/preemptibility': 'non-preemptible'}
    """
    given = checked(dict(options))
    for name in given:
        if name not in LABELS:
            raise InvalidManifest(
                f"{name} is no label: pods and workloads take it as an annotation",
                python=f"kai_ray.annotations({name}=…)",
            )
    return workload_labels(given)


def annotations(**options: Unpack[Scheduling]) -> dict[str, str]:
    """What to put on an object that another tool makes: the options that are annotations.

    `gpu_fraction`, `gpu_memory` and `gpu_devices` go on the pods' template, the others on the
    workload. Raises InvalidManifest for values that make no sense.

    >>> kai_ray.annotations(min_workers=2, gpu_fraction=0.5)
    {'kai.scheduler/min-member': '2', 'gpu-fraction': '0.5'}
    """
    given = checked(dict(options))
    for name in given:
        if name in LABELS:
            raise InvalidManifest(f"{name} is a label", python=f"kai_ray.labels({name}=…)")
    if "max_workers" in given:
        raise InvalidManifest(
            "max_workers is written differently for each kind", python="submit(…, max_workers=…)"
        )
    topology = given.get("topology")
    if topology and not topology.name:
        raise InvalidManifest(
            "an annotation has to name the Topology",
            python='Topology("NAME", required="rack"); `kubectl get topologies` shows which',
        )
    return workload_annotations(given) | minimum(given) | pod_annotations(given)


def checked(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, `topology` as a Topology. Raises InvalidManifest."""
    known = Scheduling.__annotations__
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise TypeError(
                f"there is no option {name!r}: "
                + (f"do you mean {near[0]!r}?" if near else f"choose of {', '.join(known)}")
            )
    given = {name: value for name, value in options.items() if value is not None}
    for name in set(given) & set(LABELS):
        if name != "preemptible":
            _check_label(name, given[name])
    if isinstance(given.get("topology"), str):
        given["topology"] = Topology(required=given["topology"])
    _check_numbers(given)
    return given


def workload_labels(given: dict[str, Any]) -> dict[str, str]:
    """Labels of the workload, of checked options."""
    found = {LABELS[name]: str(given[name]) for name in LABELS if name in given}
    preemptible = given.get("preemptible")
    if preemptible is not None:
        word = _PREEMPTIBILITY.get(preemptible, preemptible)
        known = (*_PREEMPTIBILITY.values(), L.SEMI_PREEMPTIBLE)
        if word not in known:
            raise InvalidManifest(f"preemptible={word!r}: write True, False or one of {known}")
        found[L.PREEMPTIBILITY] = word
    return found


def workload_annotations(given: dict[str, Any]) -> dict[str, str]:
    """Annotations of the workload that are the same for all kinds, of checked options."""
    found: dict[str, str] = {}
    topology: Topology | None = given.get("topology")
    if topology:
        stated = {
            L.TOPOLOGY: topology.name,
            L.TOPOLOGY_REQUIRED: topology.required,
            L.TOPOLOGY_PREFERRED: topology.preferred,
        }
        found |= {key: value for key, value in stated.items() if value}
    if "eviction_grace" in given:
        found[L.EVICTION_GRACE] = _duration("eviction_grace", given["eviction_grace"])
    return found


def minimum(given: dict[str, Any]) -> dict[str, str]:
    """The annotation that every kind takes: so many of its pods start together."""
    return {L.MIN_MEMBER: str(given["min_workers"])} if "min_workers" in given else {}


def pod_annotations(given: dict[str, Any]) -> dict[str, str]:
    """Annotations of the pods, of checked options."""
    keys = {
        "gpu_fraction": L.GPU_FRACTION,
        "gpu_memory": L.GPU_MEMORY,
        "gpu_devices": L.GPU_FRACTION_DEVICES,
    }
    return {key: str(given[name]) for name, key in keys.items() if name in given}


def _check_label(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise InvalidManifest(f"{name}={value!r} is {type(value).__name__}, not a name")
    if not _LABEL_VALUE.match(value):
        raise InvalidManifest(
            f"{name}={value!r} can be no label's value",
            why="at most 63 letters, digits, -, _ and .; a letter or digit first and last",
        )


def _check_numbers(given: dict[str, Any]) -> None:
    fraction = given.get("gpu_fraction")
    if fraction is not None and not (_is_number(fraction) and 0 < fraction < 1):
        raise InvalidManifest(
            f"gpu_fraction={fraction!r} is no part of a card",
            python="write a number above 0 and below 1, or whole GPUs in the manifest",
        )
    for name in ("gpu_memory", "gpu_devices", "min_workers", "max_workers"):
        value = given.get(name)
        if value is not None and not (_is_number(value) and value >= 1 and value % 1 == 0):
            raise InvalidManifest(f"{name}={value!r} is no whole number of 1 or more")
    if fraction is not None and "gpu_memory" in given:
        raise InvalidManifest("gpu_fraction and gpu_memory say the same: give one of them")
    if "gpu_devices" in given and fraction is None and "gpu_memory" not in given:
        raise InvalidManifest("gpu_devices needs gpu_fraction or gpu_memory beside it")
    for name in ("gpu_memory", "gpu_devices", "min_workers", "max_workers"):
        if name in given:
            given[name] = int(given[name])
    least, most = given.get("min_workers"), given.get("max_workers")
    if least and most and least > most:
        raise InvalidManifest(f"min_workers={least} is more than max_workers={most}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _duration(name: str, value: str | timedelta) -> str:
    from kai_ray.api.durations import parse_duration

    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}s"
    if parse_duration(value) is None:
        raise InvalidManifest(f"{name}={value!r} is no duration: write for example '2m' or '90s'")
    return value
