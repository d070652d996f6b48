"""Reading manifests: YAML streams, JSON, lists of objects; every document with its file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import yaml

from .values import Object

_BaseLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLAIN_TEXT = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"}
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$")


class _Loader(_BaseLoader):
    """YAML as Kubernetes tools read it: dates, `10:30` and a lone `=` are text."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, Any]]]] = {
        first: [(tag, form) for tag, form in rules if tag not in _PLAIN_TEXT]
        for first, rules in _BaseLoader.yaml_implicit_resolvers.items()
    }


for _first in "-+0123456789":
    _Loader.yaml_implicit_resolvers.setdefault(_first, []).insert(
        0, ("tag:yaml.org,2002:str", _BASE_60)
    )

#: A file above this size is no manifest.
LARGEST_FILE = 64 * 2**20
_DEEPEST_LIST = 8


class ManifestError(Exception):
    """A file that cannot be read or parsed; `file` names it."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(f"{file}: {problem}")
        self.file = file


@dataclass(frozen=True, slots=True)
class Document:
    """One object, and the file it came from."""

    file: str
    object: Object


def read_documents(path: str | Path) -> list[Document]:
    """The objects of a file; "-" is not special here. Raises ManifestError."""
    file = str(path)
    try:
        if Path(path).stat().st_size > LARGEST_FILE:
            raise ManifestError(file, f"is larger than {LARGEST_FILE >> 20} MiB: split it")
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(file, f"cannot be read: {error}") from None
    return parse_documents(text, file)


def parse_documents(text: str, file: str) -> list[Document]:
    """The objects of a text in YAML or JSON. Raises ManifestError."""
    try:
        parsed = _parse(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = " ".join(str(error).split())[:500]
        raise ManifestError(file, f"is not YAML or JSON: {problem}") from None
    return [Document(file, obj) for part in parsed for obj in _objects(part, 0)]


def _parse(text: str) -> list[Any]:
    if text.lstrip()[:1] == "{":
        try:
            return [json.loads(text)]
        except ValueError:  # several objects, or YAML's flow style
            pass
    return list(yaml.load_all(text, Loader=_Loader))


def _objects(part: Any, depth: int) -> Iterator[Object]:
    if not isinstance(part, dict):
        return
    items = part.get("items")
    kind = part.get("kind")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        for item in items if depth < _DEEPEST_LIST else ():
            yield from _objects(item, depth + 1)
    else:
        yield part
