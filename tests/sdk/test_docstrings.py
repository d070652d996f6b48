"""Every public name says what it is, with an example that runs on the embedded cluster."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
from collections.abc import Iterator
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest

import kai_ray
from kai_ray.sdk.client import Client
from kai_ray.sim.embedded import EmbeddedCluster

from .served import ROOT

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES = ["kai_ray", *sorted({f"kai_ray.sdk.{home}" for home in kai_ray._HOMES.values()})]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str, cluster: EmbeddedCluster, kai: Client) -> None:
    given = {
        "kai_ray": kai_ray,
        "cluster": cluster,
        "kai": kai,
        "datetime": datetime,
        "UTC": UTC,
    }
    module = importlib.import_module(name)
    found = doctest.DocTestFinder().find(module, globs=given, extraglobs={})
    places = lines_of(module)
    found.sort(key=lambda example: places.get(example.name.removeprefix(f"{name}."), 0))
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    shared = dict(given)
    for example in found:
        example.globs = shared  # later examples know what earlier ones made
        runner.run(example, out=said.append, clear_globs=False)
    assert runner.failures == 0, "".join(said)


def test_the_session_of_the_guide_runs(cluster: EmbeddedCluster) -> None:
    text = (ROOT / "docs" / "sdk.md").read_text()
    sessions = [part for part in text.split("```")[1::2] if ">>>" in part]
    assert len(sessions) == 1
    example = doctest.DocTestParser().get_doctest(
        sessions[0].removeprefix("python\n"), {"cluster": cluster}, "sdk.md", "sdk.md", 0
    )
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS | doctest.IGNORE_EXCEPTION_DETAIL)
    runner.run(example, out=said.append)
    assert runner.failures == 0, "".join(said)


def lines_of(module: ModuleType) -> dict[str, int]:
    """Where each function and class begins, so that examples run in the order they are read."""
    found: dict[str, int] = {}

    def walk(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found[prefix + child.name] = child.lineno
                walk(child, f"{prefix}{child.name}.")

    walk(ast.parse(inspect.getsource(module)), "")
    return found


def public() -> Iterator[tuple[str, Any]]:
    """Public names, and the public members of those that are classes of ours."""
    for name in kai_ray.__all__:
        found = getattr(kai_ray, name)
        yield name, found
        if isinstance(found, ModuleType):
            for inner, value in vars(found).items():
                ours = getattr(value, "__module__", "") == found.__name__
                if ours and not inner.startswith("_") and callable(value):
                    yield from _with_members(f"{name}.{inner}", value)
        else:
            yield from _with_members(name, found)


def _with_members(name: str, found: Any) -> Iterator[tuple[str, Any]]:
    yield name, found
    if not inspect.isclass(found):
        return
    for inner, value in vars(found).items():
        if inner.startswith("_") or not (inspect.isfunction(value) or isinstance(value, property)):
            continue
        yield f"{name}.{inner}", value


@pytest.mark.parametrize(("name", "found"), [pytest.param(n, f, id=n) for n, f in public()])
def test_every_public_name_has_a_docstring_with_an_example(name: str, found: Any) -> None:
    text = inspect.getdoc(found) or ""
    assert text, f"{name} says nothing"
    examples = doctest.DocTestParser().get_examples(text)
    assert examples or name in WITHOUT, f"{name} has no example"


#: Modules whose functions have examples of their own.
WITHOUT = {"kfp", "kubeflow"}
