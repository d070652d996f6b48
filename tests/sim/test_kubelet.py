"""Simulated kubelets: phases, ends, restarts, grace, admission, failures of nodes."""

from __future__ import annotations

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import NotFound
from kai_ray.sim.kubelet import held_devices
from tests.sim.worlds import bare_cluster, exists, get, phase, pod, status_condition


def test_a_bound_pod_runs_is_ready_and_has_an_address() -> None:
    with bare_cluster() as c:
        c.client.create(R.POD, pod("a", gpus=2, run_time="1h"))
        assert c.run_until(lambda: phase(c, "a") == "Running", 5)
        found = get(c, R.POD, "a")
        for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled"):
            assert status_condition(found, kind) == "True", kind
        assert found["status"]["podIP"] and found["status"]["hostIP"]
        given = found["status"]["containerStatuses"][0]["allocatedResourcesStatus"][0]["resources"]
        assert [g["resourceID"] for g in given] == ["GPU-n-0-0", "GPU-n-0-1"]


@pytest.mark.parametrize(
    ("annotations", "end"),
    [
        ({"run_time": "30s"}, "Succeeded"),
        ({"run_time": "30s", "exit_code": "3"}, "Failed"),
    ],
)
def test_a_pod_ends_after_its_run_time_by_its_exit_code(
    annotations: dict[str, str], end: str
) -> None:
    with bare_cluster() as c:
        c.client.create(R.POD, pod("a", gpus=0, restart="Never", **annotations))
        c.run_for(29)
        assert phase(c, "a") == "Running"
        c.run_for(2)
        assert phase(c, "a") == end


def test_all_work_is_slowed_by_the_same_factor() -> None:
    with bare_cluster(runTime={"kind": "constant", "meanSeconds": 3}, runTimeFactor=20) as c:
        c.client.create(R.POD, pod("said", gpus=0, restart="Never", run_time="2s"))
        c.client.create(R.POD, pod("drawn", gpus=0, restart="Never"))
        c.run_for(39)
        assert phase(c, "said") == phase(c, "drawn") == "Running"
        c.run_for(3)
        assert (phase(c, "said"), phase(c, "drawn")) == ("Succeeded", "Running")
        c.run_for(20)
        assert phase(c, "drawn") == "Succeeded"


def test_without_an_annotation_the_pool_says_how_long_a_job_runs() -> None:
    run_time = {"kind": "lognormal", "meanSeconds": 100, "spread": 0.5}
    ends = []
    for _ in range(2):
        with bare_cluster(runTime=run_time, seed=7) as c:
            for i in range(5):
                c.client.create(R.POD, pod(f"p{i}"))
            start = c.clock.now()
            order = []
            for n in range(1, 6):
                done = [f"p{i}" for i in range(5)]
                assert c.run_until(
                    lambda n=n, done=done: sum(phase(c, p) == "Succeeded" for p in done) >= n, 1e6
                )
                order.append(c.clock.now() - start)
            ends.append(order)
    assert ends[0] == ends[1], "the same seed gives the same run times"
    assert len(set(ends[0])) == 5, "each pod draws its own"


def test_a_pod_that_must_always_run_is_never_ended() -> None:
    with bare_cluster() as c:
        c.client.create(R.POD, pod("web", restart="Always"))
        c.run_for(1e6)
        assert phase(c, "web") == "Running"


def test_on_failure_restarts_with_a_growing_delay_until_the_work_succeeds() -> None:
    with bare_cluster() as c:
        c.client.create(R.POD, pod("a", restart="OnFailure", run_time="5s", exit_code="1,1,0"))
        c.run_for(6)
        status = get(c, R.POD, "a")["status"]["containerStatuses"][0]
        assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert status_condition(get(c, R.POD, "a"), "Ready") == "False"
        # 5 s of work, 10 s of back-off, 5 s, 20 s, 5 s
        c.run_for(35)
        assert phase(c, "a") == "Running"
        c.run_for(5)
        assert phase(c, "a") == "Succeeded"
        assert get(c, R.POD, "a")["status"]["containerStatuses"][0]["restartCount"] == 2


