"""Objects into the cluster, as they are: applied on the server's side."""

from __future__ import annotations

from typing import NamedTuple

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Conflict as Taken
from kai_ray.cluster.port import NotFound, Object, Port, Resource
from kai_ray.sdk.errors import Conflict
from kai_ray.sdk.finding import resource_of

FIELD_MANAGER = "kai-submit"

#: Groups whose kinds run no pods of their own.
_SUPPORT_GROUPS = frozenset(
    {
        "rbac.authorization.k8s.io",
        "networking.k8s.io",
        "storage.k8s.io",
        "scheduling.k8s.io",
        "apiextensions.k8s.io",
        "admissionregistration.k8s.io",
        "policy",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "scheduling.run.ai",
        "kai.scheduler",
        "resource.k8s.io",
        "autoscaling",
        "monitoring.coreos.com",
    }
)
_SUPPORT_KINDS = frozenset({R.TRAINING_RUNTIME.kind, R.CLUSTER_TRAINING_RUNTIME.kind})


class Submitted(NamedTuple):
    """One object that was applied."""

    resource: Resource
    namespace: str
    name: str
    verb: str

    def __str__(self) -> str:
        kind = self.resource.kind.lower()
        group = f".{self.resource.group}" if self.resource.group else ""
        return f"{kind}{group}/{self.name}"


def runs_pods(obj: Object) -> bool:
    """Whether pods come from this object: a workload, not what it refers to."""
    group, _, _ = obj["apiVersion"].rpartition("/")
    if not group:
        return obj["kind"] in ("Pod", "ReplicationController")
    return group not in _SUPPORT_GROUPS and obj["kind"] not in _SUPPORT_KINDS


def apply(
    port: Port, namespace: str, obj: Object, *, dry_run: str = "none", force: bool = False
) -> Submitted:
    """Creates or changes one object; `dry_run` is none, client or server.

    Raises Conflict where another program has set a field, unless `force` takes it over.
    """
    resource = resource_of(port, obj["apiVersion"], obj["kind"])
    meta = obj["metadata"]
    space = (meta.get("namespace") or namespace) if resource.namespaced else ""
    if resource.namespaced and not meta.get("namespace"):
        obj = {**obj, "metadata": {**meta, "namespace": space}}
    name = meta.get("name") or ""
    if dry_run == "client":
        return Submitted(resource, space, name or meta["generateName"], "would be applied")
    server_only = dry_run == "server"
    if not name:
        made = port.create(resource, obj, dry_run=server_only, field_manager=FIELD_MANAGER)
        return Submitted(resource, space, made["metadata"]["name"], "created")
    try:
        before = port.get(resource, name, space)["metadata"].get("resourceVersion")
    except NotFound:
        before = None
    try:
        after = port.patch(
            resource,
            name,
            obj,
            space,
            patch_type="apply",
            field_manager=FIELD_MANAGER,
            force=force,
            dry_run=server_only,
        )
    except Taken as error:
        raise Conflict(
            error.message,
            why="another program manages these fields",
            command="repeat with --force to take them over",
            python="submit(…, force=True) takes them over",
        ) from error
    same = before is not None and after["metadata"].get("resourceVersion") == before
    verb = "created" if before is None else "unchanged" if same else "configured"
    return Submitted(resource, space, name, verb)
