"""What the operators' own releases bring beside a program: definitions, webhooks, runtimes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import yaml

from kai_ray.cluster.port import Object

#: libyaml reads KubeRay's four megabytes of definitions ten times as fast, where it is there.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def documents(path: Path) -> list[Object]:
    """All objects of a file, or of the YAML files of a folder in the order of their names."""
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    found: list[Object] = []
    for file in files:
        with file.open() as text:
            found += [doc for doc in yaml.load_all(text, Loader=LOADER) if doc]
    return [doc for doc in found if doc.get("kind") not in (None, "Kustomization")]
