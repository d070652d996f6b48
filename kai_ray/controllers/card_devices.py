"""Gives reservation pods their cards where those come by resource claims.

A pod that keeps a shared card of a node whose GPUs are offered by resource slices names a claim of
its own name. The claim is made here once the pod is there, allocated to one device of its node, and
only then the pod says which device it keeps: a crash after any of the writes leaves what the next
look goes on from.
"""

from __future__ import annotations

from typing import NamedTuple

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import AlreadyExists, Conflict, Key, NotFound, Object, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.cluster.served import device_kinds
from kai_ray.controllers.card_claims import CardClaims
from kai_ray.controllers.config import ControlConfig
from kai_ray.controllers.device_claims import DeviceClaims
from kai_ray.controllers.events import Events
from kai_ray.controllers.grants import Grant
from kai_ray.encode import Encoder
from kai_ray.encode.dra import cells
from kai_ray.encode.dra.allocation import ClaimGrant, Result
from kai_ray.encode.dra.claims import Held, held_by
from kai_ray.encode.dra.slices import DeviceId
from kai_ray.encode.settings import in_shard
from kai_ray.gpu import reservation_pods
from kai_ray.gpu.reservation_pods import CLAIM_IN_POD

_AGAIN_S = 0.5


class _Card(NamedTuple):
    uuid: str
    device: DeviceId


class CardDevices:
    """Keys: reservation pods, "namespace/name"."""

    name = "card-devices"

    def __init__(
        self, config: ControlConfig, encoder: Encoder, cards: CardClaims, events: Events
    ) -> None:
        self._config, self._encoder = config, encoder
        self._cards, self._events = cards, events

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._pods = runtime.informer(kinds.POD)
        self._nodes = runtime.informer(kinds.NODE)
        served = device_kinds(runtime.port)
        if not served:
            return
        self._resource = served[-1]
        self._claims = runtime.informer(self._resource)
        self._writer = DeviceClaims(runtime)
        self._pods.on_change(self._pod_changed)
        self._claims.on_change(self._claim_changed)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and self._lacks(new):
            self._enqueue(key_of(new))

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        claim = new if new is not None else old
        if claim is not None and key_of(claim).namespace == self._namespace:
            self._enqueue(key_of(claim))

    @property
    def _namespace(self) -> str:
        return self._config.encode.reservation_namespace

    def _enqueue(self, key: Key) -> None:
        self._runtime.enqueue(self.name, f"{key.namespace}/{key.name}")

    def _lacks(self, pod: Object) -> bool:
        """Whether the pod keeps a card by a claim, and does not say yet which."""
        return (
            self._cards.is_reservation(pod)
            and reservation_pods.claims_card(pod)
            and not reservation_pods.device_of(pod)
            and not reservation_pods.problem_of(pod)
            and not pod["metadata"].get("deletionTimestamp")
        )

    def reconcile(self, key: str) -> float | None:
        namespace, _, name = key.partition("/")
        pod = self._pods.get(name, namespace)
        if pod is None or not self._lacks(pod):
            return None
        node = self._nodes.get(pod["spec"].get("nodeName") or "")
        if node is None or not self._serves(node):
            return None
        claim = self._claim(pod)
        if claim is None:
            return _AGAIN_S
        held = held_by((claim.get("status") or {}).get("allocation"))
        card = self._known(pod, held) if held is not None else self._free(pod)
        if card is None or not self._allocate(pod, claim, card):
            return _AGAIN_S
        return self._tell(pod, card)

    def _serves(self, node: Object) -> bool:
        return self._config.bind_every_pool or in_shard(node, self._config.encode)

    def _claim(self, pod: Object) -> Object | None:
        """The pod's claim, made if it is missing; None while one of a former pod is there."""
        key = key_of(pod)
        claim = self._claims.get(key.name, key.namespace)
        if claim is None:
            made = reservation_pods.claim_of(pod, self._resource)
            try:
                claim = self._runtime.port.create(self._resource, made)
            except AlreadyExists:
                claim = self._runtime.port.get(self._resource, key.name, key.namespace)
            self._claims.remember(claim)
        owners = {o.get("uid") for o in claim["metadata"].get("ownerReferences") or ()}
        mine = pod["metadata"]["uid"] in owners
        return claim if mine and not claim["metadata"].get("deletionTimestamp") else None

    def _known(self, pod: Object, held: Held) -> _Card | None:
        """The card that a claim holds."""
        offered = self._offered(pod)
        return next((card for card in offered if card.device in held.devices), None)

    def _free(self, pod: Object) -> _Card | None:
        """The device that the card's sharers use, else one that nobody has."""
        card = reservation_pods.card_of(pod)
        expected = self._cards.expected(card)
        taken = self._encoder.devices.taken()
        in_use = self._cards.told_on(card.node)
        for found in self._offered(pod):
            if found.uuid == expected:
                holder = taken.get(found.device)
                if holder is None:
                    return found
                why = f"claim {holder.namespace}/{holder.name} holds it"
                self._cards.end_lost(card, expected, why, self._events)
                return None
            if not expected and found.device not in taken and found.uuid not in in_use:
                return found
        return None

    def _offered(self, pod: Object) -> list[_Card]:
        """The node's devices that may be shared, in the order of their UUIDs."""
        found = self._encoder.claimed_cards(reservation_pods.card_of(pod).node)
        devices = self._encoder.devices.supply(self._encoder.nodes).devices
        rows = found.rows if found is not None else {}
        return [_Card(uuid, devices[row].id) for uuid, row in sorted(rows.items())]

    def _allocate(self, pod: Object, claim: Object, card: _Card) -> bool:
        key, uid = key_of(pod), pod["metadata"]["uid"]
        node = pod["spec"]["nodeName"]
        held = Held((card.device,), cells.only(node))
        results = (Result(CLAIM_IN_POD, card.device, False),)
        given = ClaimGrant(key_of(claim), claim["metadata"]["uid"], held, results)
        grant = Grant(key, uid, node, Key("", ""), "", False, claims=(given,))
        return not self._writer.allocate([grant])

    def _tell(self, pod: Object, card: _Card) -> float | None:
        try:
            made = self._runtime.port.patch(*self._cards.reported(pod, card.uuid))
        except NotFound:
            return None
        except Conflict:
            self._cards.read_again(reservation_pods.card_of(pod))
            return _AGAIN_S
        self._pods.remember(made)
        return None
