"""Reads the manifests that a user names: files, folders, patterns, and `-` for standard input."""

from __future__ import annotations

import glob
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kai_ray.podgrouper.manifests import (
    Document,
    ManifestError,
    parse_documents,
    read_documents,
)
from kai_ray.sdk.errors import InvalidManifest, NotFound

SUFFIXES = (".yaml", ".yml", ".json")


def read(names: Sequence[str]) -> list[Document]:
    """Every object of the named files, in order, fit to be submitted."""
    found, faults = documents(names)
    if faults:
        raise InvalidManifest("\n".join(faults))
    if not found:
        raise InvalidManifest(f"{', '.join(names)}: no object in there")
    for document in found:
        check(document.object, document.file)
    return found


def documents(names: Sequence[str]) -> tuple[list[Document], list[str]]:
    """Every object of the files that can be parsed, and a line for each file that cannot."""
    found: list[Document] = []
    faults: list[str] = []
    for name in names:
        for file in files(name):
            try:
                if file == "-":
                    found += parse_documents(sys.stdin.read(), "-")
                else:
                    found += read_documents(file)
            except (ManifestError, UnicodeDecodeError) as error:
                faults.append(str(error) if isinstance(error, ManifestError) else f"-: {error}")
    return found, faults


def files(name: str) -> list[str]:
    """The file itself, the manifests below a folder by path, or what a pattern matches."""
    if name == "-":
        return ["-"]
    path = Path(name)
    if path.is_dir():
        found = sorted(str(p) for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file())
        if not found:
            raise NotFound(f"{name}: no {', '.join(SUFFIXES)} file in this folder")
        return found
    if path.exists():
        return [name]
    matched = sorted(f for f in glob.glob(name, recursive=True) if Path(f).is_file())
    if not matched:
        raise NotFound(f"{name}: no such file")
    return matched


def check(obj: Any, where: str = "") -> None:
    """Raises InvalidManifest where an object lacks what every object has."""
    at = f"{where}: " if where else ""
    if not isinstance(obj, dict):
        raise InvalidManifest(f"{at}a manifest is {type(obj).__name__}, not a map of fields")
    for field in ("apiVersion", "kind"):
        if not isinstance(obj.get(field), str) or not obj[field]:
            raise InvalidManifest(f"{at}an object has no {field}", command=f"add `{field}: …`")
    meta = obj.get("metadata")
    if not isinstance(meta, dict) or not (meta.get("name") or meta.get("generateName")):
        raise InvalidManifest(
            f"{at}a {obj['kind']} has no metadata.name",
            command="name it, or give metadata.generateName",
        )