def test_a_node_refuses_what_does_not_fit_like_a_kubelet() -> None:
    with bare_cluster(nodes=1) as c:
        c.client.create(R.POD, pod("a", gpus=6, run_time="1h"))
        assert c.run_until(lambda: phase(c, "a") == "Running", 5)
        greedy = pod("b", gpus=3)
        greedy["spec"]["nodeName"] = "n-0"
        c.client.create(R.POD, greedy)
        c.run_for(1)
        status = get(c, R.POD, "b")["status"]
        assert status["phase"] == "Failed" and status["reason"] == "OutOfnvidia.com/gpu"
        assert c.kubelet.refused == ["default/b: OutOfnvidia.com/gpu"]


def test_a_deleted_pod_gets_its_grace_and_then_goes() -> None:
    with bare_cluster(kubelet={"mostGraceSeconds": 20}) as c:
        c.client.create(R.POD, pod("a", gpus=8, run_time="1h"))
        assert c.run_until(lambda: phase(c, "a") == "Running", 5)
        c.client.delete(R.POD, "a", "default")
        c.run_for(19)
        assert get(c, R.POD, "a")["metadata"]["deletionTimestamp"]
        c.run_for(2)
        with pytest.raises(NotFound):
            get(c, R.POD, "a")
        c.client.create(R.POD, pod("next", gpus=8, run_time="1h"))
        assert c.run_until(lambda: phase(c, "next") == "Running", 5)


def test_a_node_that_stops_answering_keeps_its_pods_for_their_toleration() -> None:
    with bare_cluster(nodes=1) as c:
        c.client.create(R.POD, pod("a", run_time="1h"))
        assert c.run_until(lambda: phase(c, "a") == "Running", 5)
        down = {"metadata": {"annotations": {L.SIM_DOWN: "true"}}}
        c.client.patch(R.NODE, "n-0", down)
        c.run_for(10)
        node = get(c, R.NODE, "n-0")
        assert status_condition(node, "Ready") == "Unknown"
        assert {t["effect"] for t in node["spec"]["taints"]} == {"NoSchedule", "NoExecute"}
        assert status_condition(get(c, R.POD, "a"), "Ready") == "False"
        c.run_for(280)
        assert exists(c, R.POD, "a")
        c.run_for(20)
        assert not exists(c, R.POD, "a")
        up = {"metadata": {"annotations": {L.SIM_DOWN: None}}}
        c.client.patch(R.NODE, "n-0", up)
        c.run_for(1)
        assert status_condition(get(c, R.NODE, "n-0"), "Ready") == "True"
        assert "taints" not in get(c, R.NODE, "n-0")["spec"]


def test_nodes_fail_and_come_back_by_their_pools_model() -> None:
    failures = {"mtbfSeconds": 3600, "repairSeconds": 600}
    with bare_cluster(nodes=4, failures=failures) as c:

        def down() -> int:
            return sum(
                status_condition(n, "Ready") == "Unknown" for n in c.client.list(R.NODE).items
            )

        assert c.run_until(lambda: down() > 0, 1e5)
        assert c.run_until(lambda: down() == 0, 1e5)


def test_gpus_are_handed_out_once_also_after_a_restart(tmp_path) -> None:
    with bare_cluster(nodes=1, state_dir=tmp_path) as c:
        for i in range(3):
            c.client.create(R.POD, pod(f"p{i}", gpus=2, run_time="1h"))
        assert c.run_until(lambda: all(phase(c, f"p{i}") == "Running" for i in range(3)), 5)
    with bare_cluster(nodes=1, state_dir=tmp_path) as c:
        c.client.create(R.POD, pod("late", gpus=2, run_time="1h"))
        assert c.run_until(lambda: phase(c, "late") == "Running", 5)
        ids = [
            d["resourceID"]
            for p in c.client.list(R.POD).items
            for s in p["status"]["containerStatuses"]
            for given in s["allocatedResourcesStatus"]
            for d in given["resources"]
        ]
        assert sorted(ids) == [f"GPU-n-0-{i}" for i in range(8)]


