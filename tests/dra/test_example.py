"""The example of claimed devices: half a node for each worker, cell by cell."""

from __future__ import annotations

from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.sdk import manifests
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.cli.conftest import EXAMPLES
from tests.dra.world import create, held, running

FOLDER = EXAMPLES / "claims"


def test_every_worker_gets_the_gpus_and_the_card_of_one_cell() -> None:
    config = ClusterConfig.load(FOLDER / "cluster.yaml")
    with EmbeddedCluster(config, VirtualClock()) as world:
        for document in manifests.read([str(FOLDER / "pytorchjob.yaml")]):
            meta = {"namespace": "default", **document.object["metadata"]}
            create(world, {**document.object, "metadata": meta})
        assert world.run_until(lambda: len(running(world)) == 4, 20)
        for devices in held(world).values():
            numbers = sorted(int(d.rpartition("-")[2]) for d in devices if "/gpu-" in d)
            (card,) = [int(d.rpartition("-")[2]) for d in devices if "/nic-" in d]
            assert numbers == list(range(4 * card, 4 * card + 4))

        def done() -> bool:
            job = world.client.get(R.PYTORCH_JOB, "claims", "default")
            conditions = (job.get("status") or {}).get("conditions") or ()
            return any(c["type"] == "Succeeded" and c["status"] == "True" for c in conditions)

        assert world.run_until(done, 600)
