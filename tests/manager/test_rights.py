"""Every write in the code has a rule, and a rule for writing has a write somewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from kai_ray.cluster import resources as kinds
from kai_ray.manager import rights

ROOT = Path(kinds.__file__).parents[1]
#: What runs in the process. Admission and its certificate have rules of their own place.
PARTS = ("controllers", "podgrouper", "gpu", "ray", "cluster/leases.py")
VERBS = ("create", "update", "patch", "delete")
Right = tuple[str, str, str]  # group, resource[/subresource], verb


def granted() -> set[Right]:
    rules = [
        *rights.cluster_rules(),
        *rights.named_rules(),
        *rights.namespace_rules(),
        *rights.reservation_rules(),
    ]
    found = {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    # The chart makes the lease with a rule that names none, as one to be created has no name yet.
    return found | {(kinds.LEASE.group, kinds.LEASE.plural, "create")}


def written() -> Iterator[tuple[Right, str]]:
    """Writes whose kind stands in the code: `port.patch(kinds.POD, ...)`, or in a `Write`."""
    for part in PARTS:
        path = ROOT / part
        for file in [path] if path.suffix else sorted(path.rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call):
                    found = _right(node)
                    if found is not None:
                        yield found, f"{file.relative_to(ROOT)}:{node.lineno}"


def _right(call: ast.Call) -> Right | None:
    func, args = call.func, list(call.args)
    options = {k.arg: k.value for k in call.keywords}
    if isinstance(func, ast.Name) and func.id == "Write" and len(args) >= 2:
        func, tail = args[0], args[1]
        if len(args) > 2 and isinstance(args[2], ast.Dict):
            pairs = zip(args[2].keys, args[2].values, strict=True)
            options = {k.value: v for k, v in pairs if isinstance(k, ast.Constant)}
        args = list(tail.elts) if isinstance(tail, ast.Tuple) else []
    if not isinstance(func, ast.Attribute) or func.attr not in VERBS or not args:
        return None
    kind = args[0]
    if not isinstance(kind, ast.Attribute) or not isinstance(kind.value, ast.Name):
        return None
    resource = getattr(kinds, kind.attr, None)
    if not isinstance(resource, kinds.Resource):
        return None
    below = options.get("subresource")
    path = resource.plural
    if isinstance(below, ast.Constant) and below.value:
        path += f"/{below.value}"
    return resource.group, path, func.attr


def test_every_write_has_a_rule() -> None:
    rules = granted()
    seen = list(written())
    assert len(seen) > 20
    missing = {where: right for right, where in seen if right not in rules}
    assert not missing


def test_no_rule_is_wider_than_it_says() -> None:
    for group, resource, verb in granted():
        assert "*" not in (group, resource, verb)
    assert not any(r == "secrets" and v in ("list", "watch") for _, r, v in granted())
