"""Pods that claim devices, from their template to the end, on a whole cluster."""

from __future__ import annotations

from typing import Any

from kai_ray.cluster import resources as R
from tests.dra import objects as o
from tests.dra.world import cluster, create, given_twice, held, placed, running, why


def test_a_pod_gets_what_its_template_asks_and_gives_it_back_when_it_ends() -> None:
    with cluster() as world:
        create(world, o.template("two", o.spec(o.exactly(count=2))))
        create(world, *(o.pod(f"p{i}", template="two") for i in range(5)))
        assert world.run_until(lambda: len(running(world)) == 4, 10)
        assert not given_twice(world) and len(held(world)) == 4
        world.run_for(1)
        assert "2 gpu.nvidia.com devices" in why(world, "p4")
        assert world.run_until(lambda: running(world) == {"p4"}, 100)
        assert len(held(world)) == 1
        world.run_for(100)
        assert not world.client.list(R.RESOURCE_CLAIM).items
        assert world.runtime.errors == 0 and not world.kubelet.refused


def test_the_books_of_queue_and_gang_count_devices_as_gpus_and_by_their_class() -> None:
    with cluster() as world:
        create(world, o.template("two", o.spec(o.exactly(count=2))), o.pod("p", template="two"))
        assert world.run_until(lambda: running(world) == {"p"}, 10)
        world.run_for(2)
        (group,) = world.client.list(R.POD_GROUP).items
        held = {"nvidia.com/gpu": "2", "gpu.nvidia.com": "2"}
        assert group["status"]["resourcesStatus"]["allocated"] == held
        queue = world.client.get(R.QUEUE, "default-queue")
        assert queue["status"]["allocated"] == {"nvidia.com/gpu": "2"}


def test_what_is_written_is_what_drivers_and_kubelets_read() -> None:
    with cluster(1) as world:
        config = [{"requests": ["gpu"], "opaque": {"driver": o.GPU_DRIVER, "parameters": {"a": 1}}}]
        create(world, o.template("t", o.spec(config=config)), o.pod("p", template="t"))
        assert world.run_until(lambda: running(world) == {"p"}, 10)
        (claim,) = world.client.list(R.RESOURCE_CLAIM).items
        pod = world.client.get(R.POD, "p", "default")
        assert claim["status"]["reservedFor"] == [
            {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}
        ]
        allocated = claim["status"]["allocation"]
        assert allocated["devices"]["config"] == [{"source": "FromClaim", **config[0]}]
        assert allocated["nodeSelector"]["nodeSelectorTerms"] == [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]}
        ]
        assert "resource.kubernetes.io/delete-protection" in claim["metadata"]["finalizers"]


def test_pods_of_a_queue_share_a_claim_on_one_node_and_are_charged_its_devices_once() -> None:
    with cluster(2, 2) as world:
        create(world, o.claim("shared", o.spec(o.exactly(count=2)), queue="default-queue"))
        create(world, *(o.pod(f"p{i}", claim="shared") for i in range(3)))
        assert world.run_until(lambda: len(running(world)) == 3, 10)
        assert len(set(placed(world).values())) == 1
        assert len(held(world)["shared"]) == 2
        world.run_for(200)
        assert held(world) == {}, "the last of its pods has ended"
        claim = world.client.get(R.RESOURCE_CLAIM, "shared", "default")
        assert not claim["status"].get("reservedFor")


def test_a_gpu_claim_is_shared_by_the_pods_of_the_queue_that_it_names() -> None:
    with cluster() as world:
        create(world, o.claim("nobodys"), o.claim("theirs", queue="others"))
        create(world, o.pod("a", claim="nobodys"), o.pod("b", claim="theirs"))
        world.run_for(5)
        assert placed(world) == {}
        assert "nobodys has none, the pod's queue is 'default-queue'" in why(world, "a")
        assert "theirs has 'others'" in why(world, "b")
        mended = {"metadata": {"labels": {"kai.scheduler/queue": "default-queue"}}}
        world.client.patch(R.RESOURCE_CLAIM, "nobodys", mended, "default")
        assert world.run_until(lambda: running(world) == {"a"}, 5)


