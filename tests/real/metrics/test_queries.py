"""A real Prometheus reads what we show, and its answers are what is so."""

from __future__ import annotations

import re
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from kai_ray.cluster import resources as r
from kai_ray.history.prometheus import METRICS, PrometheusUsage
from kai_ray.history.window import UsageSettings
from kai_ray.metrics.dashboards import dashboards
from kai_ray.sight import queue_list
from tests.parts import debian
from tests.real.metrics.world import World

pytestmark = [pytest.mark.real, pytest.mark.slow]

DOCS = Path(__file__).parents[3] / "docs"
#: KAI's names, with the labels that its dashboards ask by (semantics.md 9.4, 9.5).
KAI_QUEUE_METRICS = (
    "kai_queue_info",
    "kai_queue_deserved_gpus",
    "kai_queue_quota_cpu_cores",
    "kai_queue_quota_memory_bytes",
    "kai_queue_allocated_gpus",
    "kai_queue_allocated_cpu_cores",
    "kai_queue_allocated_memory_bytes",
    "kai_queue_fair_share_cpu_cores",
    "kai_queue_fair_share_memory_gb",
    "kai_queue_fair_share_gpu",
    "kai_queue_cpu_usage",
    "kai_queue_memory_usage",
    "kai_queue_gpu_usage",
)


def test_every_scrape_is_understood(world: World) -> None:
    world.prometheus.until("up", lambda v: v == 1)
    problem = world.prometheus.problem()
    assert not problem or "deadline" in problem  # the machine may be busy


@pytest.mark.parametrize("metric", KAI_QUEUE_METRICS)
def test_queues_stand_under_kais_names_and_labels(world: World, metric: str) -> None:
    found = world.prometheus.ask(metric)
    assert {sample.labels["queue_metadata_name"] for sample in found} >= {"vision", "research"}
    assert all(
        {"queue_name", "queue_display_name"} <= s.labels.keys() or not _shown(s.labels)
        for s in found
    )


def _shown(labels: dict[str, str]) -> bool:
    """Prometheus keeps no empty label: a queue without a display name has none."""
    return labels["queue_metadata_name"] in ("research", "product")


def test_figures_of_queues_are_those_that_users_see(world: World) -> None:
    """Quota, what is held and the fair share agree with `kai get queues`."""
    shown = {q.name: q for q in queue_list.read(world.cluster.client)}
    for name in ("vision", "search", "research"):
        gpu = shown[name].gpu
        of = f'queue="{name}"'
        for state, amount in (
            ("quota", gpu.quota),
            ("allocated", gpu.allocated),
            ("requested", gpu.requested),
            ("fair", gpu.fair_share),
        ):
            assert world.prometheus.value(f'kai_queue_gpus{{{of},state="{state}"}}') == amount
        deserved = f'kai_queue_deserved_gpus{{queue_name="{name}"}}'
        assert world.prometheus.value(deserved) == gpu.quota
    fair = world.prometheus.ask('kai_queue_gpus{state="fair"}')
    assert sum(s.value for s in fair if s.labels["queue"] in ("research", "product")) == 32


def test_the_top_of_the_tree_holds_what_the_nodes_have_given(world: World) -> None:
    top = 'kai_queue_parent_info{parent=""}'
    held = f'sum(kai_queue_gpus{{state="allocated"}} * on (queue) group_left () {top})'
    assert world.prometheus.value(held) == world.prometheus.value(
        'sum(kai_node_gpus{state="allocated"})'
    )


def test_what_is_unlimited_is_minus_one_for_kai_and_absent_for_us(world: World) -> None:
    assert world.prometheus.value('kai_queue_quota_cpu_cores{queue_name="vision"}') == -1
    assert world.prometheus.ask('kai_queue_cpu_cores{queue="vision",state="quota"}') == []
    assert world.prometheus.ask("kai_queue_gpus < 0") == []


def test_who_waits_is_counted_by_reason(world: World) -> None:
    found = world.prometheus.ask('kai_pending_jobs{queue="vision"} > 0')
    assert [s.value for s in found] == [1]
    assert found[0].labels["reason"]
    assert world.prometheus.value('kai_queue_waiting_jobs{queue="research"}') == 1
    assert world.prometheus.value('kai_oldest_waiting_job_seconds{queue="vision"} > 0')


