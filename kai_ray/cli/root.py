"""The root command: global options, the table of commands, errors as words and exit codes."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import click

from kai_ray.cli import connect, failures
from kai_ray.cli.lazy import Lazy, LazyGroup
from kai_ray.cluster.port import ApiError
from kai_ray.sdk.errors import KaiError

COMMANDS = {
    "up": Lazy("up", "up", "Start a cluster of simulated nodes on this machine"),
    "run": Lazy("run", "run", "Run the scheduler on a cluster until stopped"),
    "demo": Lazy("demo", "demo", "Run real workloads on such a cluster and show what happens"),
    "plan": Lazy("plan", "plan", "Show which gangs a manifest becomes, without a cluster"),
    "submit": Lazy("submit", "submit", "Submit manifests as they are"),
    "get": Lazy("get", "get", "List queues, jobs or nodes"),
    "top": Lazy("top.command", "top", "Watch queues, jobs and nodes live in the terminal"),
    "describe": Lazy("describe", "describe", "Show everything about one queue, job or node"),
    "explain": Lazy("explain", "explain", "Say why a job waits and what would help"),
    "queue": Lazy("queue", "queue", "Create, change, pause and resume queues"),
    "job": Lazy("job", "job", "Suspend, resume and delete jobs"),
    "report": Lazy("report", "report", "Report what jobs and queues had, used and cost"),
    "console": Lazy("console", "console", "Show clusters in a browser"),
    "history": Lazy("history", "history", "Export what the scheduler has written down"),
    "agent": Lazy("agent", "agent", "Tell what the GPUs of this node do; one runs on each node"),
    "crds": Lazy("crds", "crds", "Print the custom resource definitions"),
    "policies": Lazy("policies", "policies", "Print the admission policies"),
    "rights": Lazy("rights", "rights", "Print the rights that `kai run` needs"),
    "dashboards": Lazy("dashboards", "dashboards", "List, print or write Grafana's dashboards"),
    "version": Lazy("version", "version", "Show versions and the cluster in use"),
}


class Root(LazyGroup):
    """Turns refusals of the API and Ctrl-C into a message and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (ApiError, KaiError) as error:
            failures.raise_from(error)
        except KeyboardInterrupt:
            ctx.exit(failures.INTERRUPTED)
        except BrokenPipeError:  # `kai get jobs | head`: the reader has what it wanted
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)


root = Root(
    "kai",
    COMMANDS,
    help="Gang scheduling of Ray and Kubeflow jobs on one fairly shared pool of GPUs.",
    epilog="Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 conflict.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    params=connect.options(),
    no_args_is_help=True,
)


def main() -> None:
    name = Path(sys.argv[0]).name
    try:
        root(prog_name="kubectl kai" if name.startswith("kubectl") else "kai")
    except SystemExit as ending:
        if ending.code == failures.INTERRUPTED:  # a second Ctrl-C must not tear the end apart
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise
