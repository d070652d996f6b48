"""Who has to leave, for whom, how they go and how they come back."""

from __future__ import annotations

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from kai_ray.cluster.suspension import is_suspended

from .world import EvictWorld, ray_spec


def test_a_queue_gets_its_quota_back_from_a_borrower() -> None:
    with EvictWorld("2x8") as world:
        world.queues(a=8, b=8)
        world.torch("lent-1", "b", 4, 2)
        world.torch("lent-2", "b", 4, 2)
        world.run(10)
        assert len(world.running("lent")) == 8
        world.torch("own", "a", 4, 2)
        assert world.until(lambda: len(world.running("own")) == 4, 60)
        world.run(30)
        assert len(world.running("own")) == 4
        assert len(world.running("lent-1")) == 4, "the older one stays"
        (evicted,) = world.evictions("PyTorchJob")
        assert evicted == ("lent-2", "Reclaimed", 1)
        message = dict(world.events("lent-2"))["Reclaimed"]
        assert "own" in message and "queue a" in message and "reclaim" in message


def test_a_victim_waits_in_its_place_and_comes_back() -> None:
    with EvictWorld("1x8") as world:
        world.queues(a=8, b=0)
        world.torch("lent", "b", 4, 2)
        world.run(10)
        created = world.group("lent")["metadata"]["creationTimestamp"]
        world.torch("own", "a", 4, 2, annotations={L.RUN_TIME: "60s"})
        world.run(30)
        assert len(world.running("own")) == 4
        victim = world.store.get(R.PYTORCH_JOB, "lent", "default")
        assert not is_suspended(R.PYTORCH_JOB, victim), "it is back in the queue"
        assert victim["metadata"]["annotations"][L.QUEUED_SINCE] == created
        assert len(world.pods("lent")) == 4, "its pods wait"
        assert world.until(lambda: len(world.running("lent")) == 4, 120), "when own has ended"


def test_what_matters_more_runs_first_in_its_queue() -> None:
    with EvictWorld("1x8") as world:
        world.queues(a=8)
        world.store.create(R.PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 75})
        world.job("low", "a", 2, 4)
        world.run(10)
        assert len(world.running("low")) == 2
        world.job("high", "a", 2, 4, priority="high")
        assert world.until(lambda: len(world.running("high")) == 2, 60)
        world.run(60)
        assert [(n, r) for n, r, _ in world.evictions("Job")] == [("low", "Preempted")]
        job = world.store.get(R.JOB, "low", "default")
        assert not (job.get("status") or {}).get("failed"), "its back-off limit of 0 is not used up"


def test_an_elastic_job_shrinks_to_its_minimum_first() -> None:
    with EvictWorld("1x8") as world:
        world.queues(a=4, b=4)
        world.deployment("own", "a", 0, 1)
        world.job("elastic", "b", 8, 1, minimum=2, backoffLimit=20)
        world.run(10)
        assert len(world.running("elastic")) == 8
        world.job("own", "a", 4, 1)
        assert world.until(lambda: len(world.running("own")) == 4, 60)
        world.run(60)
        assert len(world.running("elastic")) == 4
        assert len(world.running("own")) == 4


def test_consolidation_moves_a_job_so_that_a_larger_one_fits() -> None:
    with EvictWorld("2x8") as world:
        world.queues(a=16)
        world.job("one", "a", 1, 5)
        world.job("two", "a", 1, 5)
        world.run(5)
        world.job("three", "a", 1, 3)
        world.run(5)
        world.store.delete(R.JOB, "one", "default")
        world.run(10)
        nodes = {p["spec"]["nodeName"] for p in world.pods() if p["spec"].get("nodeName")}
        world.job("large", "a", 1, 8)
        assert world.until(lambda: len(world.running("large")) == 1, 90), nodes
        assert world.until(lambda: len(world.running()) == 3, 90), "who was moved runs again"
        assert all(reason == "Consolidated" for _, reason, _ in world.evictions())


