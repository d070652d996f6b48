"""What people are shown of GPUs that are claimed."""

from __future__ import annotations

from kai_ray.cluster import resources as R
from kai_ray.sight import claimed as devices
from kai_ray.sight import node_list as nodes
from kai_ray.sight.jobs import gangs
from tests.dra import objects as o
from tests.dra.world import cluster, create, running


def test_nodes_show_the_gpus_that_are_offered_and_left() -> None:
    with cluster(1, 4) as world:
        create(world, o.template("three", o.spec(o.exactly(count=3))), o.pod("p", template="three"))
        assert world.run_until(lambda: running(world) == {"p"}, 10)
        world.run_for(2)
        (row,) = nodes.read(world.client)
        assert (row.gpus, row.free, row.fragment) == (4, 1, "part")
        pods = world.client.list(R.POD).items
        (group,) = world.client.list(R.POD_GROUP).items
        assert gangs.gang(group, pods).gpus == 3


def test_the_newest_slices_of_gpu_drivers_count() -> None:
    old = o.slice_of("n", o.gpus(4), name="old")
    new = o.slice_of("n", o.gpus(3), name="new", pool={"generation": 2})
    nics = o.slice_of("n", o.gpus(2), "nic.example.com")
    assert devices.build([old, new, nics], []).offered == {"n": 3}
    assert devices.build([new, old], []).offered == {"n": 3}


def test_a_shared_claim_counts_once() -> None:
    status = {
        "allocation": o.allocation("n", "gpu-0", "gpu-1"),
        "reservedFor": o.reserved("a", "b"),
    }
    found = devices.build([], [o.claim("c", status=status)])
    assert found.held == {"a": 2}
