"""How lists and maps of each kind merge: the knowledge behind strategic-merge patch and apply.

Unknown parts merge as Kubernetes does without a schema: objects by field, lists as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from kai_ray.cluster import resources as r

from .kinds import Served
from .schema import Schema


@dataclass(frozen=True, slots=True)
class Shape:
    """One node. `atomic`: apply owns it as a whole. `keys` identify items of a list map."""

    fields: dict[str, Shape] = field(default_factory=dict["str", "Shape"])
    any_field: Shape | None = None
    items: Shape | None = None
    list_type: Literal["atomic", "set", "map"] = "atomic"
    keys: tuple[str, ...] = ()
    atomic: bool = False
    #: Values that identify an item where it leaves a key out, such as a port's protocol.
    key_defaults: tuple[tuple[str, Any], ...] = ()

    def child(self, name: str) -> Shape:
        return self.fields.get(name) or self.any_field or LEAF

    @property
    def item(self) -> Shape:
        return self.items or LEAF

    @property
    def merge_key(self) -> str:
        """The one key by which a strategic-merge patch tells items apart."""
        return self.keys[0] if self.keys else ""

    def identity(self, item: Any) -> tuple[Any, ...] | None:
        """The keys of a list map's item; None if it has none of them."""
        if not isinstance(item, dict):
            return None
        defaults = dict(self.key_defaults)
        found = tuple(_plain(item.get(k, defaults.get(k))) for k in self.keys)
        return found if any(v is not None for v in found) else None


def _plain(value: Any) -> Any:
    """Something that can be a key, also where the item holds nonsense."""
    return value if value is None or isinstance(value, str | int | float) else repr(value)


LEAF = Shape()
_ATOMIC = Shape(atomic=True)
_SET = Shape(list_type="set")


def _by(
    *keys: str, items: Shape | None = None, defaults: tuple[tuple[str, Any], ...] = ()
) -> Shape:
    return Shape(list_type="map", keys=keys, items=items, key_defaults=defaults)


def _of(**fields: Shape) -> Shape:
    return Shape(fields=fields)


_TCP = (("protocol", "TCP"),)
META = _of(ownerReferences=_by("uid", items=_ATOMIC), finalizers=_SET, managedFields=_ATOMIC)
_CONTAINER = _of(
    env=_by("name", items=_of(valueFrom=_of(fieldRef=_ATOMIC, configMapKeyRef=_ATOMIC,
                                            secretKeyRef=_ATOMIC, resourceFieldRef=_ATOMIC))),
    ports=_by("containerPort", "protocol", defaults=_TCP),
    volumeMounts=_by("mountPath"),
    volumeDevices=_by("devicePath"),
    resources=_of(claims=_by("name")),
)  # fmt: skip
_CONTAINERS = _by("name", items=_CONTAINER)
_POD_SPEC = _of(
    containers=_CONTAINERS,
    initContainers=_CONTAINERS,
    ephemeralContainers=_CONTAINERS,
    volumes=_by("name"),
    imagePullSecrets=_by("name"),
    hostAliases=_by("ip"),
    topologySpreadConstraints=_by(
        "topologyKey", "whenUnsatisfiable", items=_of(labelSelector=_ATOMIC)
    ),
    schedulingGates=_by("name"),
    resourceClaims=_by("name"),
    resources=_of(claims=_by("name")),
    nodeSelector=_ATOMIC,
    affinity=_of(
        nodeAffinity=_of(requiredDuringSchedulingIgnoredDuringExecution=_ATOMIC),
    ),
)
_CONDITIONS = _of(conditions=_by("type"))
_TEMPLATE = _of(metadata=META, spec=_POD_SPEC)
_WORKLOAD = _of(metadata=META, spec=_of(template=_TEMPLATE, selector=_ATOMIC), status=_CONDITIONS)
_PLAIN = _of(metadata=META, status=_CONDITIONS)
_KINDS: dict[r.Resource, Shape] = {
    r.POD: _of(
        metadata=META,
        spec=_POD_SPEC,
        status=_of(conditions=_by("type"), podIPs=_by("ip"), hostIPs=_by("ip"),
                   resourceClaimStatuses=_by("name"), resources=_of(claims=_by("name"))),
    ),
    r.NODE: _of(
        metadata=META,
        spec=_of(podCIDRs=_SET),
        status=_of(conditions=_by("type"), addresses=_by("type")),
    ),
    r.SERVICE: _of(
        metadata=META,
        spec=_of(ports=_by("port", "protocol", defaults=_TCP), selector=_ATOMIC),
        status=_CONDITIONS,
    ),
    r.SERVICE_ACCOUNT: _of(metadata=META, secrets=_by("name")),
    r.DEPLOYMENT: _WORKLOAD,
    r.REPLICA_SET: _WORKLOAD,
    r.STATEFUL_SET: _WORKLOAD,
    r.DAEMON_SET: _WORKLOAD,
    r.REPLICATION_CONTROLLER: _WORKLOAD,
    r.JOB: _WORKLOAD,
    r.CRON_JOB: _of(
        metadata=META,
        spec=_of(jobTemplate=_of(metadata=META, spec=_of(template=_TEMPLATE, selector=_ATOMIC))),
    ),
    r.PDB: _of(metadata=META, spec=_of(selector=_ATOMIC), status=_CONDITIONS),
    r.RESOURCE_CLAIM: _of(metadata=META, status=_of(reservedFor=_by("uid"))),
    r.RESOURCE_CLAIM_TEMPLATE: _of(metadata=META, spec=_of(metadata=META)),
}  # fmt: skip


def shape_of(served: Served) -> Shape:
    """The shape of a kind: known for built-in ones, from the schema for custom ones."""
    if served.schema is None:
        return _KINDS.get(served.resource, _PLAIN)
    return _of_schema(served.schema)


@lru_cache(maxsize=512)
def _of_schema(schema: Schema) -> Shape:
    fields = {name: _of_schema(sub) for name, sub in schema.properties.items()}
    if schema.root:
        fields["metadata"] = META
    list_type: Any = schema.list_type or "atomic"
    return Shape(
        fields=fields,
        any_field=_of_schema(schema.additional) if schema.additional else None,
        items=_of_schema(schema.items) if schema.items else None,
        list_type=list_type,
        keys=tuple(schema.list_keys),
        atomic=schema.map_type == "atomic",
        key_defaults=_key_defaults(schema),
    )


def _key_defaults(schema: Schema) -> tuple[tuple[str, Any], ...]:
    if schema.items is None:
        return ()
    found = (
        (k, schema.items.properties[k]) for k in schema.list_keys if k in schema.items.properties
    )
    return tuple((k, sub.default) for k, sub in found if sub.has_default)
