"""The lease of `kai run`: its options, and the manager that acts while it holds it."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from kai_ray.cluster.kubeconfig import Connection
    from kai_ray.cluster.leases import LeaseConfig
    from kai_ray.manager import Manager, ManagerConfig

_OPTIONS = (
    click.option("--leader-elect", is_flag=True, help="Act only while holding a lease."),
    click.option("--lease-name", metavar="NAME", default="kai-ray", show_default=True),
    click.option("--lease-namespace", metavar="NAME", default="kai-scheduler", show_default=True),
    click.option(
        "--lease-times",
        metavar="D,R,T",
        default="15,10,2",
        show_default=True,
        help="Seconds a lease lasts, is renewed within, and between tries.",
    ),
)


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def config(name: str, namespace: str, times: str) -> LeaseConfig:
    """What the options say, for a candidate of its own."""
    from kai_ray.cluster.leases import LeaseConfig

    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    try:
        duration_s, renew_s, retry_s = (float(part) for part in times.split(","))
        return LeaseConfig(identity, name, namespace, duration_s, renew_s, retry_s)
    except ValueError as error:
        raise click.UsageError(f"--lease-times {times!r}: {error}") from error


def manager(connection: Connection, config: ManagerConfig, lease: LeaseConfig | None) -> Manager:
    """With ports of its own, which end with the command."""
    from kai_ray.cluster.clock import SteadyClock
    from kai_ray.cluster.kube import KubePort
    from kai_ray.cluster.leases import Election
    from kai_ray.manager import Manager

    clock, election = SteadyClock(), None
    ended = click.get_current_context().call_on_close
    port = KubePort(connection, silence_s=config.max_age_s, lean=True)
    ended(port.close)
    if lease is not None:
        # Renewals must not wait behind the loop's requests, nor longer than they are of use.
        own = KubePort(connection, connections=1, timeout_s=lease.renew_s / 2, attempts=1)
        ended(own.close)
        election = Election(own, lease, clock)
    return Manager(port, clock, config, election)
