"""Which cluster a command talks to.

The kubeconfig is looked for in this order: `--kubeconfig`, `$KAI_KUBECONFIG`, `$KUBECONFIG`, the
cluster that `kai up` runs on this machine, `~/.kube/config`, the pod's own service account.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kai_ray.cli.failures import Failure

if TYPE_CHECKING:
    from kai_ray.cluster.kube import KubePort

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Choice:
    """A kubeconfig and how it was found. An empty `path` means: by kubectl's own rules."""

    path: str
    origin: str


@dataclass(frozen=True)
class Connection:
    """An open port, and the namespace that a command means when it names none."""

    port: KubePort
    namespace: str
    choice: Choice


def home() -> Path:
    """Where `kai up` leaves word of itself: `$KAI_HOME`, else `~/.kai`."""
    return Path(os.environ.get("KAI_HOME") or Path.home() / ".kai")


def running_cluster() -> dict[str, Any] | None:
    """What the running `kai up` wrote about itself, or None if none runs."""
    try:
        note = json.loads((home() / "up.json").read_text())
        os.kill(int(note["pid"]), 0)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return note if Path(str(note.get("kubeconfig", ""))).is_file() else None


def choose(explicit: str | None) -> Choice:
    """The kubeconfig to use; raises Failure when there is none."""
    if explicit:
        if not Path(explicit).is_file():
            raise Failure(f"there is no kubeconfig at {explicit}", code=2)
        return Choice(explicit, "--kubeconfig")
    own = os.environ.get("KAI_KUBECONFIG")
    if own:
        return Choice(own, "$KAI_KUBECONFIG")
    if os.environ.get("KUBECONFIG"):
        return Choice("", "$KUBECONFIG")  # may name several files, merged as kubectl does
    note = running_cluster()
    if note is not None:
        return Choice(str(note["kubeconfig"]), "kai up")
    default = Path.home() / ".kube" / "config"
    if default.is_file():
        return Choice("", "~/.kube/config")
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return Choice("", "the pod's service account")
    raise Failure(
        "no cluster to talk to",
        why="no --kubeconfig, $KAI_KUBECONFIG, $KUBECONFIG, running `kai up` or ~/.kube/config",
        next="kai up",
    )


def open_connection() -> Connection:
    """Connects as the options of the running command say."""
    choice = choose(_setting("kubeconfig"))
    from kai_ray.cluster import kube, kubeconfig

    try:
        port = kube.connect(choice.path or None, _setting("context"))
    except kubeconfig.KubeconfigError as error:
        raise Failure(str(error), code=2) from error
    click.get_current_context().call_on_close(port.close)
    return Connection(port, _setting("namespace") or port.namespace, choice)


def _setting(name: str) -> str | None:
    return click.get_current_context().meta.get(f"kai.{name}")


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Keeps the value where every command finds it; an inner command overrides an outer one."""
    if value is not None:
        ctx.meta[f"kai.{param.name}"] = value


def _kept(*names: str, **settings: Any) -> click.Option:
    return click.Option([*names], expose_value=False, callback=_remember, **settings)


def options() -> list[click.Parameter]:
    """Options that say where a command works; accepted before and after the command's name."""
    return [
        _kept("--kubeconfig", metavar="FILE", help="Which cluster (see `kai version`)."),
        _kept("--context", metavar="NAME", help="Which context of the kubeconfig."),
        _kept("-n", "--namespace", metavar="NAME", help="Which namespace."),
    ]


def connected(command: F) -> F:
    """Adds those options to a command."""
    for option in reversed(options()):
        # click collects a command's options in this attribute until the command is made
        params: list[click.Parameter] = command.__dict__.setdefault("__click_params__", [])
        params.append(option)
    return command
