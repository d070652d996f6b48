"""`kai up`: a cluster in one process, until Ctrl-C."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kai_ray.cli import examples, history_file, notifying, pricing, up_console
from kai_ray.cli.failures import CONFLICT, USAGE, Failure, taken
from kai_ray.cli.stopping import stop_signals
from kai_ray.sdk import clusters

if TYPE_CHECKING:
    from kai_ray.cluster.rest import RestServer
    from kai_ray.sim.cluster_file import ClusterConfig
    from kai_ray.sim.embedded import EmbeddedCluster

NAME = "kai-up"


@click.command("up")
@click.option("--nodes", metavar="NxG", help="N nodes of G GPUs, for example 4x8 (the default).")
@click.option("--cluster", "file", metavar="FILE", help="Node pools described in a file.")
@click.option(
    "--slow",
    type=float,
    metavar="FACTOR",
    help="Simulated work takes so many times as long, such as 20: time to look at it.",
)
@click.option("--state", metavar="DIR", help="Keep all objects there; a later start goes on.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0, the default: any free.")
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Where Prometheus finds /metrics; 0, the default: any free.",
)
@click.option(
    "--console-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Where the console answers; 0, the default: any free.",
)
@click.option(
    "--kubeconfig-out",
    metavar="FILE",
    help="Where to write the kubeconfig; the default is ~/.kai/kubeconfig.",
)
@click.option(
    "--name",
    default=NAME,
    show_default=True,
    help="Of the context in the kubeconfig; another one runs beside a cluster that runs already.",
)
@notifying.option
@pricing.option
@click.option("-v", "--verbose", is_flag=True, help="Log decisions on standard error.")
def up(
    nodes: str | None,
    file: str | None,
    slow: float | None,
    state: str | None,
    port: int,
    metrics_port: int,
    console_port: int,
    kubeconfig_out: str | None,
    name: str,
    notify: Path | None,
    price: str | None,
    verbose: bool,
) -> None:
    """Start a cluster of simulated nodes on this machine and run it until Ctrl-C.

    API server, nodes, stand-in operators, podgrouper, scheduler and binder run in this process.
    Ctrl-C and SIGTERM end it with exit code 0.
    """
    config = configuration(nodes, file, slow)
    channels, prices = notifying.configured(notify), pricing.read(price)
    running = clusters.running_cluster()
    if running is not None and not kubeconfig_out and name == NAME:
        raise Failure(
            f"a cluster runs already, as process {running['pid']}",
            why=f"its kubeconfig is {running['kubeconfig']}",
            next="stop it, or give --name to run a second one beside it",
            code=CONFLICT,
        )
    _log(verbose)
    from kai_ray.sim.embedded import EmbeddedCluster

    target = Path(kubeconfig_out) if kubeconfig_out else clusters.home() / "kubeconfig"
    stopped = stop_signals()
    keeping = ExitStack()
    try:
        history = keeping.enter_context(history_file.kept(state))
        cluster = EmbeddedCluster(config, state_dir=state, notify=channels, history=history)
    except OSError as error:
        raise Failure(f"cannot keep the state in {state}: {error}", code=USAGE) from error
    with (
        keeping,
        cluster,
        served(cluster, port, state) as server,
        measured(cluster, metrics_port) as metrics,
        up_console.shown(cluster, server, name, console_port, state, prices) as console,
    ):
        cluster.start()
        default = running is None and not kubeconfig_out
        told: dict[str, Any] = {"history": history, "channels": channels.channels}
        with announced(server, target, console, name, default=default, **told):
            facts = {
                "server": server.url,
                "kubeconfig": str(target),
                "context": "" if default else name,
                "metrics": metrics,
                "console": console,
                "state": state or "",
            }
            _greet(config, facts, target)
            stopped.wait()
    click.echo("stopped" + (f"; `kai up --state {state}` goes on from here" if state else ""))


def configuration(nodes: str | None, file: str | None, slow: float | None = None) -> ClusterConfig:
    """The cluster that the options describe."""
    if nodes and file:
        raise click.UsageError("give --nodes or --cluster, not both")
    from kai_ray.sim.cluster_file import ClusterConfig, ClusterFileError

    try:
        config = ClusterConfig.load(file) if file else ClusterConfig.short(nodes or "4x8")
        return config if slow is None else config.slowed(slow)
    except ClusterFileError as error:
        raise Failure(str(error), code=USAGE) from error


@contextmanager
def served(
    cluster: EmbeddedCluster, port: int = 0, state: str | None = None
) -> Iterator[RestServer]:
    """The API server on loopback. With a state folder it keeps its token, certificate and port."""
    from kai_ray.cluster.rest import RestServer

    kept = Path(state) / "port" if state else None
    if kept and not port:
        port = port_of_last_time(kept)
    server = RestServer(cluster.store, port=port, folder=state)
    try:
        server.start()
    except OSError as error:
        raise taken(port, error, "--port") from error
    if kept:
        kept.write_text(server.url.rpartition(":")[2])
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def measured(cluster: EmbeddedCluster, port: int = 0) -> Iterator[str]:
    """The address, on loopback, of what Prometheus reads; it answers /healthz and /readyz, too."""
    from kai_ray.manager.health import HealthServer
    from kai_ray.manager.scrape import metrics_page

    def unready() -> str:
        return "\n".join(cluster.runtime.disconnected())

    page = metrics_page(lambda: (cluster.composition, cluster.runtime))
    try:
        server = HealthServer("127.0.0.1", port, lambda: "", unready, {"/metrics": page})
    except OSError as error:
        raise taken(port, error, "--metrics-port") from error
    server.start()
    try:
        yield f"http://127.0.0.1:{server.port}/metrics"
    finally:
        server.stop()


def port_of_last_time(kept: Path) -> int:
    """The port that earlier kubeconfigs name, if it is known and free; else any."""
    try:
        port = int(kept.read_text())
        with socket.create_server(("127.0.0.1", port)):
            return port
    except (OSError, ValueError, OverflowError):
        return 0


@contextmanager
def announced(
    server: RestServer,
    target: Path,
    console: str,
    name: str,
    *,
    default: bool,
    history: Path | None = None,
    channels: Iterable[str] = (),
) -> Iterator[None]:
    """Writes the kubeconfig and, for the default cluster, word of this process; takes both back."""
    from kai_ray.cluster import kubeconfig

    config = server.kubeconfig(name)
    if not default and target == clusters.home() / "kubeconfig":
        del config["current-context"]  # that of the cluster beside it
    kubeconfig.write(config, target)
    note = clusters.home() / "up.json"
    if default:
        note.parent.mkdir(parents=True, exist_ok=True)
        said = {"pid": os.getpid(), "server": server.url, "kubeconfig": str(target)}
        note.unlink(missing_ok=True)
        note.touch(mode=0o600)  # the console's address holds its token
        more = {"console": console, "history": str(history.absolute()) if history else ""}
        said |= {title: text for title, text in more.items() if text}
        note.write_text(json.dumps({**said, "channels": sorted(channels)}))
    try:
        yield
    finally:
        if default:
            note.unlink(missing_ok=True)
        kubeconfig.forget(name, target)


def _greet(config: ClusterConfig, facts: dict[str, str], target: Path) -> None:
    pools = ", ".join(
        f"{p.count} x {p.gpus} GPUs" if p.gpus else f"{p.count} without GPUs"
        for p in config.node_pools
    )
    click.echo(f"kai-ray is up: {pools}")
    for title, text in facts.items():
        if text:
            click.echo(f"  {title:<11} {text}")
    click.echo("\nNext, in another terminal:")
    click.echo("  kai get nodes")
    click.echo(f"  kai submit {_examples()}/queues.yaml {_examples()}/workloads")
    click.echo("  kai get jobs -w")
    click.echo(f"  export KUBECONFIG={target}; kubectl get pods -o wide")
    click.echo("\nCtrl-C stops it.")


def _examples() -> str:
    """The examples' folder, as it is typed from here."""
    folder = examples.folder()
    return os.path.relpath(folder) if folder.is_relative_to(Path.cwd()) else str(folder)


def _log(verbose: bool) -> None:
    import logging

    logging.basicConfig(
        level=logging.INFO if verbose else logging.ERROR,
        format="%(asctime)s %(levelname).1s %(name)s: %(message)s",
    )
