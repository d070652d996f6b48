"""Whatever a spec holds: the operator says what is wrong on the object, and the others go on."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import ApiError, Object, Resource
from tests.sim.worlds import (
    bare_cluster,
    cluster_spec,
    get,
    job,
    job_spec,
    status_condition,
)

CONTAINERS = {"spec": {"containers": [{"name": "pytorch", "image": "x"}]}}
SPECS: list[tuple[Resource, Object]] = [
    (R.RAY_CLUSTER, cluster_spec(enableInTreeAutoscaling=True)),
    (R.RAY_JOB, job_spec()),
    (R.RAY_SERVICE, {"rayClusterConfig": cluster_spec()}),
    (R.RAY_CRON_JOB, {"schedule": "* * * * *", "jobTemplate": job_spec()}),
    (R.PYTORCH_JOB, {"pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": CONTAINERS}}}),
    (R.MPI_JOB, {"mpiReplicaSpecs": {"Launcher": {"replicas": 1, "template": CONTAINERS}}}),
    (
        R.JOB_SET,
        {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": CONTAINERS}}}]},
    ),
    (R.TRAIN_JOB, {"runtimeRef": {"name": "rt"}, "trainer": {"numNodes": 1}}),
]
JUNK: list[Any] = [None, "", "x", -1, 2**63, 1.5, True, [], {}, [1], {"a": 1}]


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every part of a spec."""
    found = [path] if path else []
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        found += paths(inner, (*path, key))
    return found


def spoiled(spec: Object, path: tuple[Any, ...], junk: Any) -> Object:
    out = copy.deepcopy(spec)
    at: Any = out
    for key in path[:-1]:
        at = at[key]
    if junk is None and isinstance(at, dict):
        del at[path[-1]]
    else:
        at[path[-1]] = junk
    return out


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_a_spoiled_spec_hurts_nobody_else(data: st.DataObject) -> None:
    resource, spec = data.draw(st.sampled_from(SPECS))
    path = data.draw(st.sampled_from(paths(spec)))
    bad = spoiled(spec, path, data.draw(st.sampled_from(JUNK)))
    with bare_cluster(runTime={"meanSeconds": 5}) as c:
        try:
            c.client.create(
                resource, {"metadata": {"name": "bad", "namespace": "default"}, "spec": bad}
            )
        except ApiError:
            return  # refused at the door, by its field
        c.client.create(R.JOB, job("good"))
        c.run_for(90)
        assert status_condition(get(c, R.JOB, "good"), "Complete") == "True"
        assert c.runtime.errors == 0


def test_a_missing_field_is_named_in_an_event() -> None:
    with bare_cluster() as c:
        spec = cluster_spec()
        del spec["headGroupSpec"]["template"]
        try:
            meta = {"name": "bad", "namespace": "default"}
            c.client.create(R.RAY_CLUSTER, {"metadata": meta, "spec": spec})
        except ApiError as error:
            assert "template" in error.message
            return
        c.run_for(5)
        said = [e["message"] for e in c.client.list(R.EVENT, "default").items]
        assert any("'template'" in text for text in said), said


def test_a_template_without_containers_is_named() -> None:
    spec = cluster_spec()
    spec["headGroupSpec"]["template"]["spec"]["containers"] = []
    with bare_cluster() as c:
        c.client.create(
            R.RAY_CLUSTER, {"metadata": {"name": "a", "namespace": "default"}} | {"spec": spec}
        )
        c.run_for(5)
        said = [e["message"] for e in c.client.list(R.EVENT, "default").items]
        assert "spec.headGroupSpec.template.spec.containers: holds no container" in " ".join(said)