def test_a_pod_in_back_off_keeps_its_gpus_over_a_restart(tmp_path) -> None:
    with bare_cluster(nodes=1, state_dir=tmp_path) as c:
        c.client.create(R.POD, pod("b-runs", gpus=2, run_time="1h"))
        c.run_for(1)
        c.client.create(
            R.POD, pod("a-fails", gpus=2, restart="OnFailure", run_time="5s", exit_code="1")
        )
        c.run_for(6)
    with bare_cluster(nodes=1, state_dir=tmp_path) as c:
        c.run_for(1)
        held = [d for p in c.client.list(R.POD).items for d in held_devices(p)]
        assert sorted(held) == [0, 1, 2, 3]
        c.client.create(R.POD, pod("c-new", gpus=4, run_time="1h"))
        c.run_for(1)
        assert held_devices(get(c, R.POD, "c-new")) == [4, 5, 6, 7]


def test_the_pods_of_a_removed_node_are_lost() -> None:
    with bare_cluster(nodes=1) as c:
        c.client.create(R.POD, pod("a", run_time="1h"))
        assert c.run_until(lambda: phase(c, "a") == "Running", 5)
        c.client.delete(R.NODE, "n-0")
        c.run_for(1)
        assert not exists(c, R.POD, "a")


def test_a_taint_that_ends_execution_empties_the_node_by_toleration() -> None:
    with bare_cluster(nodes=1) as c:
        tolerant, brief = pod("tolerant", run_time="1h"), pod("brief", run_time="1h")
        bear = {"key": "repair", "operator": "Exists", "effect": "NoExecute"}
        tolerant["spec"]["tolerations"] = [bear]
        brief["spec"]["tolerations"] = [{**bear, "tolerationSeconds": 60}]
        for p in (tolerant, brief, pod("plain", run_time="1h")):
            c.client.create(R.POD, p)
        assert c.run_until(lambda: phase(c, "plain") == "Running", 5)
        taints = [{"key": "repair", "value": "now", "effect": "NoExecute"}]
        c.client.patch(R.NODE, "n-0", {"spec": {"taints": taints}})
        c.run_for(30)
        assert not exists(c, R.POD, "plain") and exists(c, R.POD, "brief")
        c.run_for(40)
        assert not exists(c, R.POD, "brief")
        assert phase(c, "tolerant") == "Running"


def test_a_host_port_is_given_once() -> None:
    with bare_cluster(nodes=1) as c:
        for name in ("a", "b"):
            p = pod(name, run_time="1h")
            p["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
            p["spec"]["nodeName"] = "n-0"
            c.client.create(R.POD, p)
        c.run_for(1)
        assert sorted(phase(c, n) for n in "ab") == ["Failed", "Running"]
        assert c.kubelet.refused[0].endswith("NodePorts")


def test_a_pod_ends_at_its_own_deadline() -> None:
    with bare_cluster() as c:
        p = pod("a", run_time="1h")
        p["spec"]["activeDeadlineSeconds"] = 30
        c.client.create(R.POD, p)
        c.run_for(32)
        status = get(c, R.POD, "a")["status"]
        assert status["phase"] == "Failed" and status["reason"] == "DeadlineExceeded"


def test_nodes_renew_their_leases_while_they_answer() -> None:
    with bare_cluster(nodes=1, kubelet={"heartbeatSeconds": 10}) as c:

        def renewed() -> str:
            return get(c, R.LEASE, "n-0", "kube-node-lease")["spec"]["renewTime"]

        c.run_for(5)
        first = renewed()
        c.run_for(20)
        second = renewed()
        assert second > first
        c.client.patch(R.NODE, "n-0", {"metadata": {"annotations": {L.SIM_DOWN: "true"}}})
        c.run_for(60)
        assert renewed() <= "2026-01-01T00:00:31"
