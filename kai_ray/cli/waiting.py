"""Waits until workloads have started or finished, and says on the way what they wait for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kai_ray.cli.connect import Connection
from kai_ray.cli.failures import Failure
from kai_ray.sight.jobs.listing import ENDED, Job, read

if TYPE_CHECKING:
    from kai_ray.sdk.applying import Submitted

POLL_S = 0.5


def wait_for(
    connection: Connection, wanted: Sequence[Submitted], *, finished: bool, timeout_s: float
) -> None:
    """Returns when all have started (or finished); raises Failure if one fails or time runs out."""
    deadline = time.monotonic() + timeout_s
    said: dict[tuple[str, str, str], str] = {}
    keys = {(w.resource.kind, w.namespace, w.name) for w in wanted}
    spaces = sorted({w.namespace for w in wanted})
    while True:
        jobs = [j for space in spaces for j in read(connection.port, space)]
        found = {key: j for j in jobs if (key := (j.kind, j.namespace, j.name)) in keys}
        for key, job in found.items():
            line = _line(job)
            if said.get(key) != line:
                said[key] = line
                click.echo(line)
        failed = [j for j in found.values() if j.status == "Failed"]
        if failed:
            names = ", ".join(j.name for j in failed)
            raise Failure(f"failed: {names}", next=f"kai describe job {failed[0].name}")
        missing = keys - {k for k, j in found.items() if _done(j, finished)}
        if not missing:
            return
        if time.monotonic() > deadline:
            kind, _, name = sorted(missing)[0]
            raise Failure(
                f"{len(missing)} of {len(keys)} workloads did not "
                f"{'finish' if finished else 'start'} within {timeout_s:g} s",
                next=f"kai explain {kind.lower()}/{name}",
            )
        time.sleep(POLL_S)


def _done(job: Job, finished: bool) -> bool:
    return job.status in ENDED or (not finished and job.status == "Running")


def _line(job: Job) -> str:
    line = f"{job.kind.lower()}/{job.name}: {job.status}"
    if job.status == "Waiting" and job.reason:
        line += f" ({job.reason})"
    return line
