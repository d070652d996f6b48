"""`kai run`: the process that schedules a cluster, until SIGTERM."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import click

from kai_ray.cli import (
    connect,
    notifying,
    pricing,
    run_admission,
    run_console,
    run_lease,
    run_sharing,
)
from kai_ray.cli.failures import USAGE, Failure
from kai_ray.cli.stopping import stop_signals

if TYPE_CHECKING:
    from kai_ray.cluster.leases import LeaseConfig
    from kai_ray.cluster.port import Port
    from kai_ray.console.server import ConsoleServer
    from kai_ray.manager import Manager, ManagerConfig
    from kai_ray.manager.admission import AdmissionService
    from kai_ray.manager.health import Page


#: What starts and stops with the process.
Part: TypeAlias = "Manager | AdmissionService | ConsoleServer"


@click.command("run")
@click.option(
    "--components",
    metavar="LIST",
    help="What runs here, of podgrouper, scheduler, binder, admission (comma-separated); all but "
    "the last, unless said.",
)
@click.option(
    "--scheduler-name",
    "names",
    metavar="NAME",
    multiple=True,
    help="Pods with this schedulerName are ours; may be repeated.  [default: kai-scheduler]",
)
@click.option("--shard", metavar="VALUE", help='Serve this node pool alone ("" = nodes without).')
@click.option("--period", type=click.FloatRange(min=0), help="Least seconds between two cycles.")
@click.option(
    "--bind-requests",
    type=click.Choice(["never", "always"]),
    default="never",
    show_default=True,
    help="Whether every bind goes by way of a BindRequest.",
)
@click.option(
    "--state", type=click.Path(path_type=Path), metavar="DIR", help="Where history is kept."
)
@click.option(
    "--max-age",
    type=click.FloatRange(min=8),
    default=30.0,
    show_default=True,
    help="No decision on news older than so many seconds.",
)
@run_lease.options
@click.option("--update-crds", is_flag=True, help="Bring our definitions in line first.")
@click.option("--install-crds", is_flag=True, help="Apply our definitions and queues first.")
@click.option(
    "--health",
    metavar="HOST:PORT",
    default="127.0.0.1:8081",
    show_default=True,
    help='Where /healthz, /readyz and /metrics answer; port 0 = any, "" = nowhere.',
)
@run_admission.options
@run_sharing.options
@run_console.option
@notifying.option
@pricing.option
@click.option("-v", "--verbose", is_flag=True, help="Log decisions on standard error.")
@connect.connected
def run(
    components: str | None,
    names: tuple[str, ...],
    shard: str | None,
    period: float | None,
    bind_requests: Literal["never", "always"],
    state: Path | None,
    max_age: float,
    leader_elect: bool,
    lease_name: str,
    lease_namespace: str,
    lease_times: str,
    update_crds: bool,
    install_crds: bool,
    health: str,
    webhook: str | None,
    webhook_hosts: tuple[str, ...],
    webhook_secret: str,
    webhook_certificate: str,
    gpu_runtime_class: str,
    reservation_image: str | None,
    reservation_namespace: str,
    reservation_account: str,
    gpu_cdi: bool,
    console: str | None,
    notify: Path | None,
    price: str | None,
    verbose: bool,
) -> None:
    """Run podgrouper, scheduler, binder and admission against a Kubernetes API server.

    Which one: the kubeconfig, or inside a pod its service account. SIGTERM and Ctrl-C end it with
    exit code 0.
    """
    components, admits = run_admission.split(components, webhook)
    config = configuration(components or None, names, shard, period, bind_requests, state, max_age)
    sharing = (reservation_image, reservation_namespace, reservation_account, gpu_cdi)
    config = run_sharing.shared(config, *sharing)
    config = dataclasses.replace(config, notify=notifying.configured(notify))
    prices = pricing.read(price)
    lease = run_lease.config(lease_name, lease_namespace, lease_times) if leader_elect else None
    health_address = _address("--health", health)
    webhook_address = _address("--webhook", webhook or "0.0.0.0:9443")
    console_address = _address("--console", console or "")
    _log(verbose)
    stopped = stop_signals()
    connection = connect.open_connection()
    if install_crds:
        _install(connection.port, lease)
    elif update_crds:
        from kai_ray.manager.install import install_definitions

        install_definitions(connection.port)
    parts: list[Part] = []
    pages: dict[str, Page] = {}
    manager = None
    if components != "":
        manager = run_lease.manager(connection.port.connection, config, lease)
        parts.append(manager)
        pages["/metrics"] = _metrics(manager)
    if console is not None:
        parts.append(run_console.server(connection, manager, console_address, prices))
    if admits:
        parts.append(
            run_admission.service(
                connection,
                config,
                webhook_address,
                webhook_hosts,
                webhook_secret,
                webhook_certificate,
                gpu_runtime_class,
            )
        )
    names = config.components if components != "" else ()
    words = ", ".join([*names, *([run_admission.COMPONENT] if admits else [])])
    click.echo(f"running {words} on {connection.port.connection.server}")
    _run(parts, stopped, health_address if health else None, pages)
    if not stopped.is_set():
        raise Failure("the loop has ended by itself: see the log")
    click.echo("stopped")


def _metrics(manager: Manager) -> Page:
    from kai_ray.manager.scrape import metrics_page

    return metrics_page(lambda: (manager.composition, manager.runtime))


def _install(port: Port, lease: LeaseConfig | None) -> None:
    from kai_ray.cluster.defaults import install_queues
    from kai_ray.manager.fence import install_fence
    from kai_ray.manager.install import install_definitions

    install_definitions(port)
    install_queues(port)
    if lease is not None:
        install_fence(port, lease.namespace, lease.name)


def _run(
    parts: list[Part],
    stopped: threading.Event,
    health: tuple[str, int] | None,
    pages: dict[str, Page],
) -> None:
    """Until a signal, or until one of the parts has ended."""
    from kai_ray.console.server import ConsoleServer
    from kai_ray.manager.health import HealthServer

    def first(checks: list[Callable[[], str]]) -> str:
        return next((problem for check in checks if (problem := check())), "")

    alive = [part.problem for part in parts]
    ready = [part.unready for part in parts]
    server = None
    if health is not None:
        server = HealthServer(*health, lambda: first(alive), lambda: first(ready), pages)
        server.start()
        address = f"http://{health[0]}:{server.port}"
        click.echo(f"  health  {address}/readyz")
        if pages:
            click.echo(f"  metrics {address}/metrics")
    started: list[Part] = []
    try:
        for part in parts:
            started.append(part)
            part.start()
            if isinstance(part, ConsoleServer):
                click.echo(f"  console {part.url}")
        while not stopped.wait(1.0) and not first(alive):
            pass
    finally:
        for part in reversed(started):
            part.stop()
        if server is not None:
            server.stop()


def configuration(
    components: str | None,
    names: tuple[str, ...],
    shard: str | None,
    period: float | None,
    bind_requests: Literal["never", "always"] = "never",
    state: Path | None = None,
    max_age_s: float = 30.0,
) -> ManagerConfig:
    """What the options describe."""
    from kai_ray.manager import COMPONENTS, ManagerConfig
    from kai_ray.ray import GcsDrainer

    config = ManagerConfig()
    chosen = tuple(part.strip() for part in components.split(",")) if components else COMPONENTS
    encode, settings, control = config.control.encode, config.podgrouper, config.control
    if names:
        encode = dataclasses.replace(encode, scheduler_names=names)
        settings = dataclasses.replace(settings, scheduler_names=names)
    control = dataclasses.replace(
        control, encode=encode, bind_requests=bind_requests, drainer=GcsDrainer()
    )
    if period is not None:
        control = dataclasses.replace(control, period_s=period)
    try:
        return ManagerConfig(control, settings, chosen, shard, max_age_s=max_age_s, state=state)
    except ValueError as error:
        raise Failure(str(error), code=USAGE) from error


def _address(option: str, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if text and not port.isdecimal():
        raise click.UsageError(f"{option} {text!r}: give HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port or 0)


def _log(verbose: bool) -> None:
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname).1s %(name)s: %(message)s",
    )
