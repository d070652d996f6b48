"""Which cluster a command talks to, by its options and as sdk/clusters.py looks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kai_ray.sdk import clusters
from kai_ray.sdk.clusters import Choice
from kai_ray.sdk.errors import BadKubeconfig

if TYPE_CHECKING:
    from kai_ray.cluster.kube import KubePort

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Connection:
    """An open port, and the namespace that a command means when it names none."""

    port: KubePort
    namespace: str
    choice: Choice


def open_connection() -> Connection:
    """Connects as the options of the running command say."""
    choice = clusters.choose(_setting("kubeconfig"))
    port = clusters.open_port(choice, _setting("context"))
    click.get_current_context().call_on_close(port.close)
    return Connection(port, _setting("namespace") or port.namespace, choice)


def contexts() -> list[str]:
    """The contexts of `--context a,b`; nothing where one cluster is meant."""
    text = _setting("context") or ""
    if "," not in text:
        return []
    from kai_ray.cluster import kubeconfig

    choice = clusters.choose(_setting("kubeconfig"))
    try:
        if text in kubeconfig.read(choice.path or None)["contexts"]:
            return []  # a single one, whose name has a comma
    except kubeconfig.KubeconfigError as error:
        raise BadKubeconfig(str(error)) from error
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def open_context(name: str, patience_s: float) -> Connection:
    """Connects to one of several, which is asked once and not for long."""
    choice = clusters.choose(_setting("kubeconfig"))
    port = clusters.open_port(choice, name, patience_s=patience_s)
    click.get_current_context().call_on_close(port.close)
    return Connection(port, _setting("namespace") or port.namespace, choice)


def given(name: str) -> str | None:
    """What was said for one of these options: kubeconfig, context or namespace."""
    return _setting(name)


def namespace() -> str:
    """The one that the options name, for commands that ask no cluster."""
    return _setting("namespace") or "default"


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
