"""Whether a card was ever promised beyond what it has: from the API objects, after every event.

It reads nothing of the scheduler's: labels and annotations as users and kubelets see them, and the
device plugin's own book.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from decimal import Decimal

from kai_ray.cluster import resources as r
from kai_ray.cluster.port import Object, Port
from kai_ray.cluster.runtime import Runtime
from tests.real.sharing.device_plugin import DevicePlugin, is_reservation

_GROUP = "runai-gpu-group"


class Judge:
    """Follows all pods; `wrong` lists what should never have been seen."""

    name = "judge"

    def __init__(self, card: int) -> None:
        self._card = card  # MiB of each
        self.wrong: list[str] = []
        self._parts: dict[tuple[str, str], dict[str, Decimal]] = defaultdict(dict)
        self._held: dict[str, list[tuple[str, str]]] = {}

    def setup(self, runtime: Runtime) -> None:
        runtime.informer(r.POD).on_change(self._changed)

    def reconcile(self, key: str) -> float | None:
        return None

    def _changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        uid = pod["metadata"]["uid"]
        for card in self._held.pop(uid, ()):
            del self._parts[card][uid]
        if new is None or not uses(new):
            return
        node = new["spec"]["nodeName"]
        self._held[uid] = [(node, device) for device in devices_of(new)]
        if len(self._held[uid]) != len(groups_of(new)):
            self.wrong.append(f"{new['metadata']['name']} was bound without its devices")
        for card in self._held[uid]:
            self._parts[card][uid] = part_of(new, self._card)
            total = sum(self._parts[card].values())
            if total > 1:
                users = len(self._parts[card])
                self.wrong.append(f"{card[1]} of {node}: {users} pods hold {total} of it")


def verdict(port: Port, plugin: DevicePlugin, nodes: Collection[str]) -> list[str]:
    """What is wrong with these nodes as they are, once the cluster has come to rest."""
    pods = [p for p in port.list(r.POD).items if p["spec"].get("nodeName") in nodes]
    keepers = [p for p in pods if is_reservation(p)]
    kept = {(p["spec"]["nodeName"], p["metadata"]["labels"][_GROUP]): p for p in keepers}
    found: list[str] = []
    if len(kept) != len(keepers):
        found.append("a card is kept twice")
    shared: set[tuple[str, str]] = set()
    for pod in [p for p in pods if uses(p)]:
        name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
        for group, device in zip(groups_of(pod), devices_of(pod), strict=True):
            shared.add((node, group))
            keeper = kept.get((node, group))
            if keeper is None:
                found.append(f"{name}: nobody keeps the card of group {group}")
            elif plugin.holder(device) != keeper["metadata"]["uid"]:
                found.append(f"{name}: {device} was not given to the pod that keeps it")
    found += [f"{n} keeps {g} for nobody" for n, g in kept if (n, g) not in shared]
    for name, node in plugin.nodes.items():
        if len(node.held) > node.count:
            found.append(f"{name} gave {len(node.held)} devices of {node.count}")
    return found


def uses(pod: Object) -> bool:
    """Whether a pod holds parts of cards: bound, and not ended."""
    phase = (pod.get("status") or {}).get("phase")
    return bool(
        pod["spec"].get("nodeName")
        and groups_of(pod)
        and not is_reservation(pod)
        and phase not in ("Succeeded", "Failed")
    )


def groups_of(pod: Object) -> list[str]:
    labels = pod["metadata"].get("labels") or {}
    return sorted(v for k, v in labels.items() if k.partition("/")[0] == _GROUP)


def devices_of(pod: Object) -> list[str]:
    annotations = pod["metadata"].get("annotations") or {}
    text = annotations.get("kai.scheduler/gpu-devices") or ""
    return text.split(",") if text else []


def part_of(pod: Object, card: int) -> Decimal:
    annotations = pod["metadata"].get("annotations") or {}
    if "gpu-memory" in annotations:
        return Decimal(annotations["gpu-memory"]) / Decimal(card // 100 * 100)
    return Decimal(annotations["gpu-fraction"])