def test_pods_wait_in_words_for_what_is_missing_and_start_when_it_comes() -> None:
    with cluster() as world:
        create(world, o.pod("a", template="t"), o.pod("b", claim="c"))
        world.run_for(5)
        assert "template t, which does not exist: create it" in why(world, "a")
        assert "c: create it" in why(world, "b")
        wanted = o.spec(o.exactly(cls="fast.example.com"))
        create(world, o.template("t", wanted), o.claim("c", wanted, queue="default-queue"))
        world.run_for(5)
        assert "fast.example.com, of claim a-devices" in why(world, "a")
        assert "fast.example.com, of claim c" in why(world, "b")
        create(world, o.device_class("fast.example.com", "device.driver == 'gpu.nvidia.com'"))
        assert world.run_until(lambda: running(world) == {"a", "b"}, 5)
        assert world.runtime.errors == 0


def test_waiting_for_a_claim_costs_nothing() -> None:
    with cluster() as world:
        create(world, o.pod("a", template="t"))
        world.run_for(10)
        cycles, version = world.control.loop.cycles, world.store.version
        world.run_for(600)
        assert world.control.loop.cycles == cycles and world.store.version == version


def test_gpus_that_are_claimed_are_not_given_out_as_resources() -> None:
    with cluster(1) as world:
        whole = o.pod("whole", template="")
        del whole["spec"]["resourceClaims"]
        limits = {"limits": {"nvidia.com/gpu": "1"}}
        whole["spec"]["containers"][0]["resources"] = limits
        create(world, whole)
        world.run_for(5)
        assert placed(world) == {}
        assert "GPUs of the device plugin" in why(world, "whole")


def _gang(pods: int, template: str) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "gang",
            "namespace": "default",
            "labels": {"kai.scheduler/queue": "default-queue"},
            "annotations": {"kai.scheduler/batch-min-member": str(pods)},
        },
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {"spec": o.pod("x", template=template)["spec"]},
        },
    }


def test_a_gang_takes_all_its_devices_or_none() -> None:
    with cluster(1, 4) as world:
        create(world, o.template("two", o.spec(o.exactly(count=2))))
        create(world, _gang(3, "two"))
        world.run_for(20)
        assert placed(world) == {} and held(world) == {}
        create(
            world,
            o.slice_of(
                "node-0",
                [o.device(f"more-{i}") for i in range(2)],
                name="more",
                pool={"name": "more"},
            ),
        )
        assert world.run_until(lambda: len(running(world)) == 3, 20)


def _net(count: int) -> dict[str, Any]:
    devices = [o.device(f"net-{i}") for i in range(count)]
    return o.slice_of("", devices, "net.example.com")


def test_a_device_that_all_nodes_reach_is_given_once_and_the_other_pod_gets_it_next() -> None:
    with cluster(2, 1) as world:
        both = o.spec(o.exactly(), o.exactly("net", "net.example.com"))
        create(world, _net(1), o.device_class("net.example.com"), o.template("t", both))
        create(world, *(o.pod(f"p{i}", template="t") for i in range(2)))
        assert world.run_until(lambda: len(running(world)) == 1, 10)
        world.run_for(20)
        assert len(running(world)) == 1 and not given_twice(world)
        (first,) = running(world)
        assert world.run_until(lambda: running(world) == {"p0", "p1"} - {first}, 200)
        (claim,) = [c for c in world.client.list(R.RESOURCE_CLAIM).items if c.get("status")]
        terms = claim["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
        assert terms[0]["matchFields"][0]["key"] == "metadata.name", "its GPU ties it to the node"


def test_a_gang_that_finds_too_few_such_devices_takes_none_and_says_so() -> None:
    with cluster(2, 1) as world:
        only = o.spec(o.exactly("net", "net.example.com"))
        create(world, _net(1), o.device_class("net.example.com"), o.template("t", only))
        job = _gang(2, "t")
        job["spec"]["template"]["spec"]["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"job-name": "gang"}},
            }
        ]
        create(world, job)
        world.run_for(30)
        assert placed(world) == {} and held(world) == {}
        (pod, *_) = [p["metadata"]["name"] for p in world.client.list(R.POD).items]
        assert "no free devices of the node fit together" in why(world, pod)
        cycles = world.control.loop.cycles
        world.run_for(600)
        assert world.control.loop.cycles - cycles < 60, "tried again, ever more seldom"
