"""What a scrape is answered, on a cluster in virtual time."""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain
from prometheus_client.registry import Collector

from kai_ray.cluster import resources as r
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.memory import MemoryStore
from kai_ray.cluster.runtime import Runtime
from kai_ray.manager.composition import Composition
from kai_ray.manager.config import ManagerConfig
from kai_ray.manager.health import HealthServer, Page
from kai_ray.manager.scrape import metrics_page
from kai_ray.metrics import tally
from kai_ray.metrics.page import MetricsPage
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

DOCS = Path(__file__).parents[2] / "docs"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(ClusterConfig.short("2x4"), VirtualClock()) as made:
        yield made


@pytest.fixture
def page(cluster: EmbeddedCluster) -> Page:
    return metrics_page(lambda: (cluster.composition, cluster.runtime), least_s=0.0)


def read(page: Page, accept: str = "") -> Samples:
    families = openmetrics if "openmetrics" in accept else plain
    _, body = page(accept)
    found: Samples = {}
    for family in families(body.decode()):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"twice: {sample}"
            found[key] = sample.value
    return found


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset(labels.items())))


def queue(name: str, quota: float, parent: str = "", **spec: Any) -> dict[str, Any]:
    share = {"quota": quota, "limit": -1, "overQuotaWeight": 1}
    resources = {"gpu": share, "cpu": {"quota": -1, "limit": -1}, "memory": {"quota": -1}}
    made: dict[str, Any] = {"resources": resources, **spec}
    if parent:
        made["parentQueue"] = parent
    return {"metadata": {"name": name}, "spec": made}


