"""Others leave for devices: whom the order names, whole, and only if their devices are of use."""

from __future__ import annotations

from typing import Any

from kai_ray.cluster import resources as R
from kai_ray.sim.embedded import EmbeddedCluster
from tests.dra import objects as o
from tests.dra.world import cluster, create, given_twice, placed, queue, running

MODEL = "device.attributes['gpu.nvidia.com'].productName"


def _long(name: str, owner: str, template: str = "two", **more: Any) -> dict[str, Any]:
    run = {"meta": {"annotations": {"kai.scheduler/sim-run-seconds": "100000"}}}
    return o.pod(name, template=template, queue=owner, restartPolicy="Always", **run, **more)


def _lent(world: EmbeddedCluster) -> None:
    """A cluster of two nodes whose four devices each are lent to `borrower`."""
    create(world, queue("owner", 8), queue("borrower", 0))
    create(world, o.template("two", o.spec(o.exactly(count=2))))
    create(world, *(_long(f"b{i}", "borrower") for i in range(4)))
    assert world.run_until(lambda: len(running(world)) == 4, 20)


def test_an_owner_takes_its_devices_back() -> None:
    with cluster() as world:
        _lent(world)
        create(world, _long("o0", "owner"))
        assert world.run_until(lambda: "o0" in running(world), 60)
        assert len(placed(world)) == 4, "one left for it, no more"
        assert not given_twice(world) and not world.kubelet.refused


def test_victims_have_the_devices_that_are_wanted() -> None:
    """The newest would go first, but sits on a card that is of no use here."""
    pools = [
        {"name": model.lower(), "count": 1, "gpus": 2, "model": model, "devices": [{}]}
        for model in ("H100", "A100")
    ]
    from kai_ray.cluster.clock import VirtualClock
    from kai_ray.sim.cluster_file import ClusterConfig

    with EmbeddedCluster(ClusterConfig.of({"nodePools": pools}), VirtualClock()) as world:
        create(world, queue("owner", 8), queue("borrower", 0))
        create(world, o.template("two", o.spec(o.exactly(count=2))))
        fast = o.spec(o.exactly(count=2, where=[f"{MODEL} == 'H100'"]))
        create(world, o.template("fast", fast))
        create(world, _long("old", "borrower", "fast"))
        assert world.run_until(lambda: "old" in running(world), 20)
        world.run_for(10)
        create(world, _long("new", "borrower"))
        assert world.run_until(lambda: "new" in running(world), 20)
        create(world, _long("o0", "owner", "fast"))
        assert world.run_until(lambda: "o0" in running(world), 60)
        assert placed(world) == {"o0": "h100-0", "new": "a100-0"}


def test_nobody_leaves_where_no_device_would_suit() -> None:
    with cluster() as world:
        _lent(world)
        create(world, o.template("fast", o.spec(o.exactly(where=[f"{MODEL} == 'B200'"]))))
        create(world, _long("o0", "owner", "fast"))
        world.run_for(120)
        assert len(running(world)) == 4 and "o0" not in placed(world)
        assert not [e for e in world.client.list(R.EVENT).items if e["reason"] == "Reclaimed"]
