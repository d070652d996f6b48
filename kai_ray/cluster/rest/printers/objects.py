"""Everything that is neither a pod, a node nor a controller of pods."""

from __future__ import annotations

from typing import Any

from kai_ray.cluster.port import Object

from .column import (
    AGE,
    NAME,
    Cell,
    Column,
    Printer,
    age,
    columns,
    joined,
    name,
    pairs,
    selector_text,
    since,
)


def _spec(obj: Object) -> Any:
    return obj.get("spec") or {}


def _status(obj: Object) -> Any:
    return obj.get("status") or {}


def _namespace(obj: Object, now: float) -> list[Cell]:
    return [name(obj), _status(obj).get("phase") or "Active", age(obj, now)]


def _event(obj: Object, now: float) -> list[Cell]:
    series, source = obj.get("series") or {}, obj.get("source") or {}
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last = series.get("lastObservedTime") or obj.get("lastTimestamp") or first
    component = source.get("component") or obj.get("reportingComponent") or ""
    instance = source.get("host") or obj.get("reportingInstance") or ""
    return [
        since(last, now),
        obj.get("type") or "",
        obj.get("reason") or "",
        f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}",
        about.get("fieldPath") or "",
        f"{component}, {instance}" if instance else component,
        str(obj.get("message") or obj.get("note") or "").strip(),
        since(first, now),
        series.get("count") or obj.get("count") or 1,
        name(obj),
    ]


def _config_map(obj: Object, now: float) -> list[Cell]:
    return [name(obj), len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), age(obj, now)]


def _secret(obj: Object, now: float) -> list[Cell]:
    return [name(obj), obj.get("type") or "Opaque", len(obj.get("data") or {}), age(obj, now)]


def _service_account(obj: Object, now: float) -> list[Cell]:
    return [name(obj), age(obj, now)]


def _service(obj: Object, now: float) -> list[Cell]:
    spec = _spec(obj)
    kind = spec.get("type") or "ClusterIP"
    external: list[str] = list(spec.get("externalIPs") or ())
    if kind == "ExternalName":
        external.append(spec.get("externalName") or "")
    entries = (_status(obj).get("loadBalancer") or {}).get("ingress") or ()
    external += [entry.get("ip") or entry.get("hostname") or "" for entry in entries]
    waiting = "<pending>" if kind == "LoadBalancer" else "<none>"
    return [
        name(obj),
        kind,
        spec.get("clusterIP") or "<none>",
        ",".join(external) or waiting,
        joined(_service_port(port) for port in spec.get("ports") or ()),
        age(obj, now),
        pairs(spec.get("selector")),
    ]


def _service_port(port: Object) -> str:
    protocol = port.get("protocol") or "TCP"
    if port.get("nodePort"):
        return f"{port.get('port')}:{port['nodePort']}/{protocol}"
    return f"{port.get('port')}/{protocol}"


def _endpoints(obj: Object, now: float) -> list[Cell]:
    found: list[str] = []
    for subset in obj.get("subsets") or ():
        ports: list[Any] = subset.get("ports") or [None]
        for port in ports:
            for address in subset.get("addresses") or ():
                ip = address.get("ip", "")
                found.append(f"{ip}:{port['port']}" if port else ip)
    return [name(obj), joined(found, 3), age(obj, now)]


def _endpoint_slice(obj: Object, now: float) -> list[Cell]:
    ports = [str(port.get("port", "*")) for port in obj.get("ports") or ()]
    addresses = [a for entry in obj.get("endpoints") or () for a in entry.get("addresses") or ()]
    kind = obj.get("addressType") or ""
    return [name(obj), kind, joined(ports, 3), joined(addresses, 3), age(obj, now)]


_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(modes: Any) -> str:
    return ",".join(_MODES.get(mode, str(mode)) for mode in modes or ())


