"""Waits until workloads have started or finished, and says on the way what they wait for."""

from __future__ import annotations

from collections.abc import Sequence

import click

from kai_ray.cli.connect import Connection
from kai_ray.sdk.applying import Submitted
from kai_ray.sdk.client import Client
from kai_ray.sdk.job import Job
from kai_ray.sdk.looks import Look
from kai_ray.sdk.pace import RealPace


class Lines:
    """A line whenever a job stands elsewhere than before."""

    def __init__(self) -> None:
        self._said: dict[Job, str] = {}

    def update(self, job: Job, found: Look) -> None:
        line = f"{job.ref}: {found.status}"
        if found.status.queued and found.row and found.row.reason:
            line += f" ({found.row.reason})"
        if self._said.get(job) != line:
            self._said[job] = line
            click.echo(line)

    def close(self) -> None:
        pass


def wait_for(
    connection: Connection, wanted: Sequence[Submitted], *, finished: bool, timeout_s: float
) -> None:
    """Returns when all have started (or finished). Raises JobFailed, JobDeleted, WaitTimeout."""
    client = Client(connection.port, connection.namespace, RealPace(), "")
    jobs = [Job(client, w.resource, w.namespace, w.name, "") for w in wanted]
    client.wait(jobs, timeout_s, "ended" if finished else "started", progress=Lines())
