"""`kai submit`: apply manifests as they are, and wait for what they start."""

from __future__ import annotations

import copy
from typing import NamedTuple

import click

from kai_ray.api import labels as L
from kai_ray.cli import connect, manifests
from kai_ray.cli.connect import Connection
from kai_ray.cli.dry_run import dry_run_option, tail
from kai_ray.cli.failures import CONFLICT, Failure, from_api
from kai_ray.cli.find import resource_of
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import ApiError, Conflict, NotFound, Object, Resource

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


@click.command("submit")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("-q", "--queue", metavar="NAME", help="Label the workloads with this queue.")
@click.option(
    "--wait",
    type=click.Choice(["started", "finished"]),
    is_flag=False,
    flag_value="started",
    help="Return when every workload has started (the default), or finished.",
)
@click.option("--timeout", type=float, default=600.0, show_default=True, metavar="SECONDS")
@click.option("--force", is_flag=True, help="Take over fields that others have set.")
@dry_run_option
@connect.connected
def submit(
    files: tuple[str, ...],
    queue: str | None,
    wait: str | None,
    timeout: float,
    force: bool,
    dry_run: str,
) -> None:
    """Submit manifests as they are: files, folders, or - for standard input.

    Objects are applied on the server's side, so a second submit of a changed file changes the
    object. Objects with metadata.generateName are created anew each time.
    """
    documents = manifests.read(files)
    connection = connect.open_connection()
    connection.port.on_warning(lambda text: click.echo(f"warning: {text}", err=True))
    done: list[Submitted] = []
    failures: list[Failure] = []
    for document in documents:
        obj = document.object
        if queue and runs_pods(obj):
            obj = copy.deepcopy(obj)
            obj["metadata"].setdefault("labels", {})[L.QUEUE] = queue
        try:
            submitted = apply(connection, obj, dry_run=dry_run, force=force)
        except (ApiError, Failure) as error:  # the others may still go in
            failures.append(from_api(error) if isinstance(error, ApiError) else error)
            continue
        click.echo(f"{submitted} {submitted.verb}{tail(dry_run)}")
        if runs_pods(obj):
            done.append(submitted)
    _report(failures, len(documents))
    if wait and dry_run == "none" and done:
        from kai_ray.cli.waiting import wait_for

        wait_for(connection, done, finished=wait == "finished", timeout_s=timeout)


def _report(failures: list[Failure], tried: int) -> None:
    """Raises the failure, or one that sums up several after each has been told."""
    if not failures:
        return
    if len(failures) == 1:
        raise failures[0]
    for failure in failures:
        failure.show()
    raise Failure(
        f"{len(failures)} of {tried} objects were not submitted", code=failures[0].exit_code
    )


def runs_pods(obj: Object) -> bool:
    """Whether pods come from this object: a workload, not what it refers to."""
    group, _, _ = obj["apiVersion"].rpartition("/")
    if not group:
        return obj["kind"] in ("Pod", "ReplicationController")
    return group not in _SUPPORT_GROUPS and obj["kind"] not in _SUPPORT_KINDS


def apply(
    connection: Connection, obj: Object, *, dry_run: str = "none", force: bool = False
) -> Submitted:
    """Creates or changes one object."""
    port = connection.port
    resource = resource_of(port, obj["apiVersion"], obj["kind"])
    meta = obj["metadata"]
    namespace = (meta.get("namespace") or connection.namespace) if resource.namespaced else ""
    if resource.namespaced and not meta.get("namespace"):
        obj = {**obj, "metadata": {**meta, "namespace": namespace}}
    name = meta.get("name") or ""
    if dry_run == "client":
        return Submitted(resource, namespace, name or meta["generateName"], "would be applied")
    server_only = dry_run == "server"
    if not name:
        made = port.create(resource, obj, dry_run=server_only, field_manager=FIELD_MANAGER)
        return Submitted(resource, namespace, made["metadata"]["name"], "created")
    try:
        before = port.get(resource, name, namespace)["metadata"].get("resourceVersion")
    except NotFound:
        before = None
    try:
        after = port.patch(
            resource,
            name,
            obj,
            namespace,
            patch_type="apply",
            field_manager=FIELD_MANAGER,
            force=force,
            dry_run=server_only,
        )
    except Conflict as error:
        raise Failure(
            error.message,
            why="another program manages these fields",
            next="repeat with --force to take them over",
            code=CONFLICT,
        ) from error
    same = before is not None and after["metadata"].get("resourceVersion") == before
    verb = "created" if before is None else "unchanged" if same else "configured"
    return Submitted(resource, namespace, name, verb)
