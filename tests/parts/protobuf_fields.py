"""Collects the field numbers of Kubernetes' protobuf messages for the REST face.

    python tests/parts/protobuf_fields.py MODULES > kai_ray/cluster/rest/protobuf/fields.txt

MODULES is a folder that holds the unpacked Go modules `k8s.io/api@VERSION` and
`k8s.io/apimachinery@VERSION` (`go mod download -json` names it). Run it to follow a new release.

One line a message: its name, then fields as `jsonName=NUMBER[*]TYPE[?]`. TYPE: s text, i integer,
b boolean, y bytes, f float, {TYPE} a map from text, else a message's name. `*` repeated; `?` kept
even if it is zero (a pointer in Go, or a field that Go's JSON never omits); a name that starts
with `+` is an inlined message, whose fields stand in its parent.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOTS = {
    "apps.v1": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
    "authentication.v1": "SelfSubjectReview TokenRequest TokenReview",
    "authorization.v1": "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview "
    "SubjectAccessReview",
    "autoscaling.v1": "Scale",
    "batch.v1": "CronJob Job",
    "coordination.v1": "Lease",
    "core.v1": "Binding ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume "
    "PersistentVolumeClaim Pod ReplicationController ResourceQuota Secret Service ServiceAccount",
    "discovery.v1": "EndpointSlice",
    "meta.v1": "DeleteOptions",
    "networking.v1": "Ingress NetworkPolicy",
    "policy.v1": "Eviction PodDisruptionBudget",
    "rbac.v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
    "scheduling.v1": "PriorityClass",
    "storage.v1": "StorageClass",
}
_SCALARS = {
    "string": "s",
    "bool": "b",
    "bytes": "y",
    "double": "f",
    "int32": "i",
    "int64": "i",
    "uint32": "i",
    "uint64": "i",
}
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(
    r"^  (?:(optional|repeated|required) )?(?:map<string, ([\w.]+)>|([\w.]+)) (\w+) = (\d+);",
    re.MULTILINE,
)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_TAG = re.compile(
    r'^\t(?:\w+ )?([\w.*\[\]]+)\s+`json:"([^"]*)".*?protobuf:"\w+,(\d+)', re.MULTILINE
)


class Field(NamedTuple):
    name: str
    number: int
    repeated: bool
    type: str
    kept: bool


class GoField(NamedTuple):
    json_name: str
    inlined: bool
    kept: bool


def package_folder(modules: Path, package: str) -> Path:
    group, version = package.split(".")
    (api,) = modules.glob("api@*")
    (machinery,) = modules.glob("apimachinery@*")
    special = {
        "meta.v1": machinery / "pkg/apis/meta/v1",
        "api.resource": machinery / "pkg/api/resource",
        "pkg.runtime": machinery / "pkg/runtime",
        "util.intstr": machinery / "pkg/util/intstr",
    }
    return special.get(package, api / group / version)


def short(full: str, package: str) -> str:
    """k8s.io.api.core.v1.Pod -> core.v1.Pod; a bare name belongs to the package it stands in."""
    parts = full.strip(".").split(".")
    return f"{package}.{parts[0]}" if len(parts) == 1 else ".".join(parts[-3:])


def go_fields(folder: Path) -> dict[str, dict[int, GoField]]:
    found: dict[str, dict[int, GoField]] = {}
    for file in sorted(folder.glob("*types*.go")):
        for struct, body in _STRUCT.findall(file.read_text()):
            found[struct] = {
                int(number): GoField(
                    tag.split(",")[0],
                    ",inline" in tag or not tag.split(",")[0],
                    go_type.startswith("*") or "omitempty" not in tag,
                )
                for go_type, tag, number in _TAG.findall(body)
            }
    return found


def messages(modules: Path, package: str) -> dict[str, list[Field]]:
    folder = package_folder(modules, package)
    in_go = go_fields(folder)
    found: dict[str, list[Field]] = {}
    for message, body in _MESSAGE.findall((folder / "generated.proto").read_text()):
        fields: list[Field] = []
        for label, map_type, plain, name, number in _FIELD.findall(body):
            go = in_go.get(message, {}).get(int(number), GoField(name, False, True))
            kind = map_type or plain
            type_text = _SCALARS.get(kind) or short(kind, package)
            fields.append(
                Field(
                    f"+{name}" if go.inlined else go.json_name,
                    int(number),
                    label == "repeated",
                    f"{{{type_text}}}" if map_type else type_text,
                    go.kept,
                )
            )
        found[f"{package}.{message}"] = fields
    return found


def main(modules: Path) -> None:
    known: dict[str, list[Field]] = {}
    loaded: set[str] = set()
    waiting = [f"{package}.{name}" for package, names in ROOTS.items() for name in names.split()]
    wanted: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in wanted:
            continue
        wanted.add(name)
        package = name.rpartition(".")[0]
        if package not in loaded:
            loaded.add(package)
            known |= messages(modules, package)
        for field in known[name]:
            inner = field.type.strip("{}")
            if len(inner) > 1:
                waiting.append(inner)
    (api,) = modules.glob("api@*")
    print(f"# Field numbers of the messages of k8s.io/{api.name}; made by protobuf_fields.py")
    for name in sorted(wanted):
        fields = " ".join(
            f"{f.name}={f.number}{'*' if f.repeated else ''}{f.type}{'?' if f.kept else ''}"
            for f in known[name]
        )
        print(f"{name} {fields}".rstrip())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
