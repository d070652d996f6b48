"""Stand-in for kube-controller-manager's resource claims: made from templates, freed after use.

Source: Kubernetes 1.36, controller resourceclaim. A claim that is made for a pod goes with it; a
claim that nobody uses any more gives its devices back.
"""

from __future__ import annotations

from typing import Any

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Conflict, NotFound, Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.sim import pod_facts

from .world import World, is_deleting, own_copy, owner_of, split_key, suffix

FINALIZER = "resource.kubernetes.io/delete-protection"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
_POD, _CLAIM = "pod ", "claim "


class ResourceClaimOperator:
    """Keys: "pod namespace/name" and "claim namespace/name"."""

    name = "resource-claims"

    def setup(self, runtime: Runtime) -> None:
        self._world = World(runtime)
        self._runtime = runtime
        runtime.informer(R.RESOURCE_CLAIM_TEMPLATE).on_change(self._template_changed)
        self._pods = runtime.informer(R.POD)
        self._pods.on_change(self._pod_changed)
        self._claims = runtime.informer(R.RESOURCE_CLAIM)
        self._claims.on_change(self._claim_changed)
        self._waiting: dict[tuple[str, str], set[str]] = {}  # template -> pods

    def _template_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            meta = new["metadata"]
            for pod in self._waiting.pop((meta["namespace"], meta["name"]), ()):
                self._runtime.enqueue(self.name, _POD + pod)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        if not pod["spec"].get("resourceClaims"):
            return
        meta = pod["metadata"]
        self._runtime.enqueue(self.name, f"{_POD}{meta['namespace']}/{meta['name']}")
        if new is None or pod_facts.is_finished(new):
            for name in _claim_names(pod):
                self._runtime.enqueue(self.name, f"{_CLAIM}{meta['namespace']}/{name}")

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            meta = new["metadata"]
            self._runtime.enqueue(self.name, f"{_CLAIM}{meta['namespace']}/{meta['name']}")

    def reconcile(self, key: str) -> float | None:
        try:
            if key.startswith(_POD):
                self._make(*split_key(key.removeprefix(_POD)))
            else:
                self._free(*split_key(key.removeprefix(_CLAIM)))
        except NotFound:
            return None
        except Conflict:
            return 0.1
        return None

    # ---- claims from templates

    def _make(self, namespace: str, name: str) -> None:
        pod = self._pods.get(name, namespace)
        if pod is None or is_deleting(pod) or pod_facts.is_finished(pod):
            return
        known = list((pod.get("status") or {}).get("resourceClaimStatuses") or ())
        named = {s["name"] for s in known}
        made: list[Object] = []
        for raw in pod["spec"]["resourceClaims"]:
            template = raw.get("resourceClaimTemplateName")
            if not template or raw["name"] in named:
                continue
            claim = self._from_template(pod, raw["name"], template)
            if claim is not None:
                made.append({"name": raw["name"], "resourceClaimName": claim["metadata"]["name"]})
        if made:
            patch = {"status": {"resourceClaimStatuses": [*known, *made]}}
            found = self._world.port.patch(R.POD, name, patch, namespace, subresource="status")
            self._pods.remember(found)

    def _from_template(self, pod: Object, entry: str, template: str) -> Object | None:
        meta = pod["metadata"]
        namespace = meta["namespace"]
        found = self._world.get(R.RESOURCE_CLAIM_TEMPLATE, namespace, template)
        if found is None:
            self._waiting.setdefault((namespace, template), set()).add(
                f"{namespace}/{meta['name']}"
            )
            return None
        spec = own_copy(found.get("spec") or {})
        inner = spec.get("metadata") or {}
        name = f"{meta['name']}-{entry}-{suffix(meta['uid'], entry)}"
        reference = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        claim: Object = {
            "apiVersion": R.RESOURCE_CLAIM.api_version,
            "kind": R.RESOURCE_CLAIM.kind,
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": inner.get("labels") or {},
                "annotations": {**(inner.get("annotations") or {}), POD_CLAIM_NAME: entry},
                "ownerReferences": [reference],
            },
            "spec": spec.get("spec") or {},
        }
        made = self._world.create(R.RESOURCE_CLAIM, claim)
        return made or self._world.get(R.RESOURCE_CLAIM, namespace, name)

    # ---- claims after use

    def _free(self, namespace: str, name: str) -> None:
        claim = self._claims.get(name, namespace)
        if claim is None:
            return
        status = claim.get("status") or {}
        users = list(status.get("reservedFor") or ())
        left = [user for user in users if self._uses(namespace, user)]
        if len(left) < len(users):
            fresh = own_copy(status)
            fresh["reservedFor"] = left
            if not left:
                fresh.pop("reservedFor")
                fresh.pop("allocation", None)
            self._world.set_status(R.RESOURCE_CLAIM, claim, fresh)
            return
        finalizers = claim["metadata"].get("finalizers") or []
        if FINALIZER in finalizers and not status.get("allocation") and not users:
            fresh = own_copy(claim)
            fresh["metadata"]["finalizers"] = [f for f in finalizers if f != FINALIZER]
            if is_deleting(claim):
                self._world.port.update(R.RESOURCE_CLAIM, fresh)
                return
        owner = owner_of(claim)
        if owner is not None and owner["kind"] == "Pod" and not is_deleting(claim):
            pod = self._pods.get(owner["name"], namespace)
            gone = pod is None or pod["metadata"]["uid"] != owner["uid"]
            if gone or (pod is not None and pod_facts.is_finished(pod)):
                self._world.delete(R.RESOURCE_CLAIM, claim)

    def _uses(self, namespace: str, user: dict[str, Any]) -> bool:
        """Whether a reservation is still somebody's."""
        if user.get("resource") != "pods":
            return True
        pod = self._pods.get(user.get("name") or "", namespace)
        if pod is None or pod["metadata"]["uid"] != user.get("uid"):
            return False
        return not pod_facts.is_finished(pod)


def _claim_names(pod: Object) -> list[str]:
    """Claims that a pod names or that were made for it."""
    made = [
        s.get("resourceClaimName")
        for s in (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    ]
    named = [c.get("resourceClaimName") for c in pod["spec"].get("resourceClaims") or ()]
    return [name for name in (*made, *named) if name]
