"""The types of pods and of pod templates on the wire, as far as defaults, rules or merges look."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from kai_ray.api import core

Texts = dict[str, str]
Amounts = dict[str, str | int | float]


class Meta(core.ObjectMeta, rename="camel", gc=False):
    managed_fields: list[dict[str, Any]] | None = None


class EnvVar(Struct, rename="camel", gc=False):
    name: str = ""
    value: str | None = None
    value_from: dict[str, Any] | None = None


class Mount(Struct, rename="camel", gc=False):
    name: str = ""
    mount_path: str = ""


class Port(Struct, rename="camel", gc=False):
    name: str = ""
    container_port: int = 0
    host_port: int = 0
    protocol: str = ""


class Named(Struct, rename="camel", gc=False):
    name: str = ""


class Resources(Struct, rename="camel", gc=False):
    requests: Amounts | None = None
    limits: Amounts | None = None
    claims: list[Named] | None = None


class Container(Struct, rename="camel", gc=False):
    name: str = ""
    image: str = ""
    image_pull_policy: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[EnvVar] | None = None
    ports: list[Port] | None = None
    resources: Resources | None = None
    volume_mounts: list[Mount] | None = None
    restart_policy: str | None = None
    working_dir: str | None = None


class HostAlias(Struct, rename="camel", gc=False):
    ip: str = ""


class PodSpec(Struct, rename="camel", gc=False):
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    ephemeral_containers: list[Named] | None = None
    volumes: list[core.Volume] | None = None
    node_name: str = ""
    scheduler_name: str = ""
    node_selector: Texts | None = None
    affinity: core.Affinity | None = None
    tolerations: list[core.Toleration] | None = None
    topology_spread_constraints: list[core.TopologySpreadConstraint] | None = None
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    restart_policy: str = ""
    service_account_name: str = ""
    runtime_class_name: str | None = None
    overhead: Amounts | None = None
    resources: Resources | None = None
    resource_claims: list[core.PodResourceClaim] | None = None
    scheduling_gates: list[Named] | None = None
    image_pull_secrets: list[Named] | None = None
    host_aliases: list[HostAlias] | None = None
    host_network: bool | None = None
    security_context: dict[str, Any] | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None


class Template(Struct, rename="camel", gc=False):
    metadata: Meta | None = None
    spec: PodSpec | None = None
