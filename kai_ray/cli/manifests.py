"""Reads the manifests that a user names: files, folders and `-` for standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from kai_ray.cli.failures import MISSING, Failure
from kai_ray.cluster.port import Object

SUFFIXES = (".yaml", ".yml", ".json")
#: A file of manifests larger than this is a mistake (a log, an image).
LARGEST_BYTES = 64 * 2**20


class Document(NamedTuple):
    """One object of a file. Lists are taken apart."""

    file: str
    object: Object


def read(names: Sequence[str]) -> list[Document]:
    """Every object of the named files, in order. Raises Failure that names file and line."""
    return [d for name in names for file in files(name) for d in parse(file, _text(file))]


def files(name: str) -> list[str]:
    """The file itself, or the manifests below a folder by path."""
    if name == "-":
        return ["-"]
    path = Path(name)
    if path.is_dir():
        found = sorted(str(p) for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file())
        if not found:
            raise Failure(f"{name}: no {', '.join(SUFFIXES)} file in this folder", code=MISSING)
        return found
    if not path.exists():
        raise Failure(f"{name}: no such file", code=MISSING)
    return [name]


def _text(file: str) -> str:
    try:
        if file == "-":
            return sys.stdin.read()
        if Path(file).stat().st_size > LARGEST_BYTES:
            raise Failure(f"{file}: larger than {LARGEST_BYTES >> 20} MiB: this is no manifest")
        return Path(file).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise Failure(f"{file}: not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise Failure(f"{file}: {error.strerror}") from error


def parse(file: str, text: str) -> list[Document]:
    """The objects of a text. Raises Failure where it is no YAML or an object lacks its kind."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        documents = list(yaml.load_all(text, Loader=loader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Failure(f"{file}: not YAML", why=" ".join(str(error).split())) from error
    found: list[Document] = []
    for number, document in enumerate(documents, 1):
        found += [Document(file, o) for o in _objects(file, number, document)]
    return found


def _objects(file: str, number: int, document: Any) -> Iterator[Object]:
    if document is None:
        return
    where = f"{file}: document {number}"
    if not isinstance(document, dict):
        raise Failure(f"{where} is no object", why=f"it is a {type(document).__name__}")
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            raise Failure(f"{where} has no {field}", next=f"add a line `{field}: …`")
    if document["kind"] == "List" or (
        document["kind"].endswith("List") and isinstance(document.get("items"), list)
    ):
        for item in document.get("items") or []:
            yield from _objects(file, number, item)
        return
    meta = document.get("metadata")
    if not isinstance(meta, dict) or not (meta.get("name") or meta.get("generateName")):
        raise Failure(
            f"{where} ({document['kind']}) has no metadata.name",
            next="name it, or give metadata.generateName",
        )
    yield document
