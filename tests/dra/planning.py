"""Objects -> arrays -> a plan -> devices by name, without any controller."""

from __future__ import annotations

import dataclasses
from typing import Any

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Key
from kai_ray.encode import Encoded, Encoder
from kai_ray.encode.dra import assign
from kai_ray.scheduler import DEFAULT, Plan, decide
from kai_ray.scheduler.explain import NameTable, explain
from tests.control import objects
from tests.control.encoding import NOW
from tests.dra import objects as o

Object = dict[str, Any]


class Planned:
    """What a cycle decides for single pods, in the order of their names."""

    def __init__(self, *given: Object, nodes: int = 1, labels: Object | None = None) -> None:
        self.encoder = Encoder()
        self.apply(objects.queue("team"), o.device_class())
        for i in range(nodes):
            self.apply(objects.node(f"node-{i}", 0, labels=labels or {}))
        self.apply(*given)

    def apply(self, *given: Object) -> None:
        for obj in given:
            resource = kinds.BY_KIND[obj["apiVersion"], obj["kind"]]
            self.encoder.apply(resource, None, obj)

    def pod(self, name: str, *claims: Object, claim: str = "", **more: Any) -> None:
        """A gang of one with claims of its own, or one that names a claim."""
        entries: list[Object] = []
        made: list[Object] = []
        for i, body in enumerate(claims):
            entries.append({"name": f"c{i}", "resourceClaimTemplateName": "t"})
            made.append({"name": f"c{i}", "resourceClaimName": f"{name}-c{i}"})
            owner = {"kind": "Pod", "name": name, "uid": name, "apiVersion": "v1"}
            uid = f"{name}-c{i}"
            meta = {"uid": uid, "ownerReferences": [owner]}
            self.apply(o.claim(uid, body, meta=meta))
        if claim:
            entries.append({"name": "shared", "resourceClaimName": claim})
        pod = objects.pod(name, name, gpus=0, uid=name, resourceClaims=entries, **more)
        pod["status"]["resourceClaimStatuses"] = made
        self.apply(objects.podgroup(name), pod)

    def encoded(self) -> Encoded:
        return self.encoder.snapshot(NOW)

    def plan(self) -> tuple[Encoded, Plan]:
        encoded = self.encoded()
        encoded.snapshot.validate()
        return encoded, decide(encoded.snapshot, dataclasses.replace(DEFAULT))

    def devices(self) -> dict[str, list[str]]:
        """Devices of each pod that is placed, as pool/device; "!" and why where none are left."""
        encoded, plan = self.plan()
        found: dict[str, list[str]] = {}
        for row, granted in assign.grants(encoded, plan).items():
            pod = encoded.names.pod(row).name
            found[pod] = [f"{d.pool}/{d.device}" for c in granted.claims for d in c.held.devices]
            if granted.refusal:
                found[pod] = [f"! {granted.refusal}"]
        return found

    def placed(self) -> dict[str, str]:
        encoded, plan = self.plan()
        pairs = zip(plan.bind_task.tolist(), plan.bind_node.tolist(), strict=True)
        return {encoded.names.pod(t).name: encoded.names.node(n) for t, n in pairs}

    def waits(self, name: str) -> str:
        """Why a pod waits, in words."""
        encoded, plan = self.plan()
        n = encoded.names
        gang = n.gangs.index(Key("default", name))
        wait = next(w for w in plan.waits if w.gang == gang)
        known = NameTable(
            encoded.snapshot.resources, n.node, n.queue, lambda g: n.gang(g).name, lambda g: "team"
        )
        return explain(wait, known).text
