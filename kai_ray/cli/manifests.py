"""Reads the manifests that a user names: files, folders, patterns, and `-` for standard input."""

from __future__ import annotations

import glob
import sys
from collections.abc import Sequence
from pathlib import Path

from kai_ray.cli.failures import MISSING, Failure
from kai_ray.podgrouper.manifests import (
    Document,
    ManifestError,
    parse_documents,
    read_documents,
)

SUFFIXES = (".yaml", ".yml", ".json")


def read(names: Sequence[str]) -> list[Document]:
    """Every object of the named files, in order, fit to be submitted."""
    found, faults = documents(names)
    if faults:
        raise Failure("\n".join(faults))
    if not found:
        raise Failure(f"{', '.join(names)}: no object in there")
    for document in found:
        _check(document)
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
            raise Failure(f"{name}: no {', '.join(SUFFIXES)} file in this folder", code=MISSING)
        return found
    if path.exists():
        return [name]
    matched = sorted(f for f in glob.glob(name, recursive=True) if Path(f).is_file())
    if not matched:
        raise Failure(f"{name}: no such file", code=MISSING)
    return matched


def _check(document: Document) -> None:
    """Raises Failure where an object lacks what every object has."""
    obj = document.object
    for field in ("apiVersion", "kind"):
        if not isinstance(obj.get(field), str) or not obj[field]:
            raise Failure(f"{document.file}: an object has no {field}", next=f"add `{field}: …`")
    meta = obj.get("metadata")
    if not isinstance(meta, dict) or not (meta.get("name") or meta.get("generateName")):
        raise Failure(
            f"{document.file}: a {obj['kind']} has no metadata.name",
            next="name it, or give metadata.generateName",
        )
