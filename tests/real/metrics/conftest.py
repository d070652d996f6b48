from __future__ import annotations

from collections.abc import Iterator

import pytest

from kai_ray.cluster import resources as r
from kai_ray.metrics import job_use
from tests.parts import debian
from tests.real.metrics.world import EXAMPLES, RECLAIM, World, watched


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two jobs of queue vision have borrowed 24 GPUs; one has left for a job of queue search that
    wanted 8, and waits."""
    debian.need(debian.PROMETHEUS)
    with (
        pytest.MonkeyPatch.context() as patch,
        watched(tmp_path_factory.mktemp("prometheus")) as made,
    ):
        patch.setattr(job_use, "EVERY_S", 1.0)
        made.submit(EXAMPLES / "queues.yaml")
        made.submit(RECLAIM / "1-borrower.yaml")
        port = made.cluster.client
        assert made.cluster.run_until(lambda: _running(made) == 4, 30)
        made.prometheus.until('kai_queue_gpus{queue="vision",state="allocated"}', lambda v: v == 32)
        made.submit(RECLAIM / "2-owner.yaml")
        assert made.cluster.run_until(lambda: len(port.list(r.POD_GROUP).items) == 3, 30)
        made.prometheus.until('kai_queue_gpus{queue="search",state="allocated"}', lambda v: v == 8)
        made.prometheus.until('kai_queue_waiting_jobs{queue="research"}', lambda v: v == 1)
        limit = {"spec": {"resources": {"gpu": {"limit": 20}}}}
        port.patch(r.QUEUE, "ads", limit)
        made.prometheus.until('kai_queue_gpus{queue="ads",state="limit"}', lambda v: v == 20)
        yield made


def _running(world: World) -> int:
    pods = world.cluster.client.list(r.POD).items
    return sum(pod.get("status", {}).get("phase") == "Running" for pod in pods)
