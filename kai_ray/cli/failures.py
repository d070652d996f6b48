"""What a command says when it cannot do its work, and with which exit code it ends.

A message says what happened, why, and the command that helps. Exit codes are part of the interface:

    0  done
    1  it failed
    2  the command line is wrong
    3  a named object does not exist
    4  a conflict: it exists already, somebody changed it meanwhile, or another owns the field
"""

from __future__ import annotations

from typing import NoReturn

import click

from kai_ray.cluster import port as api
from kai_ray.sdk import errors

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


def taken(port: int, error: OSError, option: str) -> Failure:
    """A port of loopback on which nothing more can listen, and the option that names another."""
    what = f"cannot listen on 127.0.0.1:{port}: {error.strerror}"
    return Failure(what, next=f"choose another {option}, or leave it out")


def from_sdk(error: errors.KaiError) -> Failure:
    """The same words as a failure of the command."""
    code = next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)
    return Failure(error.what, why=error.why, next=error.command, code=code)


_CODES = (
    (errors.Ambiguous, USAGE),
    (errors.NotFound, MISSING),
    (errors.Unserved, MISSING),
    (errors.Conflict, CONFLICT),
    (errors.BadKubeconfig, USAGE),
)


def from_api(error: api.ApiError) -> Failure:
    """The same refusal as a failure of the command."""
    return from_sdk(errors.from_api(error))


def raise_from(error: api.ApiError | errors.KaiError) -> NoReturn:
    failure = from_sdk(error) if isinstance(error, errors.KaiError) else from_api(error)
    raise failure from error
