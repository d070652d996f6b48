"""Several node pools of the scheduler: what is seen of all, and what of one that has gone."""

from __future__ import annotations

from kai_ray.cluster import resources as R
from kai_ray.history.job_event import JobEvent
from kai_ray.scheduler.snapshot import GPU
from tests.queues.test_shards import cluster, gang


def test_the_figures_of_all_pools_stand_side_by_side() -> None:
    with cluster() as c:
        sight = c.composition.sight
        told: list[JobEvent] = []
        sight.subscribe(told.append)
        for pool, pods in (("", 3), ("gold", 5), ("iron", 20)):
            gang(c, f"job-{pool or 'plain'}", pods, pool)
        c.run_for(10)
        assert set(sight.pools) == {"", "gold", "iron"}
        queues, nodes = sight.queues, sight.nodes
        held = {
            pool: float(queues.allocated[GPU, queues.row_of[f"team-{pool or 'plain'}"]])
            for pool in sight.pools
        }
        assert held == {"": 3.0, "gold": 5.0, "iron": 0.0}
        assert {n: p for n, p in zip(nodes.names, nodes.pool, strict=True)} == {
            f"{name}-{i}": pool
            for name, pool in (("plain", ""), ("gold", "gold"), ("iron", "iron"))
            for i in range(2)
        }
        assert nodes.allocated.sum() == 8.0
        assert dict(zip(nodes.holding_queue, nodes.holding_gpus.tolist(), strict=True)) == {
            "team-plain": 3.0,
            "team-gold": 5.0,
        }
        ((queue, _),) = queues.reasons
        assert queue == "team-iron"
        started = {e.name: e.pool for e in told if e.what == "started"}
        assert started == {"job-plain": "", "job-gold": "gold"}
        assert {c.pool for c in sight.cycles} == {"", "gold", "iron"}


def test_a_pool_that_is_served_no_more_is_seen_no_more() -> None:
    with cluster() as c:
        gang(c, "job", 2, "gold")
        c.run_for(5)
        sight = c.composition.sight
        assert "team-gold" in sight.queues.names
        c.store.delete(R.SCHEDULING_SHARD, "gold")
        c.run_for(70)
        assert "gold" not in sight.pools and "team-gold" not in sight.queues.names
