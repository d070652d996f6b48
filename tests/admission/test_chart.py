"""What the chart ships of the code is what the code says now."""

from __future__ import annotations

import importlib.util
import json
import tomllib
from pathlib import Path
from typing import Any

import yaml

from kai_ray.api.crd import crds
from kai_ray.cluster.port import Object
from kai_ray.manager import rights

HELM = Path(__file__).parents[2] / "helm"
CHART = HELM / "kai-ray"


def _generator() -> Any:
    spec = importlib.util.spec_from_file_location("helm_generate", HELM / "generate.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_made_files_are_up_to_date() -> None:
    made = _generator().files()
    stale = [path for path, text in made.items() if (CHART / path).read_text() != text]
    assert not stale, "run `python helm/generate.py`"
    shipped = (path for folder in ("crds", "files") for path in (CHART / folder).rglob("*.*"))
    there = {str(path.relative_to(CHART)) for path in shipped}
    assert there == set(made)


def test_all_definitions_are_shipped() -> None:
    shipped = [yaml.safe_load(path.read_text()) for path in sorted(CHART.glob("crds/*.yaml"))]
    assert sorted(c["metadata"]["name"] for c in shipped) == sorted(
        c["metadata"]["name"] for c in crds()
    )


def test_every_value_is_in_the_schema_and_the_other_way_round() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert _paths(values) == _properties(schema, schema) - {"global"}


def _paths(values: Object, at: str = "") -> set[str]:
    found: set[str] = set()
    for key, value in values.items():
        found.add(f"{at}{key}")
        if (
            isinstance(value, dict)
            and value
            and at + key
            not in ("resources", "priorityClasses.values", "agent.resources", "agent.nodeSelector")
        ):
            found |= _paths(value, f"{at}{key}.")
    return found


def _properties(schema: Object, root: Object, at: str = "") -> set[str]:
    found: set[str] = set()
    for key, sub in (schema.get("properties") or {}).items():
        found |= {f"{at}{key}"} | _properties(sub, root, f"{at}{key}.")
    return found


def test_no_right_is_wider_than_it_says() -> None:
    rules = [*rights.cluster_rules(), *rights.named_rules(), *rights.namespace_rules()]
    for rule in rules:
        assert not {"*"} & {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}, rule
        assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"]), rule
    for rule in rights.cluster_rules():
        assert "secrets" not in rule["resources"]
        assert not any(r.startswith("roles") or "serviceaccounts" in r for r in rule["resources"])


def test_versions_agree() -> None:
    project = tomllib.loads((HELM.parent / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == project["version"]
