"""Objects that cannot be meant: the refusal names the field."""

from __future__ import annotations

from typing import Any

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.port import ApiError, Object, Port, Resource
from tests.contract.objects import config, pod

META = "metadata"


def _with(base: Object, path: str, value: Any) -> Object:
    """A copy with the value at a dotted path; integers are places in lists."""
    parts = path.split(".")
    head: Any = int(parts[0]) if parts[0].isdigit() else parts[0]
    rest = ".".join(parts[1:])
    if isinstance(base, list):
        copy = list(base)
        copy[head] = _with(copy[head], rest, value) if rest else value
        return copy  # pyright: ignore
    inner = base.get(head, {})
    return {**base, head: _with(inner, rest, value) if rest else value}


BAD_NAMES = ["", "Upper", "under_score", "-dash", "dash-", "a..b", "x" * 254, "a/b", "ä"]
BAD_POD_FIELDS: list[tuple[str, Any, str]] = [
    ("spec.containers", [], "spec.containers"),
    ("spec.containers.0.name", "Main", "spec.containers[0].name"),
    ("spec.containers.0.image", "", "spec.containers[0].image"),
    ("spec.containers.0.resources", {"requests": {"cpu": "lots"}}, "requests[cpu]"),
    ("spec.containers.0.resources", {"requests": {"cpu": "-1"}}, "requests[cpu]"),
    (
        "spec.containers.0.resources",
        {"limits": {"nvidia.com/gpu": "0.5"}},
        "limits[nvidia.com/gpu]",
    ),
    (
        "spec.containers.0.resources",
        {"requests": {"cpu": 2}, "limits": {"cpu": 1}},
        "resources.requests",
    ),
    ("spec.containers.0.resources", {"limits": {"not a name": 1}}, "limits[not a name]"),
    ("spec.containers.0.env", [{"name": "A", "value": 1}], "env[0].value"),
    ("spec.containers.0.ports", [{"containerPort": 99999}], "ports[0].containerPort"),
    ("spec.containers.0.volumeMounts", [{"name": "no", "mountPath": "/x"}], "volumeMounts[0].name"),
    ("spec.containers.0.command", ["sleep", 5], "command"),
    ("spec.restartPolicy", "Sometimes", "spec.restartPolicy"),
    ("spec.nodeSelector", {"a": "not ok!"}, "spec.nodeSelector"),
    ("spec.tolerations", [{"key": "a", "effect": "Never"}], "tolerations[0].effect"),
    ("spec.tolerations", [{"operator": "Equal"}], "tolerations[0].operator"),
    (
        "spec.topologySpreadConstraints",
        [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}],
        "maxSkew",
    ),
    (
        "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        [{"labelSelector": {}}],
        "topologyKey",
    ),
    (
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]},
        "values",
    ),
    ("spec.volumes", [{"name": "a"}, {"name": "a"}], "volumes[1].name"),
    ("metadata.labels", {"a": "x" * 64}, "metadata.labels"),
    ("metadata.labels", {"a b": "x"}, "metadata.labels"),
    ("metadata.labels", {"a": 1}, "metadata.labels"),
    ("metadata.annotations", {"a": "x" * (256 * 1024 + 1)}, "metadata.annotations"),
    ("metadata.finalizers", [""], "metadata.finalizers"),
]


def _in_default(name: str, **fields: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, **fields}


def _queue(**gpu: float) -> Object:
    return {"metadata": {"name": "q"}, "spec": {"resources": {"gpu": gpu}}}


def _refusal(port: Port, resource: Resource, obj: Object) -> ApiError:
    with pytest.raises(ApiError) as refused:
        port.create(resource, obj)
    assert refused.value.code in (400, 422), refused.value
    return refused.value


def _check_named(refused: ApiError, resource: Resource, named: str) -> None:
    """The field is among the causes; a server that cannot even decode the object names its kind."""
    if refused.code == 400:
        assert resource.kind in refused.message
        return
    causes = refused.details.get("causes", ())
    assert any(named in c["field"] + c["message"] for c in causes), refused


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda n: n[:10] or "empty")
def test_a_name_keeps_the_rules_of_dns(port: Port, ns: str, name: str) -> None:
    refused = _refusal(port, r.CONFIG_MAP, config(ns, name))
    assert "name" in refused.message