def _pvc(obj: Object, now: float) -> list[Cell]:
    spec, status = _spec(obj), _status(obj)
    bound = bool(spec.get("volumeName"))
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase") or ""
    return [
        name(obj),
        phase,
        spec.get("volumeName") or "",
        (status.get("capacity") or {}).get("storage", "") if bound else "",
        _modes(status.get("accessModes")) if bound else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or "<unset>",
        age(obj, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _pv(obj: Object, now: float) -> list[Cell]:
    spec, status = _spec(obj), _status(obj)
    claim = spec.get("claimRef") or {}
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase") or ""
    return [
        name(obj),
        (spec.get("capacity") or {}).get("storage", ""),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        phase,
        f"{claim.get('namespace', '')}/{claim['name']}" if claim.get("name") else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or "<unset>",
        status.get("reason") or "",
        age(obj, now),
        spec.get("volumeMode") or "Filesystem",
    ]


def _storage_class(obj: Object, now: float) -> list[Cell]:
    default = "storageclass.kubernetes.io/is-default-class"
    marked = (obj["metadata"].get("annotations") or {}).get(default) == "true"
    return [
        name(obj) + (" (default)" if marked else ""),
        obj.get("provisioner") or "",
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


def _priority_class(obj: Object, now: float) -> list[Cell]:
    policy = obj.get("preemptionPolicy") or "PreemptLowerPriority"
    default = bool(obj.get("globalDefault"))
    return [name(obj), obj.get("value") or 0, default, age(obj, now), policy]


def _lease(obj: Object, now: float) -> list[Cell]:
    return [name(obj), _spec(obj).get("holderIdentity") or "", age(obj, now)]


def _pdb(obj: Object, now: float) -> list[Cell]:
    spec = _spec(obj)
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    return [
        name(obj),
        "N/A" if least is None else str(least),
        "N/A" if most is None else str(most),
        _status(obj).get("disruptionsAllowed") or 0,
        age(obj, now),
    ]


def _binding(obj: Object, now: float) -> list[Cell]:
    ref = obj.get("roleRef") or {}
    by_kind: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in obj.get("subjects") or ():
        full = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount":
            full = f"{subject.get('namespace', '')}/{full}"
        by_kind.setdefault(subject.get("kind", ""), []).append(full)
    return [
        name(obj),
        f"{ref.get('kind', '')}/{ref.get('name', '')}",
        age(obj, now),
        ", ".join(by_kind["User"]),
        ", ".join(by_kind["Group"]),
        ", ".join(by_kind["ServiceAccount"]),
    ]


def _resource_quota(obj: Object, now: float) -> list[Cell]:
    status = _status(obj)
    hard: dict[str, Any] = status.get("hard") or _spec(obj).get("hard") or {}
    used: dict[str, Any] = status.get("used") or {}
    limits: list[str] = []
    requests: list[str] = []
    for key in sorted(hard):
        text = f"{key}: {used.get(key, 0)}/{hard[key]}"
        (limits if key.startswith("limits.") else requests).append(text)
    return [name(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


def _network_policy(obj: Object, now: float) -> list[Cell]:
    return [name(obj), selector_text(_spec(obj).get("podSelector")), age(obj, now)]


def _ingress(obj: Object, now: float) -> list[Cell]:
    spec = _spec(obj)
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    entries = (_status(obj).get("loadBalancer") or {}).get("ingress") or ()
    return [
        name(obj),
        spec.get("ingressClassName") or "<none>",
        joined(hosts, 3) if hosts else "*",
        ",".join(e.get("ip") or e.get("hostname") or "" for e in entries),
        "80, 443" if spec.get("tls") else "80",
        age(obj, now),
    ]


def _created(obj: Object, now: float) -> list[Cell]:
    return [name(obj), obj["metadata"].get("creationTimestamp") or "<unknown>"]


NAMESPACE = Printer(columns("Name", "Status", "Age"), _namespace)
EVENT = Printer(
    (
        *columns("Last Seen", "Type", "Reason", "Object"),
        *columns(wide=("Subobject", "Source")),
        Column("Message"),
        *columns(wide=("First Seen", "Count")),
        Column("Name", format="name", wide=True),
    ),
    _event,
)
CONFIG_MAP = Printer(columns("Name", "Data", "Age"), _config_map)
SECRET = Printer(columns("Name", "Type", "Data", "Age"), _secret)
SERVICE_ACCOUNT = Printer(columns("Name", "Age"), _service_account)
SERVICE = Printer(
    columns("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", wide=("Selector",)),
    _service,
)
ENDPOINTS = Printer(columns("Name", "Endpoints", "Age"), _endpoints)
ENDPOINT_SLICE = Printer(
    columns("Name", "AddressType", "Ports", "Endpoints", "Age"), _endpoint_slice
)
PVC = Printer(
    columns(
        "Name",
        "Status",
        "Volume",
        "Capacity",
        "Access Modes",
        "StorageClass",
        "VolumeAttributesClass",
        "Age",
        wide=("VolumeMode",),
    ),
    _pvc,
)
PV = Printer(
    columns(
        "Name",
        "Capacity",
        "Access Modes",
        "Reclaim Policy",
        "Status",
        "Claim",
        "StorageClass",
        "VolumeAttributesClass",
        "Reason",
        "Age",
        wide=("VolumeMode",),
    ),
    _pv,
)
STORAGE_CLASS = Printer(
    columns(
        "Name",
        "Provisioner",
        "ReclaimPolicy",
        "VolumeBindingMode",
        "AllowVolumeExpansion",
        "Age",
    ),
    _storage_class,
)
PRIORITY_CLASS = Printer(
    (
        NAME,
        Column("Value", "integer"),
        Column("Global-Default", "boolean"),
        AGE,
        Column("PreemptionPolicy"),
    ),
    _priority_class,
)
LEASE = Printer(columns("Name", "Holder", "Age"), _lease)
PDB = Printer(
    columns(
        "Name",
        "Min Available",
        "Max Unavailable",
        "Allowed Disruptions",
        "Age",
        numbers=("Allowed Disruptions",),
    ),
    _pdb,
)
BINDING = Printer(
    columns("Name", "Role", "Age", wide=("Users", "Groups", "ServiceAccounts")), _binding
)
RESOURCE_QUOTA = Printer(columns("Name", "Request", "Limit", "Age"), _resource_quota)
NETWORK_POLICY = Printer(columns("Name", "Pod-Selector", "Age"), _network_policy)
INGRESS = Printer(columns("Name", "Class", "Hosts", "Address", "Ports", "Age"), _ingress)
#: Kinds without columns of their own.
CREATED = Printer((NAME, Column("Created At", "date")), _created)
