"""Two processes of ours on a real API server: one is stopped, replaced, woken, and said goodbye."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable
from typing import Any

import pytest

from kai_ray.api import labels as names
from kai_ray.cluster import resources as r
from kai_ray.cluster.port import ApiError, NotFound, Write
from kai_ray.manager.fence import install_fence
from tests.real.api.work import bare_pod, bound, job, until
from tests.real.control_plane import ControlPlane
from tests.real.programs import Program

TIMES = "3,2,0.5"


def spec(plane: ControlPlane, namespace: str, lease: str = "kai-ray") -> dict[str, Any]:
    try:
        return plane.port.get(r.LEASE, lease, namespace)["spec"]
    except NotFound:
        return {}


def test_a_stopped_leader_is_replaced_and_once_woken_stands_back(
    ours: ControlPlane,
    real_namespace: str,
    gpu_nodes: Callable[..., list[str]],
    kai_run: Callable[..., Program],
) -> None:
    gpu_nodes(2, prefix="lead")
    port, space = ours.port, real_namespace

    def runs(name: str, pods: int = 2) -> None:
        port.create(r.JOB, job(name, space, pods))
        until(lambda: bound(port, space, name) == pods, what=f"{name} is bound")

    def holder() -> str:
        return spec(ours, space).get("holderIdentity") or ""

    args = ["--leader-elect", "--lease-namespace", space, "--lease-times", TIMES]
    first = kai_run(*args, name="first")
    until(holder)
    second = kai_run(*args, name="second")
    until(lambda: "standing by" in second.tail(200), what="the second stands by")
    old = holder()
    runs("one")

    first.signal(signal.SIGSTOP)
    runs("two")  # by the second, after the lease has run out
    assert holder() != old
    transitions = spec(ours, space)["leaseTransitions"]

    first.signal(signal.SIGCONT)
    until(lambda: "lost the lease" in first.tail(200), what="the first knows")
    runs("three")
    assert spec(ours, space)["leaseTransitions"] == transitions

    second.stop()  # a goodbye: nobody waits for the lease to run out
    assert second.process.returncode == 0
    took = until(lambda: spec(ours, space)["leaseTransitions"] > transitions, what="handed over")
    assert took < 2.0
    runs("four")
    terms = {
        pod["metadata"]["annotations"][names.TERM].rpartition("/")[2]
        for pod in port.list(r.POD, space).items
    }
    assert len(terms) == 3


@pytest.fixture
def lease(ours: ControlPlane, real_namespace: str) -> str:
    """A lease in its fifth term, with the policy that guards it."""
    port, space = ours.port, real_namespace
    install_fence(port, space, "kai-ray")
    held = {"holderIdentity": "now", "leaseDurationSeconds": 15, "leaseTransitions": 5}
    port.create(r.LEASE, {"metadata": {"name": "kai-ray", "namespace": space}, "spec": held})
    return f"{space}/kai-ray"


def test_the_server_refuses_what_was_decided_in_another_term(
    ours: ControlPlane, real_namespace: str, gpu_nodes: Callable[..., list[str]], lease: str
) -> None:
    (node,) = gpu_nodes(1, prefix="fence")
    port, space = ours.port, real_namespace
    count = itertools.count()

    def outcome(term: str) -> str:
        """What the server says to a binding of that term."""
        name = f"p-{next(count)}"
        port.create(r.POD, bare_pod(name, space))
        try:
            port.bind(space, name, node, annotations={names.TERM: term} if term else None)
        except ApiError as error:
            return error.message
        return ""

    until(lambda: "is over" in outcome(f"{lease}/4"), what="the policy is in force")
    assert outcome(f"{lease}/5") == ""
    assert outcome("") == ""  # a process that needs no lease
    assert outcome("other/lease/1") == ""  # another's business


def test_of_two_that_bind_one_pod_exactly_one_wins(
    ours: ControlPlane, real_namespace: str, gpu_nodes: Callable[..., list[str]]
) -> None:
    """The binding itself is a compare-and-set, also against a namesake made since."""
    nodes = gpu_nodes(2, prefix="race")
    port, space = ours.port, real_namespace
    for i in range(20):
        uid = port.create(r.POD, bare_pod(f"p-{i}", space))["metadata"]["uid"]
        answers = port.batch(
            [Write(port.bind, (space, f"p-{i}", node), {"uid": uid}) for node in nodes]
        )
        assert [a.code for a in answers if isinstance(a, ApiError)] == [409]
    port.create(r.POD, bare_pod("namesake", space))
    with pytest.raises(ApiError) as refusal:
        port.bind(space, "namesake", nodes[0], uid="00000000-0000-0000-0000-000000000000")
    assert refusal.value.code == 409
