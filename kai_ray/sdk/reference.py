"""The reference of `kai_ray` from its docstrings: `python -m kai_ray.sdk.reference [FILE]`."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import kai_ray

#: Sections by the module that a name lives in, in reading order.
SECTIONS = {
    "client": "Connecting and submitting",
    "job": "Jobs",
    "looks": "What changes",
    "status": "Where a job stands",
    "explaining": "Why a job waits",
    "forecast": "When a job starts",
    "happenings": "Events",
    "queue": "Queues",
    "workloads": "Helpers for the common kinds",
    "scheduling": "Options, labels and annotations",
    "aio": "For async programs",
    "kfp": "Kubeflow Pipelines",
    "kubeflow": "Kubeflow's own clients",
    "errors": "Errors",
}
HEAD = """# Reference of kai_ray

Made from the docstrings by `make reference`; every example runs in the tests. There, `kai` is a
`Client` of the embedded cluster `cluster`, with the queues of
[examples/queues.yaml](../examples/queues.yaml). [sdk.md](sdk.md) is the guide.
"""


def reference() -> str:
    """The whole page as Markdown."""
    parts = [HEAD]
    for home, title in SECTIONS.items():
        parts.append(f"## {title}\n")
        names = [n for n in kai_ray.__all__ if kai_ray._HOMES[n] == home]
        for name in names:
            found = getattr(kai_ray, name)
            if isinstance(found, ModuleType):
                parts.append(_text(inspect.getdoc(found)))
                parts += [_entry(f"{name}.{n}", f) for n, f in _of_module(found)]
            else:
                parts.append(_entry(name, found))
    return "\n".join(parts).rstrip() + "\n"


def _of_module(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name, found in vars(module).items():
        ours = getattr(found, "__module__", "") == module.__name__
        if (
            ours
            and not name.startswith("_")
            and (inspect.isclass(found) or inspect.isfunction(found))
        ):
            yield name, found


def _entry(name: str, found: Any) -> str:
    parts = [f"### {name}\n", _signed(name.rpartition(".")[2], found)]
    if inspect.isclass(found) and not issubclass(found, BaseException | Enum):
        parts += [
            f"#### {found.__name__}.{inner}\n\n{_signed(inner, member)}"
            for inner, member in vars(found).items()
            if not inner.startswith("_")
            and (inspect.isfunction(member) or isinstance(member, property))
        ]
    return "\n".join(parts)


def _signed(name: str, found: Any) -> str:
    signature = _signature(found)
    shown = f"`{name}{signature}`\n\n" if signature else ""
    return shown + _text(inspect.getdoc(found))


def _signature(found: Any) -> str:
    if isinstance(found, property):
        returned = inspect.signature(found.fget).return_annotation if found.fget else ""
        return f": {_plain(returned)}"
    if inspect.isclass(found) and not is_dataclass(found):
        return ""
    signature = inspect.signature(found)
    words: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        words.append(_parameter(parameter))
    returned = signature.return_annotation
    arrow = "" if inspect.isclass(found) else f" -> {_plain(returned)}"
    return f"({', '.join(words)}){arrow}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    text = f"{stars}{parameter.name}: {_plain(parameter.annotation)}"
    if parameter.default is parameter.empty:
        return text
    made = "<factory>" in repr(parameter.default)
    return f"{text} = {'{}' if made else repr(parameter.default)}"


def _plain(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\bkai_ray\.[\w.]*\.", "", text)


def _text(docstring: str | None) -> str:
    """A docstring as Markdown: its examples in fences."""
    lines: list[str] = []
    inside = False
    for line in (docstring or "").splitlines():
        if line.startswith(">>>") and not inside:
            lines.append("```python")
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    if inside:
        lines.append("```")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    if arguments:
        Path(arguments[0]).write_text(reference())
    else:
        print(reference(), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
