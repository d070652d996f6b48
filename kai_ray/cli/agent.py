"""`kai agent`: tells the cluster what the GPUs of this node do; runs as a DaemonSet."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kai_ray.cli import connect
from kai_ray.cli.failures import USAGE, Failure
from kai_ray.cli.stopping import stop_signals

if TYPE_CHECKING:
    from kai_ray.agent.agent import AgentConfig

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command("agent")
@click.option("--node", envvar="NODE_NAME", default="", help="Name of this node. [$NODE_NAME]")
@click.option(
    "--period",
    type=click.FloatRange(5, 120),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How often figures are told, if they have changed.",
)
@click.option(
    "--look",
    type=click.FloatRange(1, 120),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How often the driver is asked in between.",
)
@click.option("--proc", type=_FOLDER, default=Path("/proc"), help="Where processes are listed.")
@click.option("--sys", "sysfs", type=_FOLDER, default=Path("/sys"), help="Where devices are.")
@click.option(
    "--device-checkpoint",
    type=click.Path(path_type=Path),
    help="The kubelet's file about devices, where the agent may read it.",
)
@click.option("--once", is_flag=True, help="Print what would be told, and tell nobody.")
@click.option("-v", "--verbose", is_flag=True, help="Log more on standard error.")
@connect.connected
def agent(
    node: str,
    period: float,
    look: float,
    proc: Path,
    sysfs: Path,
    device_checkpoint: Path | None,
    once: bool,
    verbose: bool,
) -> None:
    """Tell the cluster what the GPUs of this node do: use, memory, processes by pod, health.

    It asks the NVIDIA driver (pip install 'kai-ray[agent]') and writes one object, the GPUNodeState
    of this node. Without a driver or a GPU it says so there. `--once` shows what it sees.
    """
    from kai_ray.agent.agent import AgentConfig

    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    config = AgentConfig(
        node or os.uname().nodename,
        period_s=period,
        look_s=min(look, period),
        proc=proc,
        sys=sysfs,
        checkpoint=device_checkpoint,
    )
    if once:
        _show(config)
        return
    if not node:
        raise Failure(
            "which node is this?",
            why="the object that is written has the name of the node",
            next="kai agent --node NAME, or NODE_NAME in the environment",
            code=USAGE,
        )
    _run(config)


def _show(config: AgentConfig) -> None:
    import time

    import msgspec

    from kai_ray.agent.agent import Agent

    one = Agent(config, None)
    if one.look():
        time.sleep(1.0)  # a mean needs a moment
        if one.look():
            one.report()
    click.echo(json.dumps(msgspec.to_builtins(one.status), indent=2))
    one.close()


def _run(config: AgentConfig) -> None:
    from kai_ray.agent.agent import Agent

    stopped = stop_signals()
    connection = connect.open_connection()
    click.echo(f"telling of the GPUs of {config.node} on {connection.port.connection.server}")
    Agent(config, connection.port).run(stopped)
    click.echo("stopped")