@pytest.mark.parametrize(
    ("path", "value", "named"), BAD_POD_FIELDS, ids=[f"{p}-{n}" for p, _, n in BAD_POD_FIELDS]
)
def test_a_malformed_pod_is_refused_by_field(
    port: Port, ns: str, path: str, value: Any, named: str
) -> None:
    _check_named(_refusal(port, r.POD, _with(pod(ns, "p"), path, value)), r.POD, named)


def test_a_template_is_checked_like_a_pod(port: Port, ns: str) -> None:
    job = {
        "metadata": {"name": "j", "namespace": ns},
        "spec": {"template": {"spec": {"containers": [{"name": "a"}], "restartPolicy": "Never"}}},
    }
    refused = _refusal(port, r.JOB, job)
    assert "spec.template.spec.containers[0].image" in refused.message


OTHER_KINDS: list[tuple[Resource, Object, str]] = [
    (r.PRIORITY_CLASS, {"metadata": {"name": "p"}, "value": 2_000_000_000}, "value"),
    (r.NODE, {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "a"}]}}, "effect"),
    (r.NODE, {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "-1"}}}, "cpu"),
    (r.NAMESPACE, {"metadata": {"name": "a.b"}}, "metadata.name"),
    (r.PVC, _in_default("c", spec={}), "accessModes"),
    (r.SECRET, _in_default("s", data={"a": "?"}), "data[a]"),
    (r.CONFIG_MAP, _in_default("m", data={"a b": "x"}), "data[a b]"),
    (r.QUEUE, {"metadata": {"name": "q"}}, "spec"),
    (r.QUEUE, _queue(quota=-2), "spec.resources.gpu.quota"),
    (r.QUEUE, _queue(quota=-0.5), "spec.resources.gpu.quota"),
    (r.QUEUE, _queue(quota=2**63), "spec.resources.gpu.quota"),
    (r.QUEUE, _queue(quota=5, limit=3), "spec.resources.gpu"),
    (
        r.QUEUE,
        {"metadata": {"name": "q"}, "spec": {"parentQueue": "q", "resources": {}}},
        "spec.parentQueue",
    ),
]


@pytest.mark.parametrize(
    ("resource", "obj", "named"),
    OTHER_KINDS,
    ids=[f"{resource.kind}-{named}" for resource, _, named in OTHER_KINDS],
)
def test_other_kinds_are_refused_by_field(
    port: Port, resource: Resource, obj: Object, named: str
) -> None:
    _check_named(_refusal(port, resource, obj), resource, named)


def test_a_million_subgroups_are_refused_before_they_are_looked_at(port: Port, ns: str) -> None:
    groups = [{"name": f"g{i}"} for i in range(20_000)]
    refused = _refusal(
        port,
        r.POD_GROUP,
        {"metadata": {"name": "g", "namespace": ns}, "spec": {"subGroups": groups}},
    )
    assert "subGroups" in refused.message
    assert len(refused.message) < 1000


def test_an_object_has_a_largest_size(port: Port, ns: str) -> None:
    with pytest.raises(ApiError) as refused:
        port.create(r.CONFIG_MAP, config(ns, "big", key="x" * 2_000_000))
    assert refused.value.code in (413, 422)


def test_the_spec_of_a_pod_is_final(port: Port, ns: str) -> None:
    port.create(r.POD, pod(ns, "p"))
    with pytest.raises(ApiError, match="may not change"):
        port.patch(r.POD, "p", {"spec": {"nodeSelector": {"a": "b"}}}, ns)
    image = {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}
    port.patch(r.POD, "p", image, ns, patch_type="strategic")


def test_an_unknown_priority_class_is_refused(port: Port, ns: str) -> None:
    with pytest.raises(ApiError, match="no PriorityClass with name none"):
        port.create(r.POD, pod(ns, "p", priorityClassName="none"))
    made = port.create(r.POD, pod(ns, "q", priorityClassName="train"))
    assert made["spec"]["priority"] == 50
