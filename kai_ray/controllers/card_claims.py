"""A part of a card for a pod, before the pod is bound: claimed, then awaited, then told.

The book of a card stands on its reservation pod, so a claim is a compare-and-set on that object:
two schedulers that give away the same room at once cannot both succeed. A claim names the state of
the pod that may be bound on the strength of it, and the bind names the same state: a scheduler that
comes too late, after its claim was withdrawn, loses.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import (
    AlreadyExists,
    ApiError,
    Conflict,
    Key,
    NotFound,
    Object,
    Resource,
    TooManyRequests,
    Unavailable,
    Write,
    key_of,
)
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.config import ControlConfig
from kai_ray.controllers.device_notices import DeviceNotices, Given, Offered, Refused, Want
from kai_ray.controllers.events import Events
from kai_ray.encode.gpu_table import told_devices
from kai_ray.gpu import cards, reservation_pods
from kai_ray.gpu.cards import Card
from kai_ray.gpu.reservation_pods import Claim

BY_CARD = "card"
BY_KEEPER = "keeper"
BY_TOLD = "told"
#: Keys by which whoever waits for a device is woken.
DEVICES = "devices"
#: The controller that keeps reservation pods in line; its keys are cards.
RESERVATIONS = "reservations"
_ROUNDS = 4
_AGAIN_S = 0.5
_ACCOUNT = kinds.SERVICE_ACCOUNT
_COUNT = itertools.count(1)


@dataclass(slots=True)
class _Open:
    want: Want
    since_s: float


class CardClaims:
    """`prepare` may be asked again and again: what is claimed already costs no write."""

    def __init__(self, config: ControlConfig, offered: Offered) -> None:
        self._config = config
        self._offered = offered
        self._open: dict[Key, _Open] = {}
        self._on_card: dict[Card, set[Key]] = {}
        self._stirred: set[Key] = set()
        self._closed: set[str] = set()  # reservation pods that were deleted here
        self._wake: list[str] = []
        self.me = ""
        """The name that stands in claims of this scheduler."""
        self._lost: dict[Card, dict[str, Claim]] = {}
        self._gone: set[str] = set()  # reservation pods that a cache may still show

    def setup(self, runtime: Runtime, wake: str = "") -> None:
        """Called by each controller that uses this; `wake` is its name if it waits for devices."""
        if wake:
            self._wake.append(wake)
        if self.me:
            return
        self._runtime = runtime
        self.me = self._config.identity or _identity(runtime.clock.now())
        self._pods = runtime.informer(kinds.POD)
        self._nodes = runtime.informer(kinds.NODE)
        self._notices = DeviceNotices(self._config, runtime, self._offered)
        self._pods.add_index(BY_CARD, lambda pod: (card.key for card in cards.cards_of(pod)))
        self._pods.add_index(BY_KEEPER, self._kept_node)
        self._pods.add_index(BY_TOLD, self._told_node)
        self._pods.on_change(self._pod_changed)

    # ------------------------------------------------------------------ what is known

    def is_reservation(self, pod: Object) -> bool:
        return reservation_pods.is_reservation(pod, self._config.encode.reservation_namespace)

    def reservation(self, card: Card) -> Object | None:
        """The pod that keeps a card, with its book: the one that has the card its sharers use."""
        found = self.keepers(card)
        expected = self.expected(card) if len(found) > 1 else ""
        right = (pod for pod in found if reservation_pods.device_of(pod) == expected)
        return next(right, next(iter(found), None))

    def keepers(self, card: Card) -> list[Object]:
        """All reservation pods of a card, that of the regular name first."""
        first = reservation_pods.name_of(card)
        there = self._pods.by_index(BY_CARD, card.key)
        found = [p for p in there if self.is_reservation(p) and _uid(p) not in self._gone]
        return sorted(found, key=lambda p: (p["metadata"]["name"] != first, p["metadata"]["name"]))

    def expected(self, card: Card) -> str:
        """The device that the card's sharers were told; "" where none was told any."""
        told = (cards.told_device(pod, card) for pod in self.sharers(card))
        return next((device for device in told if device), "")

    def settled(self, card: Card, keeper: Object) -> bool:
        """Whether the pod keeps the card that its sharers use, as far as anybody knows."""
        if keeper["metadata"].get("deletionTimestamp"):
            return False
        device = reservation_pods.device_of(keeper)
        return not device or self.expected(card) in ("", device)

    def sharers(self, card: Card) -> list[Object]:
        """Pods on the card that have not ended. A label alone makes no sharer."""
        there = self._pods.by_index(BY_CARD, card.key)
        return [
            p
            for p in there
            if not cards.ended(p)
            and not self.is_reservation(p)
            and cards.part_of(p, cards.UNKNOWN_CARD) is not None
        ]

    def kept_on(self, node: str) -> set[str]:
        """Groups of a node that a pod keeps a card for, be it one that is about to go."""
        keepers = self._pods.by_index(BY_KEEPER, node)
        return {reservation_pods.card_of(pod).group for pod in keepers}

    def _kept_node(self, pod: Object) -> tuple[str, ...]:
        return (reservation_pods.card_of(pod).node,) if self.is_reservation(pod) else ()

    def told_on(self, node: str) -> set[str]:
        """The devices of a node, by UUID, that pods were told to share."""
        there = (p for p in self._pods.by_index(BY_TOLD, node) if not cards.ended(p))
        return {device for pod in there for device in told_devices(pod).values()}

    def _told_node(self, pod: Object) -> tuple[str, ...]:
        node = pod["spec"].get("nodeName")
        return (node,) if node and told_devices(pod) else ()

    def open_on(self, card: Card) -> set[str]:
        """Uids of pods that are on their way to the card."""
        return {self._open[pod].want.uid for pod in self._on_card.get(card, ())}

    def stirred(self) -> set[Key]:
        """Pods whose cards have changed since this was last asked."""
        found, self._stirred = self._stirred, set()
        return found

    # ------------------------------------------------------------------ events

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new if new is not None else old
        assert pod is not None
        if self.is_reservation(pod):
            card = reservation_pods.card_of(pod)
            if new is None:
                self._gone.discard(_uid(pod))
                self._lose(card, pod)
            self._stir(self._on_card.get(card, ()))
            return
        known = self._open.get(key_of(pod))
        if known is None:
            return
        if new is None or _uid(new) != known.want.uid or new["spec"].get("nodeName"):
            self._close(key_of(pod))

    def _lose(self, card: Card, keeper: Object) -> None:
        """A reservation pod is gone: what stood in its book counts until that is known to be void.

        Not where it was deleted here, with a book that was void.
        """
        book = reservation_pods.book_of(keeper)
        if _uid(keeper) in self._closed:
            self._closed.discard(_uid(keeper))
        elif book:
            self._lost[card] = book

    def lost(self, card: Card) -> dict[str, Claim]:
        """Claims in the book of a reservation pod that is gone; void ones are for the caller to
        take out."""
        found = self._lost.get(card)
        if found is not None and not found:
            del self._lost[card]
        return found or {}

    def close(self, keeper: Object) -> None:
        """A reservation pod is deleted because nobody needs it."""
        self._closed.add(_uid(keeper))

    def _stir(self, pods: Iterable[Key], after_s: float = 0.0) -> None:
        found = set(pods)
        if found:
            self._stirred |= found
            for controller in self._wake:
                self._runtime.enqueue(controller, DEVICES, after_s)

    def _close(self, pod: Key) -> Want | None:
        known = self._open.pop(pod, None)
        if known is None:
            return None
        for card in known.want.cards():
            mates = self._on_card[card]
            mates.discard(pod)
            if not mates:
                del self._on_card[card]
        return known.want

    def drop(self, pod: Key) -> None:
        """The pod is not bound after all: its claims are void."""
        want = self._close(pod)
        for card in want.cards() if want is not None else ():
            self._runtime.enqueue(RESERVATIONS, card.key)

    def end_lost(self, card: Card, device: str, why: str, events: Events) -> None:
        """Ends those who share a device that somebody else has now: neither knows of the other."""
        for pod in self.sharers(card):
            told = cards.told_device(pod, card)
            if not device or told != device or pod["metadata"].get("deletionTimestamp"):
                continue
            key = key_of(pod)
            message = f"its GPU {device} is not kept for it any more and was given away: {why}"
            events.warn(kinds.POD, key, _uid(pod), "GPULost", message)
            with contextlib.suppress(NotFound, Conflict):
                self._runtime.port.delete(kinds.POD, key.name, key.namespace, uid=_uid(pod))

    # ------------------------------------------------------------------ claims

    def prepare(self, wants: Sequence[Want]) -> dict[Key, Given | Refused | None]:
        """What became of each; None = its devices are not known yet."""
        refused: dict[Key, Refused] = {}
        pending: dict[Card, list[Want]] = {}
        for want in wants:
            self._enter(want)
            for card in want.cards():
                pending.setdefault(card, []).append(want)
        for _ in range(_ROUNDS):
            steps = [(card, self._step(card, mine, refused)) for card, mine in pending.items()]
            writes = [(card, write) for card, write in steps if write is not None]
            if not writes:
                break
            outcomes = self._runtime.port.batch([write for _, write in writes])
            pending = {
                card: pending[card]
                for (card, _), outcome in zip(writes, outcomes, strict=True)
                if not self._took(card, outcome, pending[card], refused)
            }
        else:
            self._stir((w.pod for mine in pending.values() for w in mine), _AGAIN_S)
        found: dict[Key, Given | Refused | None] = {}
        for want in wants:
            found[want.pod] = refused.get(want.pod) or self._state(want)
        ready = [(w, g) for w in wants if isinstance(g := found[w.pod], Given)]
        return {**found, **self._notices.give(ready)}

    def _enter(self, want: Want) -> None:
        known = self._open.get(want.pod)
        if known is not None and known.want == want:
            return
        self._close(want.pod)
        self._open[want.pod] = _Open(want, self._runtime.clock.now())
        for card in want.cards():
            self._on_card.setdefault(card, set()).add(want.pod)

    def _step(self, card: Card, wants: list[Want], refused: dict[Key, Refused]) -> Write | None:
        """The next write that brings the card's book to hold these wants; None if it does."""
        node, keeper = self._nodes.get(card.node), self.reservation(card)
        problem = reservation_pods.problem_of(keeper) if keeper is not None else ""
        if node is None or problem:
            message = f"its GPU is not there: {problem or f'node {card.node} is gone'}"
            refused.update({w.pod: Refused(message, by_node=bool(problem)) for w in wants})
            return None
        if keeper is not None and not self.settled(card, keeper):
            return None
        book = self.whole_book(card, keeper, node)
        before = dict(book)
        tolerations: list[object] = []
        for want in wants:
            pod = self._pods.get(want.pod.name, want.pod.namespace)
            if want.pod in refused or pod is None:
                refused.setdefault(want.pod, Refused("the pod is gone"))
                continue
            message = self._enter_book(book, self._size(node), want, pod)
            if message:
                refused[want.pod] = Refused(message)
            else:
                tolerations = tolerations or list(pod["spec"].get("tolerations") or ())
        port = self._runtime.port
        if keeper is None:
            made = self.made(card, node, book, tolerations)
            return Write(port.create, (kinds.POD, made)) if book != before else None
        return Write(port.patch, self.noted(keeper, book)) if book != before else None

    def _size(self, node: Object) -> int:
        """MiB of each of the node's cards, as `cards.size`."""
        return cards.size(node, self._offered(node["metadata"]["name"]))

    def _enter_book(self, book: dict[str, Claim], card: int, want: Want, pod: Object) -> str:
        """Adds a claim; or says why there is no room for it."""
        part = cards.part_of(pod, card)
        if part is None:
            return "it asks for no part of a GPU that could be read"
        key = f"{want.pod.namespace}/{want.pod.name}"
        version = pod["metadata"].get("resourceVersion") or ""
        known = book.get(want.uid)
        if known is not None and (known.mib, known.version) == (part.mib, version):
            return ""  # whoever claimed it, the same bind is meant
        claim = Claim(key, part.mib, version, self.me)
        left = card - sum(c.mib for uid, c in book.items() if uid != want.uid)
        if claim.mib > left:
            return f"its GPU has {max(left, 0)} of {card} MiB left, asked: {claim.mib}"
        book[want.uid] = claim
        return ""

    def whole_book(self, card: Card, keeper: Object | None, node: Object) -> dict[str, Claim]:
        """The book of a card, with those who share it and stand in none (bound by another tool)."""
        lost = self._lost.get(card, {})
        book = reservation_pods.book_of(keeper) if keeper is not None else dict(lost)
        for pod in self.sharers(card):
            part = cards.part_of(pod, self._size(node)) if _uid(pod) not in book else None
            if part is not None:
                key = key_of(pod)
                book[_uid(pod)] = Claim(f"{key.namespace}/{key.name}", part.mib)
        return book

    def made(
        self,
        card: Card,
        node: Object,
        book: dict[str, Claim],
        tolerations: list[object],
        attempt: int = 0,
    ) -> Object:
        """A reservation pod as it is to be created."""
        name = reservation_pods.name_of(card, attempt)
        making = self._config.reservations
        claimed = cards.by_claim(node, self._offered(card.node))
        resource = "" if claimed else cards.gpu_resource(node)
        namespace = self._config.encode.reservation_namespace
        return reservation_pods.manifest(name, card, making, namespace, resource, book, tolerations)

    def noted(self, keeper: Object, book: dict[str, Claim]) -> tuple[Resource, str, Object, str]:
        """Arguments of a patch that changes the book as it stands, and no other state of it."""
        meta = keeper["metadata"]
        annotations = {names.GPU_SHARES: reservation_pods.written(book)}
        patch: Object = {
            "metadata": {"resourceVersion": meta["resourceVersion"], "annotations": annotations}
        }
        return kinds.POD, meta["name"], patch, meta["namespace"]

    def reported(self, keeper: Object, device: str) -> tuple[Resource, str, Object, str]:
        """Arguments of a patch by which a reservation pod says which device it keeps."""
        meta = keeper["metadata"]
        patch: Object = {
            "metadata": {"uid": meta["uid"], "annotations": {names.RESERVED_GPU: device}}
        }
        return kinds.POD, meta["name"], patch, meta["namespace"]

    def _took(
        self, card: Card, outcome: object, wants: list[Want], refused: dict[Key, Refused]
    ) -> bool:
        """Takes in the outcome of a write; False if the card is to be looked at again."""
        if not isinstance(outcome, ApiError):
            assert isinstance(outcome, dict)
            self._pods.remember(outcome)
            return True
        if isinstance(outcome, AlreadyExists | Conflict | NotFound | Unavailable | TooManyRequests):
            problem = ""
            if isinstance(outcome, NotFound) and self.reservation(card) is None:
                problem = self._install()
            self.read_again(card)
            refused.update({w.pod: Refused(problem) for w in wants if problem})
            return bool(problem)
        message = f"its GPU could not be reserved: {outcome.message}"
        refused.update({w.pod: Refused(message) for w in wants})
        return True

    def read_again(self, card: Card) -> Object | None:
        """The reservation pod as the server has it now."""
        known = self.reservation(card)
        namespace = self._config.encode.reservation_namespace
        name = known["metadata"]["name"] if known is not None else reservation_pods.name_of(card)
        try:
            found = self._runtime.port.get(kinds.POD, name, namespace)
        except NotFound:
            if known is not None:
                self._gone.add(_uid(known))
            return None
        except ApiError:
            return known
        self._pods.remember(found)
        return found

    def _install(self) -> str:
        """The namespace and the account of reservation pods, where an installer left them out.

        Answers what stands in the way for good.
        """
        namespace = self._config.encode.reservation_namespace
        account = {"name": self._config.reservations.service_account, "namespace": namespace}
        for resource, meta in ((kinds.NAMESPACE, {"name": namespace}), (_ACCOUNT, account)):
            try:
                self._runtime.port.create(resource, {"metadata": meta})
            except (AlreadyExists, Conflict, Unavailable, TooManyRequests):
                continue  # it is there, or will be tried again
            except ApiError as error:
                return f"its GPU has no {resource.kind} {namespace} to be kept in: {error.message}"
        return ""

    # ------------------------------------------------------------------ devices

    def _state(self, want: Want) -> Given | Refused | None:
        devices: list[str] = []
        version = ""
        for card in want.cards():
            keeper = self.reservation(card)
            if keeper is None or not self.settled(card, keeper):
                return self._late(want, card)
            claim = reservation_pods.book_of(keeper).get(want.uid)
            device = reservation_pods.device_of(keeper)
            if claim is None or not device or version not in ("", claim.version):
                return self._late(want, card)
            version = claim.version
            devices.append(device)
        return Given(version, tuple(devices))

    def _late(self, want: Want, card: Card) -> Refused | None:
        waited = self._runtime.clock.now() - self._open[want.pod].since_s
        limit = self._config.reservation_wait_s
        if waited < limit:
            return None
        name = reservation_pods.name_of(card)
        message = f"reservation pod {name} named no device of its node within {limit:.0f} s"
        return Refused(message, by_node=True)


def _uid(obj: Object) -> str:
    return obj["metadata"].get("uid") or ""


def _identity(now_s: float) -> str:
    """A name that no other scheduler has, nor this one after a restart."""
    return f"{socket.gethostname()}-{os.getpid()}-{next(_COUNT)}-{now_s:.0f}"
