"""What the operators' own releases bring beside a program: definitions, webhooks, runtimes."""

from __future__ import annotations

from pathlib import Path

import yaml

from kai_ray.cluster.port import Object
from tests.real.control_plane import part

#: libyaml reads KubeRay's four megabytes of definitions ten times as fast, where it is there.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def folder(program: str, what: str) -> Path:
    """Where `what` (crds, webhooks, runtimes) of a program's release is kept: beside it."""
    return part(program).parent / "share" / program / what


def documents(program: str, what: str) -> list[Object]:
    """All objects of the YAML files there, in the order of their names."""
    found: list[Object] = []
    for file in sorted(folder(program, what).glob("*.yaml")):
        with file.open() as text:
            found += [doc for doc in yaml.load_all(text, Loader=LOADER) if doc]
    return [doc for doc in found if doc.get("kind") not in (None, "Kustomization")]