def test_an_eviction_is_counted_under_its_rule(world: World) -> None:
    ask = world.prometheus.value
    assert ask('kai_decisions_total{kind="evict",reason="Reclaimed"}') == 2
    assert ask('sum(kai_pod_group_evicted_pods_total{action="reclaim",namespace="default"})') == 2
    assert ask('kai_podgroups_scheduled_by_action{action="reclaim"}') == 1
    assert ask('kai_job_events_total{what="evicted",queue="vision",kind="PyTorchJob"}') == 1


def test_starts_and_waits_are_counted_by_queue(world: World) -> None:
    assert world.prometheus.value('sum(kai_job_wait_seconds_count{queue="vision"})') == 2
    within = 'histogram_quantile(0.5, sum by (le) (kai_job_wait_seconds_bucket{queue="vision"}))'
    median = world.prometheus.value(within)
    assert median is not None and 0 <= median <= 5


def test_binds_and_cycles_are_timed(world: World) -> None:
    ask = world.prometheus.value
    assert ask("kai_bind_seconds_count") == ask("kai_task_bind_latency_milliseconds_count") == 5
    cycles = ask("kai_scheduler_cycles_total")
    assert ask('kai_scheduler_cycle_seconds_count{step="cycle"}') == cycles
    steps = 'sum(kai_scheduler_cycle_seconds_sum{step!="cycle"})'
    whole = 'sum(kai_scheduler_cycle_seconds_sum{step="cycle"})'
    assert ask(f"abs({steps} - {whole}) < 0.001") is not None
    assert ask("kai_e2e_scheduling_latency_milliseconds > 0") is not None
    actions = world.prometheus.ask("kai_action_scheduling_latency_milliseconds")
    assert {s.labels["action"] for s in actions} == {
        "allocate",
        "consolidation",
        "reclaim",
        "preempt",
        "stalegangeviction",
    }
    inside = ask("sum(kai_scheduler_action_seconds_sum)")
    decide = ask('kai_scheduler_cycle_seconds_sum{step="decide"}')
    assert inside is not None and decide is not None and 0 < inside <= decide


def test_free_gpus_are_shown_in_their_pieces(world: World) -> None:
    """24 GPUs are held on three nodes of eight: the free ones are one whole node."""
    world.prometheus.until('kai_nodes_with_free_gpus{gpus="8"}', lambda v: v == 1)
    assert world.prometheus.value("kai_gpu_fragmentation_ratio") == 0


def test_the_use_of_gpus_is_shown_by_the_node(world: World) -> None:
    world.prometheus.until("count(kai_node_gpu_utilization_ratio)", lambda v: v == 4)
    assert world.prometheus.value("max(kai_node_gpu_utilization_ratio) <= 1") is not None
    assert world.prometheus.value("sum(kai_node_unhealthy_gpus)") == 0


def test_the_use_of_gpus_is_shown_by_the_queue_and_by_who_wastes_them(world: World) -> None:
    world.prometheus.until('kai_queue_known_gpus{queue="vision"}', lambda v: v == 16)
    world.prometheus.until('kai_queue_used_gpus{queue="vision"}', lambda v: 0 < v <= 16)
    idle = world.prometheus.ask('kai_job_idle_gpus{kind="PyTorchJob",namespace="default"}')
    assert [sample.labels["name"] for sample in idle] == ["depth"]
    assert 0 < idle[0].value < 16


def test_no_series_has_a_label_for_pods(world: World) -> None:
    for sample in world.prometheus.ask('{__name__=~"kai_.+"}'):
        assert not {"pod", "task", "container"} & sample.labels.keys(), sample


def test_types_are_what_the_names_promise(world: World) -> None:
    types = {name: kind for name, kind in world.prometheus.types().items() if "kai_" in name}
    assert len(types) > 40
    names = world.prometheus.series('{__name__=~"kai_.+"}')
    counters = {name for name, kind in types.items() if kind == "counter"}
    assert {f"{name.removesuffix('_total')}_total" for name in counters} <= names
    assert types["kai_scheduler_cycle_seconds"] == "histogram"


