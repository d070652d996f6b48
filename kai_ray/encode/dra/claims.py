"""ResourceClaims: what they ask, what they hold, and what they mean for the pods that name them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kai_ray.api import labels as names
from kai_ray.cluster.port import Key, Object
from kai_ray.encode.problems import MISREAD, Malformed, text
from kai_ray.encode.selectors import NodeSelector, node_selector_terms
from kai_ray.scheduler.reason import Reason

from . import asks
from .asks import ClaimAsk
from .slices import DeviceId

CLAIM, TEMPLATE, DEVICE_CLASS = "ResourceClaim", "ResourceClaimTemplate", "DeviceClass"
#: (kind, namespace, name) of an object that a pod depends on.
Dependency = tuple[str, str, str]


class Held(NamedTuple):
    """What a claim has been given."""

    devices: tuple[DeviceId, ...]  # those that it keeps from others: not what it only looks at
    nodes: NodeSelector | None  # where they can be used; None = everywhere


class ClaimRow(NamedTuple):
    uid: str
    ask: ClaimAsk | None  # None where it cannot be read
    fault: str  # why it cannot
    held: Held | None  # None = not allocated
    consumers: tuple[str, ...]  # UIDs of those it is reserved for
    queue: str  # whose it is, where its pods name it themselves
    owner: str  # UID of the pod that it was made for; "" = nobody's
    leaving: bool
    group: str = ""  # of the card that it keeps for those who share it


class Named(NamedTuple):
    """A claim as a pod names it."""

    name: str  # in the pod
    key: Key | None  # None = none is needed, or none is there yet
    own: bool  # made for this pod from a template
    missing: str = ""  # the template it is still to be made from


def read(obj: Object) -> ClaimRow:
    """Raises Malformed for a status of the wrong form; a bad spec is a fault of the claim."""
    meta, status = obj["metadata"], obj.get("status") or {}
    fault = ""
    ask = None
    try:
        ask = asks.read(obj.get("spec") or {})
    except Malformed as error:
        fault = f"{error.field} {error.mend}"
    except MISREAD as error:
        fault = f"its spec is not of the form of a ResourceClaim ({error!r})"
    owner = next((r for r in meta.get("ownerReferences") or () if r.get("kind") == "Pod"), {})
    labels = meta.get("labels") or {}
    keeps = labels.get(names.APP) == names.RESERVATION
    return ClaimRow(
        uid=meta.get("uid") or "",
        ask=ask,
        fault=fault,
        held=held_by(status.get("allocation")),
        consumers=tuple(sorted(str(c.get("uid")) for c in status.get("reservedFor") or ())),
        queue=text(labels.get(names.QUEUE), "metadata.labels"),
        owner=str(owner.get("uid") or ""),
        leaving=bool(meta.get("deletionTimestamp")),
        group=text(labels.get(names.GPU_GROUP), "metadata.labels") if keeps else "",
    )


def held_by(allocation: Any) -> Held | None:
    """The devices of an allocation. Raises Malformed."""
    if not allocation:
        return None
    results = (allocation.get("devices") or {}).get("results") or ()
    devices = tuple(
        sorted(
            DeviceId(
                *(text(r.get(k), f"status.allocation.{k}") for k in ("driver", "pool", "device"))
            )
            for r in results
            if not r.get("adminAccess")
        )
    )
    selector = allocation.get("nodeSelector")
    if selector is None:
        return Held(devices, None)
    field = "status.allocation.nodeSelector.nodeSelectorTerms"
    return Held(devices, node_selector_terms(selector.get("nodeSelectorTerms"), field))


def named_by(pod: Object) -> Iterator[Named]:
    """The claims of a pod, in order. Raises Malformed."""
    namespace = pod["metadata"].get("namespace") or ""
    made = {
        str(s.get("name")): s.get("resourceClaimName")
        for s in (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    }
    for i, raw in enumerate(pod["spec"].get("resourceClaims") or ()):
        field = f"spec.resourceClaims[{i}]"
        name = text(raw.get("name"), f"{field}.name")
        direct = text(raw.get("resourceClaimName"), f"{field}.resourceClaimName")
        template = text(raw.get("resourceClaimTemplateName"), f"{field}.resourceClaimTemplateName")
        if direct:
            yield Named(name, Key(namespace, direct), False)
        elif not template:
            mend = "names neither resourceClaimName nor resourceClaimTemplateName: name one"
            raise Malformed(field, mend)
        elif name not in made:
            yield Named(name, None, True, template)
        elif made[name]:
            yield Named(name, Key(namespace, text(made[name], "status")), True)
        else:
            yield Named(name, None, True)  # its template asks for none


class Claims:
    """What is known of claims, templates and classes."""

    def __init__(self) -> None:
        self.rows: dict[Key, ClaimRow] = {}
        self.templates: set[Key] = set()
        self.classes: dict[str, tuple[str, ...]] = {}
        """DeviceClass -> its selectors."""
        self.unseen = ""
        """Why claims cannot be looked at; "" while they can."""

    def asked_by(self, pod: Object) -> tuple[asks.DeviceAsk, list[Dependency], tuple[int, str]]:
        """What a pod asks, what that depends on, and (a Reason, the words) why it cannot start."""
        found: list[ClaimAsk] = []
        depends: list[Dependency] = []
        blocked: tuple[int, str] = (0, "")
        for named in named_by(pod):
            ask, why = self._one(named, pod, depends)
            if ask is not None:
                found.append(ask)
            if why[0] and not blocked[0]:
                blocked = why
        if self.unseen:
            blocked = int(Reason.MISCONFIGURED), self.unseen
        return tuple(found), depends, blocked

    def _one(
        self, named: Named, pod: Object, depends: list[Dependency]
    ) -> tuple[ClaimAsk | None, tuple[int, str]]:
        if named.missing:
            namespace = pod["metadata"].get("namespace") or ""
            depends.append((TEMPLATE, namespace, named.missing))
            if Key(namespace, named.missing) not in self.templates:
                words = f"{named.name}, from the template {named.missing}, which does not exist"
                return None, (int(Reason.CLAIM_NOT_FOUND), f"{words}: create it")
            words = f"{named.name} is still to be made from the template {named.missing}"
            return None, (int(Reason.CLAIM_NOT_FOUND), words)
        if named.key is None:
            return None, (0, "")
        depends.append((CLAIM, named.key.namespace, named.key.name))
        row = self.rows.get(named.key)
        if row is None:
            return None, (int(Reason.CLAIM_NOT_FOUND), f"{named.key.name}: create it")
        why = self._fault(named, row, pod)
        if row.ask is None:
            return None, why
        for request in row.ask.requests:
            for option in request.options:
                depends.append((DEVICE_CLASS, "", option.predicate.device_class))
                unknown = option.predicate.device_class not in self.classes
                if unknown and row.held is None and not why[0]:
                    words = f"{option.predicate.device_class}, of claim {named.key.name}"
                    why = int(Reason.DEVICE_CLASS_NOT_FOUND), f"{words}: create it"
        if named.own:
            return row.ask, why
        return row.ask._replace(shared=f"{named.key.namespace}/{named.key.name}"), why

    def _fault(self, named: Named, row: ClaimRow, pod: Object) -> tuple[int, str]:
        assert named.key is not None, "only claims that are there"
        name, uid = named.key.name, pod["metadata"].get("uid") or ""
        if named.own and row.owner != uid:
            return int(Reason.MISCONFIGURED), f"claim {name} was made for another pod: delete it"
        if row.leaving:
            return int(Reason.CLAIM_NOT_FOUND), f"{name} is being deleted: create it anew"
        if row.held is None and row.fault:
            return int(Reason.MISCONFIGURED), f"claim {name}: {row.fault}"
        return 0, ""
