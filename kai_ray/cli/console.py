"""`kai console`: pages in a browser for any clusters of the kubeconfig."""

from __future__ import annotations

import logging
import secrets
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kai_ray.cli import connect, pricing
from kai_ray.cli.failures import taken
from kai_ray.cli.stopping import stop_signals
from kai_ray.sdk import clusters

if TYPE_CHECKING:
    from kai_ray.console.app import Console
    from kai_ray.console.cluster import Records
    from kai_ray.report.prices import Prices

#: How long a start waits for the first cluster, so that the first page is not empty.
FIRST_S = 5.0


@click.command("console")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0, the default: any free.")
@click.option(
    "--history",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="The history file of the first cluster's scheduler, for what was.",
)
@pricing.option
@connect.connected
def console(port: int, history: Path | None, price: str | None) -> None:
    """Show clusters in a browser, on loopback, until Ctrl-C.

    With `--context a,b` several beside each other; the first is home, where queues may be changed
    as far as you may, the others are only looked at. With `-n` only the jobs of one namespace, for
    who may see no other. `kai up` serves a console by itself: its address is printed here.
    """
    names = connect.contexts()
    own = _own(names, port)
    if own:
        click.echo(f"the console of `kai up` is at {own}")
        return
    records = _records(history, pricing.read(price))
    logging.basicConfig(level=logging.ERROR)  # how clusters are stands on the pages
    stopped = stop_signals()
    with ExitStack() as ended:
        token = secrets.token_urlsafe(24)
        made = _console(names, token, records, ended)
        from kai_ray.console.server import ConsoleServer

        server = ConsoleServer(made, port=port)
        try:
            server.start()
        except OSError as error:
            raise taken(port, error, "--port") from error
        ended.callback(server.stop)
        _wait(made)
        for cluster in made.clusters:
            health, _ = cluster.health()
            state = health.state if health.ok else f"{health.state}: {health.message}"
            click.echo(f"  {cluster.name}  {state}")
        click.echo(f"console {server.url}#token={token}")
        click.echo("Ctrl-C stops it.")
        stopped.wait()
    click.echo("stopped")


def _own(names: list[str], port: int) -> str:
    """The address of the console that `kai up` serves, where just that cluster is meant."""
    if names or port or connect.given("context") or connect.given("kubeconfig"):
        return ""
    running = clusters.running_cluster()
    choice = clusters.choose(None)
    if running is None or choice.origin != "kai up":
        return ""
    return str(running.get("console") or "")


def _records(history: Path | None, prices: Prices | None) -> Records:
    from kai_ray.console.cluster import Records
    from kai_ray.history.reader import HistoryReader

    return Records(HistoryReader(history) if history is not None else None, prices)


def _console(names: list[str], token: str, records: Records, ended: ExitStack) -> Console:
    from kai_ray.cluster import kubeconfig
    from kai_ray.console.app import LOOPBACK, Console
    from kai_ray.console.clusters import Clusters
    from kai_ray.console.viewers import LocalDoor, Owner
    from kai_ray.console.watched import PATIENCE_S, Watched

    opened = (
        [connect.open_context(name, PATIENCE_S) for name in names]
        if names
        else [connect.open_connection()]
    )
    watched: list[Watched] = []
    for at, connection in enumerate(opened):
        there = connection.port.connection
        name = names[at] if names else there.context or "cluster"
        namespace = connect.given("namespace") or ""
        kept = records if at == 0 else None
        one = Watched(name, there, home=at == 0, namespace=namespace, records=kept)
        ended.callback(one.stop)
        one.start()
        watched.append(one)
    choice = opened[0].choice
    user = kubeconfig.user_of(choice.path or None, opened[0].port.connection.context)
    viewer = Owner(user or "you", watched[0].port, ask=True)
    words = "open the address that `kai console` printed, or give the token that stands in it"
    return Console(
        Clusters([one.cluster for one in watched]), LocalDoor(token, viewer, words), LOOPBACK
    )


def _wait(made: Console) -> None:
    end = time.monotonic() + FIRST_S
    while made.clusters.home.health()[0].state == "starting" and time.monotonic() < end:
        time.sleep(0.05)