def _head_losses(world: EvictWorld) -> list[str]:
    """Heads that were told to go while their cluster was not."""
    lost: list[str] = []
    before = world.store.delete

    def delete(resource: R.Resource, name: str, namespace: str = "", **more: object) -> object:
        if resource == R.POD:
            pod = world.store.get(R.POD, name, namespace)
            labels = pod["metadata"].get("labels") or {}
            if labels.get(L.RAY_NODE_TYPE) == "head" and not _going(world, labels[L.RAY_CLUSTER]):
                lost.append(name)
        return before(resource, name, namespace, **more)  # type: ignore[arg-type]

    world.store.delete = delete  # type: ignore[method-assign]
    return lost


def _going(world: EvictWorld, name: str) -> bool:
    clusters = world.store.list(R.RAY_CLUSTER, "default").items
    cluster: Object | None = next((c for c in clusters if c["metadata"]["name"] == name), None)
    if cluster is None or cluster["metadata"].get("deletionTimestamp"):
        return True
    return is_suspended(R.RAY_CLUSTER, cluster)


def test_a_ray_job_is_suspended_and_resumed_and_its_head_never_lost() -> None:
    with EvictWorld("1x8") as world:
        world.queues(a=8, b=0)
        world.ray_job("ray", "b", 4, 2)
        assert world.until(lambda: len(world.running("ray")) >= 5, 60)
        lost = _head_losses(world)
        world.torch("own", "a", 4, 2, annotations={L.RUN_TIME: "120s"})
        assert world.until(lambda: len(world.running("own")) == 4, 60)
        assert not lost
        assert [(n, r) for n, r, _ in world.evictions("RayJob")] == [("ray", "Reclaimed")]

        def succeeded() -> bool:
            found = world.store.get(R.RAY_JOB, "ray", "default")
            return (found.get("status") or {}).get("jobStatus") == "SUCCEEDED"

        assert world.until(lambda: len(world.running("ray")) >= 5, 300), "it runs again"
        assert world.until(succeeded, 8000)


def test_a_ray_cluster_is_suspended_and_resumed() -> None:
    with EvictWorld("1x8") as world:
        world.queues(a=8, b=0)
        world.create(R.RAY_CLUSTER, "ray", ray_spec(4, 2), "b")
        assert world.until(lambda: len(world.running("ray")) == 5, 60)
        lost = _head_losses(world)
        world.torch("own", "a", 4, 2, annotations={L.RUN_TIME: "60s"})
        assert world.until(lambda: len(world.running("own")) == 4, 60)
        assert world.until(lambda: len(world.running("ray")) == 5, 300)
        assert not lost


def test_surplus_ray_workers_go_one_by_one_and_the_head_stays() -> None:
    with EvictWorld("1x8") as world:
        world.queues(a=4, b=4)
        spec = {**ray_spec(8, 1, minReplicas=2), "enableInTreeAutoscaling": True}
        world.create(R.RAY_CLUSTER, "ray", spec, "b")
        assert world.until(lambda: len(world.running("ray")) == 9, 60)
        lost = _head_losses(world)
        world.torch("own", "a", 4, 1)
        assert world.until(lambda: len(world.running("own")) == 4, 60)
        assert not lost
        cluster = world.store.get(R.RAY_CLUSTER, "ray", "default")
        assert L.SUSPENDED_AT not in (cluster["metadata"].get("annotations") or {})
        assert len(world.running("ray")) == 5


def test_a_minimum_runtime_protects() -> None:
    with EvictWorld("1x8") as world:
        world.queue("a", 8)
        world.queue("b", 0, reclaimMinRuntime="5m")
        world.torch("lent", "b", 4, 2)
        world.run(30)
        world.torch("own", "a", 4, 2)
        world.run(200)
        assert not world.evictions()
        assert world.until(lambda: len(world.running("own")) == 4, 150)


def test_a_preemption_delay_is_waited_for() -> None:
    with EvictWorld("1x8") as world:
        world.queues(a=8, b=0)
        world.torch("lent", "b", 4, 2)
        world.run(10)
        world.torch("own", "a", 4, 2, annotations={L.PREEMPTION_DELAY: "100s"})
        world.run(90)
        assert not world.evictions()
        assert world.until(lambda: len(world.running("own")) == 4, 60)


