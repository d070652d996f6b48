"""The console of `kai run`: its option, and the server that it describes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kai_ray.cli.failures import USAGE, Failure

if TYPE_CHECKING:
    from kai_ray.cli.connect import Connection
    from kai_ray.console.server import ConsoleServer
    from kai_ray.manager import Manager
    from kai_ray.report.prices import Prices

option = click.option(
    "--console",
    metavar="HOST:PORT",
    help="Answer browsers here; they sign in with tokens of the cluster. Not served unless said.",
)


def server(
    connection: Connection,
    manager: Manager | None,
    address: tuple[str, int],
    prices: Prices | None = None,
) -> ConsoleServer:
    """For the cluster's users. It speaks to the API server by a port of its own."""
    if manager is None:
        raise Failure(
            "--console shows what the scheduler sees, and no scheduler runs here",
            next="give it to a process with the component scheduler",
            code=USAGE,
        )
    from kai_ray.cluster.kube import KubePort
    from kai_ray.console.server import ConsoleServer
    from kai_ray.manager import consoles

    port = KubePort(connection.port.connection, timeout_s=10.0, attempts=2)
    click.get_current_context().call_on_close(port.close)
    name = port.connection.context or "cluster"
    console = consoles.shared(
        name, port, port.connection, lambda: (manager.composition, manager.runtime), prices
    )
    return ConsoleServer(console, *address)
