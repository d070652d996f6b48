"""Keeps the pods that keep shared cards in line with who shares them.

Deleted when the last sharer has ended; made again where one is lost; a claim in the book of a card
that nobody will make good is taken out. Before a claim of a pod that may still be bound is taken
out, the pod itself is changed, so that a bind that was decided on its former state cannot happen
any more.
"""

from __future__ import annotations

import contextlib

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import AlreadyExists, Conflict, NotFound, Object, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.card_claims import RESERVATIONS, CardClaims
from kai_ray.controllers.config import ControlConfig
from kai_ray.controllers.events import Events
from kai_ray.encode.settings import in_shard
from kai_ray.gpu import cards, reservation_pods
from kai_ray.gpu.cards import Card
from kai_ray.gpu.reservation_pods import Claim

_BY_CARD = "card"
_SOON_S = 0.2
_TRIES = 3
_REMEMBERED = 10_000
_DONE = ("Succeeded", "Failed")


class Reservations:
    """Keys: cards, "node/group"."""

    name = RESERVATIONS

    def __init__(self, config: ControlConfig, claims: CardClaims, events: Events) -> None:
        self._config = config
        self._claims = claims
        self._events = events
        self._ended: dict[str, None] = {}  # uids of pods that ended lately
        self._refusals: dict[Card, int] = {}
        self._healing: dict[str, Card] = {}  # node -> the card that is sought there
        self._resting: dict[tuple[Card, str, Claim], float] = {}

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._claims.setup(runtime)
        self._nodes = runtime.informer(kinds.NODE)
        self._pods = runtime.informer(kinds.POD)
        self._requests = runtime.informer(kinds.BIND_REQUEST)
        self._requests.add_index(_BY_CARD, lambda r: [card.key for card in _requested(r)])
        self._pods.on_change(self._pod_changed)
        self._requests.on_change(self._request_changed)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and (new is None or cards.ended(new)):
            self._note_end(_uid(old))
        before = cards.cards_of(old) if old is not None else []
        now = cards.cards_of(new) if new is not None else []
        if not before and not now:
            return
        if old is not None and new is not None and before == now:
            same = _standing(old) == _standing(new)
            if same and not self._claims.is_reservation(new):
                return
        for card in dict.fromkeys((*before, *now)):
            self._runtime.enqueue(self.name, card.key)

    def _note_end(self, uid: str) -> None:
        self._ended[uid] = None
        if len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]

    def _request_changed(self, old: Object | None, new: Object | None) -> None:
        before = _requested(old) if old is not None else []
        now = _requested(new) if new is not None else []
        for card in before:
            if card not in now:
                self._runtime.enqueue(self.name, card.key)

    def reconcile(self, key: str) -> float | None:
        card = Card.of_key(key)
        node = self._nodes.get(card.node)
        if node is None or not self._serves(node):
            return None
        sharers = self._claims.sharers(card)
        staying = [p for p in sharers if not p["metadata"].get("deletionTimestamp")]
        keepers = self._claims.keepers(card)
        if not keepers:
            wait = self._sift(card, self._claims.lost(card), sharers)
            return self._heal(card, node, 0) if staying else self._calm(card) or wait
        broken = [k for k in keepers if reservation_pods.problem_of(k)]
        if broken:
            return self._broken(card, broken, staying)
        keeper = self._claims.reservation(card)
        assert keeper is not None
        if not self._claims.settled(card, keeper):
            return self._search(card, node, keepers, staying)
        if len(keepers) > 1 and reservation_pods.device_of(keeper):
            for other in keepers:
                if other is not keeper:
                    self._delete(other)
        if keeper["metadata"].get("deletionTimestamp"):
            return None
        if reservation_pods.device_of(keeper):
            self._calm(card)
        return self._tidy(card, node, keeper, sharers)

    def _serves(self, node: Object) -> bool:
        return self._config.bind_every_pool or in_shard(node, self._config.encode)

    # ------------------------------------------------------------------ lost ones

    def _calm(self, card: Card) -> None:
        """Nothing is amiss with the card."""
        self._refusals.pop(card, None)
        if self._healing.get(card.node) == card:
            del self._healing[card.node]

    def _heal(self, card: Card, node: Object, attempt: int) -> float | None:
        """Makes a reservation pod for a card that is in use; one card of a node after the other.

        Two at once might each be given the card of the other, and neither let go of it.
        """
        if self._healing.setdefault(card.node, card) != card:
            return _SOON_S
        sharers = self._claims.sharers(card)
        for pod in sharers if not attempt else ():
            name = reservation_pods.name_of(card)
            message = f"reservation pod {name}, which keeps its GPU, is gone: made again"
            self._events.warn(kinds.POD, key_of(pod), _uid(pod), "GPUReservationLost", message)
        tolerations = next((p["spec"].get("tolerations") for p in sharers), None) or []
        book = self._claims.whole_book(card, None, node)
        made = self._claims.made(card, node, book, list(tolerations), attempt)
        try:
            self._pods.remember(self._runtime.port.create(kinds.POD, made))
        except AlreadyExists:
            return _SOON_S  # the cache will show it
        return None

    def _search(
        self, card: Card, node: Object, keepers: list[Object], staying: list[Object]
    ) -> float | None:
        """The card that is kept is not the one in use: tries until the right one is given.

        The wrong ones are kept until then, so that none of them is given twice.
        """
        if not staying:
            for keeper in keepers:
                self._delete(keeper)
            return None
        if any(k["metadata"].get("deletionTimestamp") for k in keepers):
            return None
        if not all(reservation_pods.device_of(k) for k in keepers):
            return None
        return self._heal(card, node, len(keepers))

    def _broken(self, card: Card, broken: list[Object], staying: list[Object]) -> float | None:
        """A pod that kept a card has ended, or none was given to it: tried again a few times.

        Whoever uses a card that cannot be had shares it with somebody who does not know.
        """
        lost = any(reservation_pods.device_of(keeper) for keeper in broken)
        tries = self._refusals[card] = self._refusals.get(card, 0) + (0 if lost else 1)
        for keeper in broken if lost else self._claims.keepers(card):
            self._delete(keeper)
        if not staying or tries < _TRIES:
            return _SOON_S * 2**tries if staying else self._calm(card)
        self._calm(card)
        expected = self._claims.expected(card)
        why = reservation_pods.problem_of(broken[0])
        self._claims.end_lost(card, expected, why, self._events)
        return None

    # ------------------------------------------------------------------ the book

    def _tidy(
        self, card: Card, node: Object, keeper: Object, sharers: list[Object]
    ) -> float | None:
        book = self._claims.whole_book(card, keeper, node)
        wait = self._sift(card, book, sharers)
        if not book and not self._requests.by_index(_BY_CARD, card.key):
            self._delete(keeper)
        elif book != reservation_pods.book_of(keeper):
            resource, name, patch, namespace = self._claims.noted(keeper, book)
            made = self._runtime.port.patch(resource, name, patch, namespace)
            self._pods.remember(made)
        return wait

    def _sift(self, card: Card, book: dict[str, Claim], sharers: list[Object]) -> float | None:
        """Takes void claims out of a book; when to look again at those that may become void."""
        there = {_uid(pod) for pod in sharers} | self._claims.open_on(card)
        wait: float | None = None
        for uid in [uid for uid in book if uid not in there]:
            left = self._left(card, uid, book[uid])
            if left is None:
                del book[uid]
            else:
                wait = left if wait is None else min(wait, left)
        return wait

    def _left(self, card: Card, uid: str, claim: Claim) -> float | None:
        """Seconds after which to look at a claim again; None once nobody can make it good."""
        namespace, _, name = claim.pod.partition("/")
        if uid in self._ended:
            return self._void(card, uid)
        try:
            pod = self._runtime.port.get(kinds.POD, name, namespace)
        except NotFound:
            return self._void(card, uid)
        if _uid(pod) != uid or cards.ended(pod):
            return self._void(card, uid)
        if pod["spec"].get("nodeName"):
            return _SOON_S if card in cards.cards_of(pod) else self._void(card, uid)
        if claim.by != self._claims.me:
            slot = (card, uid, claim)
            since = self._resting.setdefault(slot, self._runtime.clock.now())
            left = since + self._config.withdraw_after_s - self._runtime.clock.now()
            if left > 0:
                return left
        self._withdraw(card, claim, pod)
        return self._void(card, uid)

    def _void(self, card: Card, uid: str) -> None:
        for slot in [s for s in self._resting if s[:2] == (card, uid)]:
            del self._resting[slot]

    def _withdraw(self, card: Card, claim: Claim, pod: Object) -> None:
        """Changes the pod, so that it cannot be bound on the strength of the claim."""
        if pod["metadata"]["resourceVersion"] != claim.version:
            return
        note = {names.CLAIM_WITHDRAWN: f"{card.group}@{claim.version}"}
        key = key_of(pod)
        patch = {"metadata": {"uid": _uid(pod), "annotations": note}}
        with contextlib.suppress(NotFound):
            self._pods.remember(self._runtime.port.patch(kinds.POD, key.name, patch, key.namespace))

    def _delete(self, keeper: Object) -> None:
        """Deletes a reservation pod as it is known here: with another book it stays."""
        meta = keeper["metadata"]
        if meta.get("deletionTimestamp"):
            return
        try:
            self._runtime.port.delete(
                kinds.POD,
                meta["name"],
                meta["namespace"],
                uid=_uid(keeper),
                resource_version=meta["resourceVersion"],
            )
            self._claims.close(keeper)
        except NotFound:
            return
        except Conflict:
            self._claims.read_again(reservation_pods.card_of(keeper))
            raise


def _standing(pod: Object) -> tuple[bool, bool]:
    return cards.ended(pod), bool(pod["metadata"].get("deletionTimestamp"))


def _requested(request: Object) -> list[Card]:
    """Cards that a BindRequest under way names."""
    spec, status = request.get("spec"), request.get("status")
    if not isinstance(spec, dict) or (isinstance(status, dict) and status.get("phase") in _DONE):
        return []
    groups = spec.get("selectedGPUGroups")
    node = str(spec.get("selectedNode") or "")
    return [Card(node, str(g)) for g in groups] if isinstance(groups, list) else []


def _uid(obj: Object) -> str:
    return obj["metadata"].get("uid") or ""