def test_a_paused_queue_evicts_nobody() -> None:
    with EvictWorld("1x8") as world:
        world.queue("a", 8, annotations={L.QUEUE_PAUSED: "true"})
        world.queue("b", 0)
        world.torch("lent", "b", 4, 2)
        world.run(10)
        world.torch("own", "a", 4, 2)
        world.run(120)
        assert not world.evictions()
        assert len(world.running("lent")) == 4


def test_a_disruption_budget_is_kept_unless_a_quota_is_claimed() -> None:
    with EvictWorld("1x8") as world:
        world.queues(a=8)
        world.store.create(R.PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 75})
        world.deployment("web", "a", 4, 2, labels={L.PRIORITY_CLASS: "train"})
        budget = {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}}
        meta = {"name": "web", "namespace": "default"}
        world.store.create(R.PDB, {"metadata": meta, "spec": budget})
        world.run(10)
        assert len(world.running("web")) == 4
        world.job("high", "a", 1, 2, priority="high")
        world.job("higher", "a", 1, 4, priority="high")
        world.run(120)
        assert len(world.running("high")) == 1
        assert len(world.running("web")) == 3, "one pod may go by the budget, not three"


def test_bare_pods_go_only_if_nothing_else_helps() -> None:
    with EvictWorld("1x8") as world:
        world.queues(a=4, b=0)
        world.torch("lent", "b", 2, 2)
        world.run(5)
        for i in range(4):
            world.bare(f"bare-{i}", "b")
        world.run(10)
        assert len(world.running()) == 6
        world.torch("own", "a", 2, 2)
        assert world.until(lambda: len(world.running("own")) == 2, 60)
        assert len(world.running("bare")) == 4, "though they are newer"
        world.run(60)
        assert len(world.running("bare")) == 4


def test_bare_pods_give_back_a_quota_and_say_so() -> None:
    with EvictWorld("1x8") as world:
        world.queues(a=8, b=0)
        for i in range(8):
            world.bare(f"bare-{i}", "b")
        world.run(10)
        world.torch("own", "a", 4, 2)
        assert world.until(lambda: len(world.running("own")) == 4, 60)
        assert {r for n, r, _ in world.evictions("Pod") if n.startswith("bare")} == {"Reclaimed"}


def test_static_demand_comes_to_rest() -> None:
    """No two workloads evict each other in turn."""
    with EvictWorld("2x8") as world:
        world.queues(a=4, b=4, c=0)
        for i in range(4):
            world.torch(f"a-{i}", "a", 2, 2)
            world.torch(f"b-{i}", "b", 2, 2)
            world.job(f"c-{i}", "c", 4, 1, minimum=1, backoffLimit=100)
        world.run(200)
        count = sum(n for *_, n in world.evictions())
        writes = int(world.store.version)
        world.run(1200)
        assert sum(n for *_, n in world.evictions()) == count
        assert int(world.store.version) - writes < 500, "and nothing is written for nothing"
        busy = sum(
            int(p["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
            for p in world.pods()
            if p["metadata"]["name"] in world.running()
        )
        assert busy == 16


def test_pods_are_told_which_node_they_are_next_in_line_for() -> None:
    with EvictWorld("2x8") as world:
        world.queues(a=16, b=0)
        world.torch("lent", "b", 4, 4)
        world.run(10)
        world.torch("own", "a", 2, 8)
        told: dict[str, set[str]] = {}

        def started() -> bool:
            for pod in world.pods():
                node = (pod.get("status") or {}).get("nominatedNodeName")
                if node and not pod["spec"].get("nodeName"):
                    told.setdefault(pod["metadata"]["name"], set()).add(node)
            return len(world.running("own")) == 2

        assert world.until(started, 120)
        assert set(told) == {"own-master-0", "own-worker-0"}
        assert set.union(*told.values()) == {"node-0", "node-1"}
        for name, nodes in told.items():
            assert world.store.get(R.POD, name, "default")["spec"]["nodeName"] in nodes
