"""What goes wrong, as types: each says what happened, why, and what to do next."""

from __future__ import annotations

import re

from kai_ray.api.labels import MANAGED_NAMESPACE
from kai_ray.cluster import port as api


class KaiError(Exception):
    """The parent of all errors that this package raises on purpose.

    `what` happened, `why`, and what helps: `command` in a shell, `python` in a program.

    >>> try:
    ...     kai.job("nowhere")
    ... except kai_ray.KaiError as error:
    ...     print(error)
    job 'nowhere' does not exist
      next: kai get jobs -n default
    """

    def __init__(self, what: str, *, why: str = "", command: str = "", python: str = "") -> None:
        self.what, self.why, self.command, self.python = what, why, command, python
        lines = [what]
        if why:
            lines.append(f"  why:  {why}")
        if python or command:
            lines.append(f"  next: {python or command}")
        super().__init__("\n".join(lines))


class NoCluster(KaiError):
    """There is no cluster to talk to, or its kubeconfig cannot be used.

    >>> try:
    ...     kai_ray.connect(kubeconfig="absent.yaml")
    ... except kai_ray.NoCluster as error:
    ...     print(error.what)
    there is no kubeconfig at absent.yaml
    """


class BadKubeconfig(NoCluster):
    """The kubeconfig that was named is not there, or cannot be used.

    >>> issubclass(kai_ray.BadKubeconfig, kai_ray.NoCluster)
    True
    """


class Unreachable(KaiError):
    """The API server does not answer. A write may or may not have happened.

    >>> issubclass(kai_ray.Unreachable, kai_ray.KaiError)
    True
    """


class Denied(KaiError):
    """The API server does not know you, or you lack a right.

    >>> issubclass(kai_ray.Denied, kai_ray.KaiError)
    True
    """


class NotFound(KaiError):
    """A job, a queue or a namespace that was named does not exist.

    >>> try:
    ...     kai.queue("physics")
    ... except kai_ray.NotFound as error:
    ...     print(error.what)
    queue 'physics' does not exist
    """


class Ambiguous(NotFound):
    """A name that several jobs share: say KIND/NAME.

    >>> issubclass(kai_ray.Ambiguous, kai_ray.NotFound)
    True
    """


class Conflict(KaiError):
    """It exists already, somebody changed it meanwhile, or others need it.

    >>> try:
    ...     kai.create_queue("vision")
    ... except kai_ray.Conflict as error:
    ...     print(error.what)
    queue 'vision' exists already
    """


class InvalidManifest(KaiError):
    """What is to be submitted makes no sense, said here or by the API server.

    >>> try:
    ...     kai.submit({"metadata": {"name": "nameless"}})
    ... except kai_ray.InvalidManifest as error:
    ...     print(error)
    an object has no apiVersion
      next: add `apiVersion: …`
    """


class Unserved(InvalidManifest):
    """A kind that the cluster does not know: its definition is not installed.

    >>> try:
    ...     kai.submit({"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "a"}})
    ... except kai_ray.Unserved as error:
    ...     print(error.what)
    the cluster does not serve kind Thing of x.io/v1
    """


class CannotSuspend(KaiError):
    """A job that its operator would fail, or that nobody would make again.

    >>> issubclass(kai_ray.CannotSuspend, kai_ray.KaiError)
    True
    """


class JobFailed(KaiError):
    """A job that was waited for has failed. `jobs` names them.

    >>> issubclass(kai_ray.JobFailed, kai_ray.KaiError)
    True
    """

    jobs: tuple[str, ...] = ()


class JobDeleted(KaiError):
    """A job is gone: deleted, or replaced by another of its name.

    >>> issubclass(kai_ray.JobDeleted, kai_ray.KaiError)
    True
    """


class WaitTimeout(KaiError, TimeoutError):
    """A job had not started or ended in time. It goes on: wait again, or delete it.

    >>> job = kai.submit(kai_ray.BatchJob("endless", image="busybox", gpus=1), queue="vision")
    >>> try:
    ...     job.wait(timeout=0)
    ... except kai_ray.WaitTimeout as error:
    ...     print(error.what)
    job/endless did not end within 0 s
    """


def from_api(error: api.ApiError) -> KaiError:
    """A refusal of the API server in these types."""
    what = f"{error.message} ({error.reason})"
    why = "; ".join(_causes(error))
    if isinstance(error, api.NotFound):
        space = re.match(r'namespaces "([^"]+)" not found', error.message)
        managed = f"kubectl label namespace {space[1]} {MANAGED_NAMESPACE}=true" if space else ""
        return NotFound(
            what,
            why=why,
            command=f"kubectl create namespace {space[1]}; {managed}" if space else "",
        )
    if isinstance(error, api.AlreadyExists | api.Conflict):
        return Conflict(what, why=why, command=_LOOK, python="read it again, then repeat the call")
    if isinstance(error, api.Unauthorized):
        return Denied(what, why=why, command=_WHO)
    if isinstance(error, api.Unavailable | api.TooManyRequests):
        return Unreachable(what, why=why, command=_RUNNING)
    if isinstance(error, api.Forbidden):
        return Denied(what, why=why)
    if isinstance(error, api.Invalid | api.BadRequest):
        return InvalidManifest(what, why=why)
    return KaiError(what, why=why)


_LOOK = "look at the object as it is now, then repeat the command"
_WHO = "check the user in your kubeconfig; `kai version` shows which file is used"
_RUNNING = "is the cluster running? `kai up` starts one on this machine"


def _causes(error: api.ApiError) -> list[str]:
    """Fields and what is wrong with them, as far as the message does not say so already."""
    return [
        f"{c['field']}: {c['message']}" if c.get("field") else str(c.get("message", ""))
        for c in error.details.get("causes") or []
        if c.get("message") and c["message"] not in error.message
    ]
