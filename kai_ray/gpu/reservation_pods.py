"""The pod that keeps a card for those who share it (KAI 0.17: names, labels, annotations).

It asks the node's device plugin for one whole card, so that nobody else gets that card, and says in
an annotation which one it was given. Its name is made of node and group: creating it is how two
schedulers settle who opens a card. Who may have how much of the card stands in an annotation of
ours on the same pod, so that every change of it is a compare-and-set.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kai_ray.api import labels as names
from kai_ray.cluster.port import Object, Resource
from kai_ray.cluster.reservations import is_reservation
from kai_ray.gpu.cards import Card

__all__ = [
    "Claim",
    "Making",
    "book_of",
    "card_of",
    "claim_of",
    "claims_card",
    "device_of",
    "is_reservation",
    "manifest",
    "name_of",
    "problem_of",
    "written",
]

CONTAINER = "resource-reservation"
#: The name of the card's claim in the pod, and of the request in the claim.
CLAIM_IN_POD = "card"
_GRACE_S = 1  # what it holds is free once its process has ended, not before


class Claim(NamedTuple):
    """A part of a card that is promised to a pod."""

    pod: str  # namespace/name
    mib: int
    version: str = ""  # the state of the pod that may be bound on the strength of this
    by: str = ""  # the scheduler that claimed it


@dataclass(frozen=True, slots=True)
class Making:
    """How reservation pods are made here."""

    image: str = "ghcr.io/kai-ray/kai-ray:latest"
    """Must have this package: `python -m kai_ray.gpu.reservation` runs in it."""
    service_account: str = names.RESERVATION
    runtime_class: str = ""
    requests: Mapping[str, str] | None = None
    """What the container asks for besides the card, such as {"cpu": "10m"}."""
    cdi: bool = False
    """Whether devices are named to containers as CDI does."""


def name_of(card: Card, attempt: int = 0) -> str:
    """KAI 0.17: the first eight bytes of a SHA-256 over node and group.

    Later attempts are ours: pods that are made until one is given a certain card.
    """
    text = f"{card.key}/{attempt}" if attempt else card.key
    return f"gpu-reservation-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def manifest(
    name: str,
    card: Card,
    making: Making,
    namespace: str,
    resource: str,
    book: Mapping[str, Claim],
    tolerations: list[Any],
) -> Object:
    """`resource` is what the device plugin of the node calls a whole card; "" where the card comes
    by a resource claim, which has the pod's name."""
    amounts = {**(making.requests or {}), **({resource: "1"} if resource else {})}
    claims = [] if resource else [{"name": CLAIM_IN_POD}]
    env = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in (("POD_NAME", "metadata.name"), ("POD_NAMESPACE", "metadata.namespace"))
    ]
    container: Object = {
        "name": CONTAINER,
        "image": making.image,
        "command": ["python", "-m", "kai_ray.gpu.reservation"],
        "env": env,
        "resources": {
            "requests": amounts,
            "limits": amounts,
            **({"claims": claims} if claims else {}),
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    spec: Object = {
        "nodeName": card.node,
        "serviceAccountName": making.service_account,
        "terminationGracePeriodSeconds": _GRACE_S,
        "restartPolicy": "Always",
        "containers": [container],
        **({"runtimeClassName": making.runtime_class} if making.runtime_class else {}),
        **({"tolerations": tolerations} if tolerations else {}),
        **({"resourceClaims": [{**claims[0], "resourceClaimName": name}]} if claims else {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {names.APP: names.RESERVATION, names.GPU_GROUP: card.group},
            "annotations": {
                names.DO_NOT_DISRUPT: "true",
                names.SKIP_PODGROUPER: "true",
                names.GPU_SHARES: written(book),
            },
        },
        "spec": spec,
    }


def claims_card(pod: Object) -> bool:
    """Whether the pod gets its card by a resource claim."""
    return bool(pod["spec"].get("resourceClaims"))


def claim_of(pod: Object, resource: Resource) -> Object:
    """The claim of a reservation pod, in the version that the server has; it goes with the pod."""
    meta = pod["metadata"]
    exactly: Object = {"deviceClassName": names.GPU_DEVICE_CLASS, "count": 1}
    request = exactly if resource.version == "v1beta1" else {"exactly": exactly}
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "labels": dict(meta["labels"]),
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": [{"name": CLAIM_IN_POD, **request}]}},
    }


def card_of(pod: Object) -> Card:
    labels = pod["metadata"].get("labels") or {}
    return Card(pod["spec"].get("nodeName") or "", labels.get(names.GPU_GROUP) or "")


def device_of(pod: Object) -> str:
    """The UUID of the card that the pod was given; "" until it says so."""
    return str((pod["metadata"].get("annotations") or {}).get(names.RESERVED_GPU) or "")


def written(book: Mapping[str, Claim]) -> str:
    return json.dumps(
        {
            uid: {"pod": c.pod, "mib": c.mib, "version": c.version, "by": c.by}
            for uid, c in sorted(book.items())
        },
        separators=(",", ":"),
    )


def book_of(pod: Object) -> dict[str, Claim]:
    """Who may have how much, by the uid of the pod. What cannot be read is left out."""
    text = (pod["metadata"].get("annotations") or {}).get(names.GPU_SHARES)
    try:
        raw: Any = json.loads(text) if isinstance(text, str) else {}
    except ValueError:
        return {}
    found: dict[str, Claim] = {}
    for uid, entry in raw.items() if isinstance(raw, dict) else ():
        if isinstance(entry, dict) and type(entry.get("mib")) is int and entry["mib"] > 0:
            claim = Claim(
                str(entry.get("pod") or ""),
                entry["mib"],
                str(entry.get("version") or ""),
                str(entry.get("by") or ""),
            )
            found[str(uid)] = claim
    return found


def problem_of(pod: Object) -> str:
    """Why the pod keeps nothing, "" while it does or may come to."""
    status = pod.get("status") or {}
    if status.get("phase") not in ("Failed", "Succeeded"):
        return ""
    return str(status.get("message") or status.get("reason") or "its reservation pod has ended")
