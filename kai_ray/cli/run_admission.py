"""The admission webhook of `kai run`: its options, and the service that they describe."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from kai_ray.cli.connect import Connection
    from kai_ray.manager import ManagerConfig
    from kai_ray.manager.admission import AdmissionService

COMPONENT = "admission"
_OPTIONS = (
    click.option(
        "--webhook",
        metavar="HOST:PORT",
        help="Answer admission reviews here (default :9443 where the component is named).",
    ),
    click.option(
        "--webhook-host",
        "webhook_hosts",
        metavar="NAME",
        multiple=True,
        help="DNS name or address that its certificate is for; may be repeated.  "
        "[default: 127.0.0.1]",
    ),
    click.option(
        "--webhook-secret",
        metavar="NAME",
        default="kai-ray-webhook",
        show_default=True,
        help="Secret of our namespace that keeps its certificate.",
    ),
    click.option(
        "--webhook-certificate",
        type=click.Choice(["own", "provided"]),
        default="own",
        show_default=True,
        help="Whether we make and rotate it, or only read what cert-manager, say, puts there.",
    ),
    click.option(
        "--gpu-runtime-class",
        metavar="NAME",
        default="nvidia",
        show_default=True,
        help='RuntimeClass of pods that share GPUs, if the cluster has it; "" = none.',
    ),
)


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def split(components: str | None, webhook: str | None) -> tuple[str | None, bool]:
    """The other components (None: all, "": none), and whether admission is among them."""
    if components is None:
        return None, webhook is not None
    parts = [part.strip() for part in components.split(",")]
    rest = [part for part in parts if part != COMPONENT]
    return ",".join(rest), webhook is not None or len(rest) < len(parts)


def service(
    connection: Connection,
    config: ManagerConfig,
    address: tuple[str, int],
    hosts: tuple[str, ...],
    secret: str,
    certificate: str,
    runtime: str,
) -> AdmissionService:
    from kai_ray.admission.certificate_keeper import KeeperConfig
    from kai_ray.manager.admission import AdmissionConfig, AdmissionService

    keeper = KeeperConfig(
        namespace=connection.namespace,
        secret=secret,
        hosts=hosts or ("127.0.0.1",),
        provided=certificate == "provided",
    )
    admission = AdmissionConfig(
        keeper, address[0], address[1], config.control.encode, config.podgrouper, runtime
    )
    return AdmissionService(connection.port, admission)
