"""What a pod is told of the cards it was given: annotations with the bind, ConfigMaps before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import AlreadyExists, ApiError, Conflict, Key, Object, Write, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.config import ControlConfig
from kai_ray.encode.dra.cards import NodeCards
from kai_ray.gpu import cards, environment, isolation
from kai_ray.gpu.cards import Card

#: The GPUs of a node, by its name, where resource slices offer them and pods may share them.
Offered = Callable[[str], NodeCards | None]


@dataclass(frozen=True, slots=True)
class Want:
    """A pod that is to be bound, and the cards it was given a part of."""

    pod: Key
    uid: str
    node: str
    groups: tuple[str, ...]

    def cards(self) -> list[Card]:
        return [Card(self.node, group) for group in self.groups]


@dataclass(frozen=True, slots=True)
class Given:
    """The cards are there: what travels with the bind."""

    version: str  # the state of the pod that may be bound
    devices: tuple[str, ...]
    annotations: dict[str, str] = field(default_factory=dict[str, str])
    warning: str = ""  # what the user has to know


@dataclass(frozen=True, slots=True)
class Refused:
    message: str
    by_node: bool = False  # the node has not what it says it has


class DeviceNotices:
    def __init__(self, config: ControlConfig, runtime: Runtime, offered: Offered) -> None:
        self._offered = offered
        self._cdi = config.reservations.cdi
        self._port = runtime.port
        self._pods = runtime.informer(kinds.POD)
        self._nodes = runtime.informer(kinds.NODE)

    def give(self, ready: Sequence[tuple[Want, Given]]) -> dict[Key, Given | Refused]:
        """Writes what containers take from ConfigMaps; the rest is for the bind to carry."""
        found: dict[Key, Given | Refused] = {}
        maps: list[tuple[Key, Object]] = []
        for want, given in ready:
            pod = self._pods.get(want.pod.name, want.pod.namespace)
            node = self._nodes.get(want.node)
            if pod is None or node is None:
                found[want.pod] = Refused("the pod or its node is gone")
                continue
            made, found[want.pod] = self._words(given, pod, node)
            maps += [(want.pod, config_map) for config_map in made]
        for pod_key, message in self._write(maps).items():
            found[pod_key] = Refused(message)
        return found

    def _words(self, given: Given, pod: Object, node: Object) -> tuple[list[Object], Given]:
        offered = self._offered(node["metadata"]["name"])
        card = cards.size(node, offered)
        part = cards.part_of(pod, card)
        assert part is not None, "a claim was made for it"
        kept_by = isolation.of_node(node)
        mib = part.mib if cards.stated_size(node, offered) else 0
        limits = isolation.limits(kept_by, mib, part.portion, part.devices)
        portion, devices = f"{part.portion:.2f}", environment.visible(given.devices, self._cdi)
        made, limited = environment.config_maps(pod, devices, portion, limits)
        told = {
            names.GPU_DEVICES: devices,
            names.RECEIVED_TYPE: "Fraction",
            names.GPU_PORTION: portion,
            names.GPU_ISOLATION: kept_by if limited else "none",
        }
        warning = ""
        if not limited:
            why = "its container takes no limits" if limits else "nothing there enforces that"
            warning = (
                f"shares {devices} of node {node['metadata']['name']}: {portion} of each is "
                f"counted for this pod, but {why}, so who shares them may take more"
            )
        return made, replace(given, annotations=told, warning=warning)

    def _write(self, maps: list[tuple[Key, Object]]) -> dict[Key, str]:
        """Why a pod's ConfigMap could not be written, by pod."""
        if not maps:
            return {}
        create = self._port.create
        outcomes = self._port.batch([Write(create, (kinds.CONFIG_MAP, made)) for _, made in maps])
        failed: dict[Key, str] = {}
        for (pod, made), outcome in zip(maps, outcomes, strict=True):
            try:
                if isinstance(outcome, AlreadyExists):
                    self._replace(made)
                elif isinstance(outcome, ApiError):
                    raise outcome
            except ApiError as error:
                failed[pod] = f"ConfigMap {made['metadata']['name']}: {error.message}"
        return failed

    def _replace(self, made: Object) -> None:
        """One from an earlier try or of a namesake that has gone; never that of another pod."""
        key = key_of(made)
        there = self._port.get(kinds.CONFIG_MAP, key.name, key.namespace)
        uid = made["metadata"]["ownerReferences"][0]["uid"]
        owners = there["metadata"].get("ownerReferences") or ()
        for owner in owners:
            other = self._pods.get(owner.get("name") or "", key.namespace)
            if owner["uid"] != uid and other and other["metadata"].get("uid") == owner["uid"]:
                raise Conflict(f"it belongs to pod {owner['name']}")
        if (there.get("data") or {}) != made["data"] or [o["uid"] for o in owners] != [uid]:
            self._port.update(kinds.CONFIG_MAP, made)
