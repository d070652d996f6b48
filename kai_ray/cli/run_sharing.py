"""How `kai run` shares GPUs: its options."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from kai_ray.api import labels

if TYPE_CHECKING:
    from kai_ray.manager import ManagerConfig

_OPTIONS = (
    click.option(
        "--reservation-image",
        metavar="IMAGE",
        envvar="KAI_RESERVATION_IMAGE",
        help="What runs in the pods that keep shared GPUs: an image with this package.",
    ),
    click.option(
        "--reservation-namespace",
        metavar="NAME",
        default=labels.RESERVATION,
        show_default=True,
        help="Where those pods live.",
    ),
    click.option(
        "--reservation-account",
        metavar="NAME",
        default=labels.RESERVATION,
        show_default=True,
        help="Their service account.",
    ),
    click.option("--gpu-cdi", is_flag=True, help="Name GPUs to containers as CDI does."),
)


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def shared(
    config: ManagerConfig, image: str | None, namespace: str, account: str, cdi: bool
) -> ManagerConfig:
    """The configuration with what the options say."""
    control = config.control
    making = dataclasses.replace(control.reservations, service_account=account, cdi=cdi)
    if image:
        making = dataclasses.replace(making, image=image)
    encode = dataclasses.replace(control.encode, reservation_namespace=namespace)
    control = dataclasses.replace(control, encode=encode, reservations=making)
    return dataclasses.replace(config, control=control)
