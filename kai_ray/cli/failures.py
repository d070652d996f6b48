"""What a command says when it cannot do its work, and with which exit code it ends.

A message says what happened, why, and the command that helps. Exit codes are part of the interface:

    0  done
    1  it failed
    2  the command line is wrong
    3  a named object does not exist
    4  a conflict: it exists already, somebody changed it meanwhile, or another owns the field
"""

from __future__ import annotations

import re
from typing import NoReturn

import click

from kai_ray.api.labels import MANAGED_NAMESPACE
from kai_ray.cluster import port as api

FAILED, USAGE, MISSING, CONFLICT = 1, 2, 3, 4
INTERRUPTED = 130


class Failure(click.ClickException):
    """`what` happened, `why`, and the `next` command to try."""

    def __init__(self, what: str, *, why: str = "", next: str = "", code: int = FAILED) -> None:
        lines = [what]
        if why:
            lines.append(f"  why:  {why}")
        if next:
            lines.append(f"  next: {next}")
        super().__init__("\n".join(lines))
        self.exit_code = code  # pyright: ignore[reportAttributeAccessIssue]


def missing(kind: str, name: str, *, next: str) -> Failure:
    return Failure(f"{kind} {name!r} does not exist", next=next, code=MISSING)


def from_api(error: api.ApiError) -> Failure:
    """The same refusal as a failure of the command."""
    causes = error.details.get("causes") or []
    why = "; ".join(
        f"{c['field']}: {c['message']}" if c.get("field") else str(c.get("message", ""))
        for c in causes
        if c.get("message") and c["message"] not in error.message
    )
    code = FAILED
    help_line = ""
    if isinstance(error, api.NotFound):
        code = MISSING
        space = re.match(r'namespaces "([^"]+)" not found', error.message)
        if space:
            managed = f"kubectl label namespace {space[1]} {MANAGED_NAMESPACE}=true"
            help_line = f"kubectl create namespace {space[1]}; {managed}"
    elif isinstance(error, api.AlreadyExists | api.Conflict):
        code = CONFLICT
        help_line = "look at the object as it is now, then repeat the command"
    elif isinstance(error, api.Unauthorized):
        help_line = "check the user in your kubeconfig; `kai version` shows which file is used"
    elif isinstance(error, api.Unavailable):
        help_line = "is the cluster running? `kai up` starts one on this machine"
    return Failure(f"{error.message} ({error.reason})", why=why, next=help_line, code=code)


def raise_from(error: api.ApiError) -> NoReturn:
    raise from_api(error) from error