def job(name: str, of: str, pods: int, gpus: int, run_s: int = 3600) -> dict[str, Any]:
    container = {"name": "main", "image": "a", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    notes = {
        "kai.scheduler/batch-min-member": str(pods),
        "kai.scheduler/sim-run-time": f"{run_s}s",
    }
    meta = {
        "name": name,
        "namespace": "default",
        "labels": {"kai.scheduler/queue": of},
        "annotations": notes,
    }
    template = {
        "spec": {
            "schedulerName": "kai-scheduler",
            "restartPolicy": "Never",
            "containers": [container],
        }
    }
    return {
        "metadata": meta,
        "spec": {"parallelism": pods, "completions": pods, "template": template},
    }


def test_before_the_first_cycle_there_is_a_page_without_queues(page: Page) -> None:
    found = read(page)
    assert value(found, "kai_leader") == 1
    silent = ("kai_queue", "kai_node", "kai_cluster", "kai_gpu")
    assert not any(name.startswith(silent) for name, _ in found)


def test_a_process_that_has_not_begun_says_who_it_is() -> None:
    """Between the loss of a lease and the next life nothing is watched yet."""
    composition = Composition(ManagerConfig())
    runtime = Runtime(MemoryStore(VirtualClock()), VirtualClock(), may_act=lambda: False)
    found = read(metrics_page(lambda: (composition, runtime)))
    assert value(found, "kai_leader") == 0
    assert any(name == "kai_build_info" for name, _ in found)
    composition.close()
    runtime.close()


@pytest.mark.parametrize("components", [("binder",), ("podgrouper",), ("scheduler",)])
def test_each_part_has_a_page_and_only_the_scheduler_leads(components: tuple[str, ...]) -> None:
    store = MemoryStore(VirtualClock())
    composition = Composition(ManagerConfig(components=components))
    runtime = Runtime(store, VirtualClock())
    for controller in composition.controllers():
        runtime.add(controller)
    watched = sorted(runtime.news_age_s())
    found = read(metrics_page(lambda: (composition, runtime)))
    assert value(found, "kai_leader") == float("scheduler" in components)
    assert sorted(runtime.news_age_s()) == watched, "a scrape watches nothing that was not watched"
    composition.close()
    runtime.close()


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
def test_both_formats_say_the_same(cluster: EmbeddedCluster, page: Page, accept: str) -> None:
    cluster.store.create(r.QUEUE, queue("team", 4, displayName='Team "Ö"\\'))
    cluster.store.create(r.JOB, job("one", "team", 2, 2))
    cluster.run_for(10)
    found = read(page, accept)
    assert value(found, "kai_queue_gpus", queue="team", state="allocated") == 4
    shown = 'Team "Ö"\\'
    labels = {"queue_metadata_name": "team", "queue_display_name": shown}
    assert value(found, "kai_queue_deserved_gpus", queue_name="team", **labels) == 4
    assert value(found, "kai_queue_fair_share_gpu", queue_name=shown, **labels) == 4
    assert value(found, "kai_podgroups_scheduled_by_action", action="allocate") == 1


def test_a_job_counts_from_created_to_ended(cluster: EmbeddedCluster, page: Page) -> None:
    cluster.store.create(r.QUEUE, queue("team", 4))
    cluster.store.create(r.JOB, job("first", "team", 2, 4, run_s=600))
    cluster.run_for(30)
    cluster.store.create(r.JOB, job("second", "team", 1, 4))
    cluster.run_for(300)
    found = read(page)
    assert value(found, "kai_queue_waiting_jobs", queue="team") == 1
    (reason,) = (dict(labels)["reason"] for name, labels in found if name == "kai_pending_jobs")
    assert value(found, "kai_pending_jobs", queue="team", reason=reason) == 1
    waited = value(found, "kai_oldest_waiting_job_seconds", queue="team")
    assert waited is not None and 295 <= waited <= 305

    cluster.run_for(400)
    found = read(page)
    assert value(found, "kai_oldest_waiting_job_seconds", queue="team") is None
    assert value(found, "kai_job_wait_seconds_count", queue="team") == 2
    waited = value(found, "kai_job_wait_seconds_sum", queue="team")
    assert waited is not None and 550 <= waited <= 620
    events = {"queue": "team", "kind": "Job", "reason": ""}
    assert value(found, "kai_job_events_total", what="created", **events) == 2
    assert value(found, "kai_job_events_total", what="started", **events) == 2
    events["reason"] = "Succeeded"
    assert value(found, "kai_job_events_total", what="ended", **events) == 1


def test_after_a_restart_only_those_that_wait_are_said_to_wait(tmp_path: Path) -> None:
    """What is told again is no news: it is in no counter, and what runs does not wait."""
    clock = VirtualClock()
    with EmbeddedCluster(ClusterConfig.short("2x4"), clock, tmp_path) as first:
        first.store.create(r.QUEUE, queue("team", 4))
        first.store.create(r.QUEUE, queue("busy", 4))
        first.store.create(r.JOB, job("runs", "team", 2, 4))
        first.run_for(100)
        first.store.create(r.JOB, job("waits", "busy", 3, 4))
        first.run_for(200)
    with EmbeddedCluster(ClusterConfig.short("2x4"), clock, tmp_path) as second:
        second.run_for(50)
        page = metrics_page(lambda: (second.composition, second.runtime), least_s=0.0)
        found = read(page)
        assert value(found, "kai_queue_gpus", queue="team", state="allocated") == 8
        assert value(found, "kai_oldest_waiting_job_seconds", queue="team") is None
        waited = value(found, "kai_oldest_waiting_job_seconds", queue="busy")
        assert waited is not None and 245 <= waited <= 260
        assert not any(name == "kai_job_events_total" for name, _ in found)
        # One that is interrupted now has waited since then, not since it was created.
        for pod in second.store.list(r.POD, "default", labels="job-name=runs").items:
            second.store.delete(r.POD, pod["metadata"]["name"], "default")
        second.run_for(30)
        found = read(page)
        assert value(found, "kai_job_wait_seconds_count", queue="team") == 1
        waited = value(found, "kai_job_wait_seconds_sum", queue="team")
        assert waited is not None and waited < 30


def test_fragments_are_told_from_whole_nodes(cluster: EmbeddedCluster, page: Page) -> None:
    cluster.store.create(r.QUEUE, queue("team", 8))
    cluster.store.create(r.JOB, job("three", "team", 1, 3))
    cluster.run_for(10)
    found = read(page)
    assert value(found, "kai_gpu_fragmentation_ratio") == pytest.approx(1 / 5)
    free = [value(found, "kai_nodes_with_free_gpus", gpus=str(n)) for n in range(1, 5)]
    assert free == [2, 1, 1, 1]
    # A node that takes no work has nothing free for anybody.
    cluster.store.patch(r.NODE, "node-0", {"spec": {"unschedulable": True}})
    cluster.store.patch(r.NODE, "node-1", {"spec": {"unschedulable": True}})
    cluster.run_for(10)
    found = read(page)
    assert value(found, "kai_gpu_fragmentation_ratio") == 0
    assert value(found, "kai_nodes", state="Ready,Cordoned", node_pool="") == 2


def test_a_podgroup_that_is_gone_leaves_no_series(cluster: EmbeddedCluster, page: Page) -> None:
    """KAI's one metric per PodGroup must not grow for ever."""
    cluster.store.create(r.QUEUE, queue("rich", 8))
    cluster.store.create(r.QUEUE, queue("poor", 0))
    cluster.store.create(r.JOB, job("guest", "poor", 2, 4))
    cluster.run_for(10)
    cluster.store.create(r.JOB, job("host", "rich", 2, 4))
    cluster.run_for(30)
    found = read(page)
    evicted = [key for key in found if key[0] == "kai_pod_group_evicted_pods_total"]
    assert [found[key] for key in evicted] == [2]
    assert dict(evicted[0][1])["action"] == "reclaim"
    assert value(found, "kai_decisions_total", kind="evict", reason="Reclaimed") == 2
    cluster.store.delete(r.JOB, "guest", "default")
    cluster.run_for(60)
    found = read(page)
    assert not any(name == "kai_pod_group_evicted_pods_total" for name, _ in found)
    assert value(found, "kai_decisions_total", kind="evict", reason="Reclaimed") == 2


def test_the_size_of_the_page_does_not_grow_with_pods(cluster: EmbeddedCluster, page: Page) -> None:
    cluster.store.create(r.QUEUE, queue("team", 4))
    cluster.store.create(r.JOB, job("some", "team", 1, 1))
    cluster.run_for(10)
    before = len(read(page))
    for i in range(20):
        cluster.store.create(r.JOB, job(f"more-{i}", "team", 2, 1))
    cluster.run_for(30)
    assert len(read(page)) - before < 10


def test_the_docs_name_every_metric_and_no_other(cluster: EmbeddedCluster, page: Page) -> None:
    cluster.store.create(r.QUEUE, queue("rich", 8))
    cluster.store.create(r.JOB, job("one", "rich", 2, 4))
    cluster.run_for(10)
    _, body = page("")
    shown = set(re.findall(r"^# TYPE (kai_\w+)", body.decode(), re.MULTILINE))
    told = set(re.findall(r"`(kai_\w+)`", (DOCS / "metrics.md").read_text()))
    assert shown == told


def test_who_asks_all_the_time_gets_the_same_page_for_a_while() -> None:
    class Counting(Collector):
        asked = 0

        def collect(self) -> Iterator[Metric]:
            self.asked += 1
            yield Metric("kai_asked", "How often", "gauge")

    counting = Counting()
    page = MetricsPage(counting, least_s=0.3)
    with ThreadPoolExecutor(8) as many:
        bodies = {body for _, body in many.map(page, [""] * 50)}
    before = counting.asked
    assert before <= 2 and len(bodies) == before  # a busy machine may take longer than it lasts
    time.sleep(0.35)
    page("")
    assert counting.asked == before + 1
    assert page("application/openmetrics-text; version=1.0.0")[1].endswith(b"# EOF\n")


def test_users_who_make_up_queues_cannot_fill_prometheus(
    cluster: EmbeddedCluster, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally, "MOST_EVENTS", 5)
    for i in range(20):
        cluster.store.create(r.JOB, job(f"odd-{i}", f"made-up-{i}", 1, 1))
    cluster.run_for(10)
    found = read(page)
    events = {key: n for key, n in found.items() if key[0] == "kai_job_events_total"}
    assert len(events) == 6 and sum(events.values()) == 20
    together = {"queue": "", "kind": "", "reason": ""}
    assert value(found, "kai_job_events_total", what="created", **together) == 15


def test_a_page_that_fails_is_an_answer_and_the_checks_go_on() -> None:
    def broken(accept: str) -> tuple[str, bytes]:
        raise RuntimeError("no figures")

    server = HealthServer("127.0.0.1", 0, lambda: "", lambda: "", {"/metrics": broken})
    server.start()
    try:
        url = f"http://127.0.0.1:{server.port}"
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{url}/metrics")
        assert caught.value.code == 500 and b"no figures" in caught.value.read()
        assert urllib.request.urlopen(f"{url}/readyz").read() == b"ok\n"
    finally:
        server.stop()