def test_promtool_has_nothing_to_say_about_our_own_names(world: World) -> None:
    promtool = debian.need(debian.PROMETHEUS).with_name("promtool")
    if not promtool.exists():
        pytest.skip("promtool is not here: it comes with Debian's prometheus")
    with urllib.request.urlopen(world.url) as answer:
        page = answer.read()
    done = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True)
    said = [line for line in done.stderr.decode().splitlines() if not _of_kai(line)]
    assert said == []


def _of_kai(line: str) -> bool:
    """KAI's names do not follow the rules; they are kept for who knows them."""
    words = ("milliseconds", "_gb ", "kai_queue_gpu_usage", "kai_pod_group", "kai_queue_info")
    return any(word in line for word in words)


@pytest.mark.parametrize("name", sorted(dashboards()))
def test_every_panel_is_answered(world: World, name: str) -> None:
    """Each query of each dashboard is PromQL, and asks for a metric that there is."""
    variables = {"$queue": ".*", "$kind": ".*", "$node_pool": ".*"}
    variables |= {"$__rate_interval": "1m", "$__range": "5m"}
    asked = 0
    for panel in dashboards()[name]["panels"]:
        for target in panel["targets"]:
            query = target["expr"]
            for variable, value in variables.items():
                query = query.replace(variable, value)
            assert "$" not in query, query
            found = world.prometheus.ask(query)
            asked += 1
            if panel["title"] not in QUIET:
                assert found, f"{panel['title']}: no answer to {query}"
    assert asked > 8


#: Panels of what has not happened here.
QUIET = ("Idle warnings, by queue", "Ended", "Evicted, by rule", "Created and started")


DOCUMENTED = re.findall(r"```promql\n(.*?)```", (DOCS / "metrics.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("paragraph", "".join(DOCUMENTED).strip().split("\n\n"))
def test_every_query_of_the_docs_is_answered(world: World, paragraph: str) -> None:
    question, query = paragraph.split("\n", 1)
    assert question.startswith("# ") and question.endswith("?")
    assert world.prometheus.ask(query), query


CAPACITY = {
    "cpuCapacityMetric": 'sum(kai_cluster_cpu_cores{state="capacity"})',
    "memoryCapacityMetric": 'sum(kai_cluster_memory_bytes{state="capacity"})',
    "gpuCapacityMetric": 'sum(kai_cluster_gpus{state="capacity"})',
}


def test_fairness_over_time_can_be_asked_of_these_metrics(world: World) -> None:
    """What KAI reads back from Prometheus as usage of queues, of a real one."""
    source = PrometheusUsage(
        f"http://{world.prometheus.address}",
        UsageSettings(window_s=60.0),
        METRICS | CAPACITY,
        resolution_s=1.0,
    )
    cpu, memory, gpu = source.usage(time.time()).queues["vision"]
    assert 0.4 < gpu <= 1
    assert 0 < cpu < 1 and 0 < memory < 1


def test_a_shard_that_counts_by_prometheus_goes_by_what_that_answers(world: World) -> None:
    """In a circle: what is held to Prometheus, its sums to the scheduler, usage to Prometheus."""
    params = {
        "windowSize": "1m",
        "fetchInterval": "1s",
        "extraParams": {"queryResolution": "1s", **CAPACITY},
    }
    url = f"http://{world.prometheus.address}"
    usage = {"clientType": "prometheus", "connectionString": url, "usageParams": params}
    port = world.cluster.client
    port.create(r.SCHEDULING_SHARD, {"metadata": {"name": "all"}, "spec": {"usageDBConfig": usage}})
    try:
        world.prometheus.until("kai_usage_query_latency_milliseconds_count", lambda v: v >= 2)
        (shard,) = port.list(r.SCHEDULING_SHARD).items
        (ready,) = shard["status"]["conditions"]
        assert ready["status"] == "True" and ready["reason"] == "Serving", ready
        vision = 'kai_queue_gpu_usage{queue_metadata_name="vision"}'
        world.prometheus.until(vision, lambda v: 0.4 < v <= 1)
        assert world.prometheus.value('kai_queue_gpu_usage{queue_metadata_name="ads"}') == 0
    finally:
        port.delete(r.SCHEDULING_SHARD, "all")
