"""Fairness over time: who had much lately gets less of what is left, queue by queue and user by
user."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import VirtualClock
from kai_ray.controllers.explain import explain_workload
from kai_ray.controllers.told_usage import usage_of
from kai_ray.encode import Encoder
from kai_ray.history.config import UsageConfig
from kai_ray.history.prometheus import PrometheusError, PrometheusUsage
from kai_ray.history.usage import Holder, Usage
from kai_ray.history.window import UsageSettings
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.control import objects
from tests.control.world import FAST, World

from .worlds import at_work

HOUR = 3600.0
SETTINGS = UsageSettings(window_s=24 * HOUR, half_life_s=None, interval_s=60.0)
NO_QUOTA = {"quota": 0, "limit": -1, "overQuotaWeight": 1}


def fair_world(settings: UsageSettings = SETTINGS, **more: Any) -> World:
    config = dataclasses.replace(FAST, usage=UsageConfig(settings, **more))
    world = World(nodes=1, gpus=8, config=config)
    for name in ("a", "b"):
        world.queue(name, gpu=NO_QUOTA)
    return world


def finish(world: World, prefix: str) -> None:
    for pod in world.pods(prefix):
        name = pod["metadata"]["name"]
        status = {"status": {"phase": "Succeeded"}}
        world.store.patch(kinds.POD, name, status, "default", subresource="status")


def burst(world: World, queue: str, count: int, **labels: str) -> None:
    for i in range(count):
        name = f"{queue}{''.join(labels.values())}-{i}"
        group = objects.podgroup(name, queue, 1)
        group["metadata"]["labels"] = dict(labels)
        world.store.create(kinds.POD_GROUP, group)
        world.store.create(kinds.POD, objects.pod(f"{name}-pod", name, gpus=1))


def test_usage_of_a_queue_and_those_above_it_is_recorded() -> None:
    world = World(config=dataclasses.replace(FAST, usage=UsageConfig(SETTINGS)))
    world.queue("root")
    world.queue("leaf", "root")
    world.gang("job", 4, "leaf", gpus=2)
    at_work(world)
    world.run(2 * HOUR)
    usage = world.control.encoder.usage
    for name in ("leaf", "root"):
        assert usage.queues[name][2] == pytest.approx(0.5, rel=0.02)
    snapshot = world.control.encoder.snapshot(world.clock.now())
    row = snapshot.names.queues.index("leaf")
    assert snapshot.snapshot.queues.usage[2, row] == pytest.approx(0.5, rel=0.02)


def test_the_queue_that_had_less_gets_more_of_what_is_left() -> None:
    world = fair_world()
    world.gang("a-old", 8, "a", gpus=1)
    at_work(world)
    world.run(6 * HOUR)
    world.store.patch(kinds.NODE, "node-0", {"spec": {"unschedulable": True}})
    finish(world, "a-old")
    burst(world, "a", 8)
    burst(world, "b", 8)
    world.run(120)
    world.store.patch(kinds.NODE, "node-0", {"spec": {"unschedulable": None}})
    world.run(5)
    assert len(world.placed("b-")) > len([n for n in world.placed("a-") if "old" not in n])


def test_without_a_record_both_get_the_same() -> None:
    world = fair_world()
    burst(world, "a", 8)
    burst(world, "b", 8)
    world.run(5)
    assert len(world.placed("a-")) == len(world.placed("b-")) == 4


def test_usage_survives_a_restart(tmp_path: Path) -> None:
    world = fair_world(file=tmp_path / "history.sqlite")
    world.gang("a-old", 8, "a", gpus=1)
    at_work(world)
    world.run(HOUR)
    before = world.control.encoder.usage.queues["a"][2]
    assert before > 0.9
    world.control.close()
    world.boot()
    world.run(1)
    assert world.control.encoder.usage.queues["a"][2] == pytest.approx(before, rel=0.01)


def test_a_history_file_that_cannot_be_opened_stops_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    path.write_text("no database, though long enough to look like one to a hasty reader " * 20)
    world = fair_world(file=path)
    burst(world, "a", 1)
    world.run(120)
    assert world.placed("a-")
    assert world.control.usage is not None
    assert "no SQLite file" in world.control.usage.problem
    assert world.control.usage.usage.queues["a"][2] > 0


def user_gang(world: World, name: str, user: str, **spec: Any) -> None:
    group = objects.podgroup(name, "team", 1, **spec)
    if user:
        group["metadata"]["labels"] = {L.USER: user}
    world.store.create(kinds.POD_GROUP, group)
    world.store.create(kinds.POD, objects.pod(f"{name}-pod", name, gpus=8))


def used_by_ada() -> World:
    world = World(nodes=1, gpus=8, config=dataclasses.replace(FAST, usage=UsageConfig(SETTINGS)))
    world.queue("team")
    user_gang(world, "first", "ada")
    at_work(world)
    world.run(HOUR)
    return world


def test_among_equals_the_user_who_had_less_goes_first() -> None:
    world = used_by_ada()
    user_gang(world, "a-more", "ada")
    user_gang(world, "b-other", "bob")
    world.run(5)
    finish(world, "first")
    world.run(5)
    assert set(world.placed()) == {"first-pod", "b-other-pod"}


def test_priority_comes_before_users() -> None:
    world = used_by_ada()
    user_gang(world, "a-urgent", "ada", priorityClassName="inference")
    user_gang(world, "b-other", "bob", priorityClassName="train")
    world.run(5)
    finish(world, "first")
    world.run(5)
    assert "a-urgent-pod" in world.placed()


def test_a_user_may_be_named_by_an_annotation() -> None:
    world = used_by_ada()
    group = objects.podgroup("noted", "team", 1)
    group["metadata"]["annotations"] = {L.USER: "ada"}
    world.store.create(kinds.POD_GROUP, group)
    world.run(1)
    encoded = world.control.encoder.snapshot(world.clock.now())
    row = next(i for i, key in enumerate(encoded.names.gangs) if key.name == "noted")
    assert encoded.users[encoded.user[row]] == "ada"
    assert encoded.snapshot.gangs.user_usage is not None
    assert encoded.snapshot.gangs.user_usage[row] == pytest.approx(1.0, rel=0.05)


def test_what_was_used_moves_the_shares_by_k() -> None:
    """The stronger k, the less is left to who had all: the shard's kValue reaches the core."""
    shares: list[float] = []
    for k in (0.0, 1.0):
        cluster = {
            "nodePools": [{"name": "n", "count": 1, "gpus": 8}],
            "shards": [
                {
                    "name": "default",
                    "spec": {
                        "kValue": k,
                        "usageDBConfig": {
                            "clientType": "history",
                            "usageParams": {"windowSize": "1d", "fetchInterval": "1m"},
                        },
                    },
                }
            ],
        }
        with EmbeddedCluster(ClusterConfig.of(cluster), VirtualClock()) as c:
            for name in ("a", "b"):
                c.store.create(kinds.QUEUE, objects.queue(name, gpu=NO_QUOTA))
            c.run_for(2)
            for queue in ("a", "b"):
                for i in range(8):
                    c.store.create(kinds.POD_GROUP, objects.podgroup(f"{queue}{i}", queue, 1))
                    made = objects.pod(f"{queue}{i}", f"{queue}{i}", gpus=1)
                    c.store.create(kinds.POD, made)
            usage = Usage({"a": (0.0, 0.0, 0.9), "b": (0.0, 0.0, 0.0)}, {})
            c.control.encoder.set_usage(usage)
            c.run_for(2)
            queue = c.control.encoder.snapshot(c.clock.now()).names.queues.index("a")
            assert c.control.loop.last is not None
            shares.append(float(c.control.loop.last.plan.fair_share[2, queue]))
    assert shares[0] == 4.0
    assert shares[1] < shares[0]


def test_a_quiet_cluster_is_not_woken_by_the_record() -> None:
    world = fair_world()
    world.gang("job", 1, "a")
    at_work(world)
    world.run(60)
    writes, cycles = world.writes(), world.control.loop.cycles
    world.run(HOUR)
    assert world.writes() == writes
    assert world.control.loop.cycles <= cycles + 1


def test_queues_tell_what_they_had_and_who_asks_decides_by_it() -> None:
    """Whoever explains has neither the file nor the memory of the scheduler."""
    world = fair_world()
    world.gang("a-old", 8, "a", gpus=1)
    at_work(world)
    world.run(6 * HOUR)
    finish(world, "a-old")
    told = usage_of(world.store.list(kinds.QUEUE).items)
    assert told.queues["a"][2] == pytest.approx(
        world.control.encoder.usage.queues["a"][2], abs=0.01
    )
    assert not told.queues.get("b")
    burst(world, "a", 12)
    burst(world, "b", 12)
    world.run(5)
    waits = [f"{q}-{i}" for q in "ab" for i in range(12) if f"{q}-{i}-pod" not in world.placed()]
    assert waits
    for name in waits:
        found = explain_workload(world.store, "PodGroup", name, clock=world.clock)
        said = world.condition(name)["message"]
        assert found.gangs[0].sentence == said


def test_queues_tell_of_users_and_stop_when_usage_counts_no_more() -> None:
    world = used_by_ada()
    world.run(120)
    told = usage_of(world.store.list(kinds.QUEUE).items)
    assert max(told.users[Holder("team", "ada")]) > 0
    assert world.control.usage is not None
    world.control.usage.retire()
    assert not usage_of(world.store.list(kinds.QUEUE).items).queues


@pytest.mark.parametrize("text", ["", "{", "[]", '{"": 5}', '{"": [1, 2]}', '{"": ["x", 0, 0]}'])
def test_what_a_queue_tells_wrongly_says_nothing(text: str) -> None:
    queue = {"metadata": {"name": "q", "annotations": {L.USAGE: text}}}
    assert usage_of([queue]) == Usage({}, {})


# ---------------------------------------------------------------------- Prometheus


class _Stub(BaseHTTPRequestHandler):
    answers: dict[str, Any]
    asked: list[dict[str, list[str]]]

    def do_GET(self) -> None:
        query = parse_qs(urlparse(self.path).query)
        self.asked.append(query)
        text = query["query"][0]
        for word, answer in self.answers.items():  # noqa: B007
            if word in text:
                break
        else:
            answer = []
        status, body = (answer, b"no") if isinstance(answer, int) else (200, _vector(answer))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        return


def _vector(answer: Any) -> bytes:
    if isinstance(answer, str):
        return answer.encode()
    result = [{"metric": m, "value": [0, str(v)]} for m, v in answer]
    return json.dumps({"data": {"resultType": "vector", "result": result}}).encode()


@contextmanager
def prometheus(answers: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, list[str]]]]]:
    asked: list[dict[str, list[str]]] = []
    handler = type("Stub", (_Stub,), {"answers": answers, "asked": asked})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_prometheus_is_asked_for_sums_over_the_window() -> None:
    answers = {
        "allocated_gpus": [({"queue_name": "a"}, 40), ({"queue_name": "b"}, 8)],
        "nvidia_com_gpu": [({}, 80)],
    }
    with prometheus(answers) as (url, asked):
        usage = PrometheusUsage(url, dataclasses.replace(SETTINGS, half_life_s=HOUR)).usage(1e9)
    assert {name: u[2] for name, u in usage.queues.items()} == {"a": 0.5, "b": 0.1}
    texts = [q["query"][0] for q in asked]
    assert all(t.startswith("sum_over_time(") and "[86400s:60s]" in t for t in texts)
    assert all("0.5 ^" in t and "/ 3600" in t for t in texts)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (503, "answers 503"),
        ("<html>", "not one of Prometheus"),
        ('{"data": {"resultType": "matrix", "result": []}}', "answers a matrix"),
        ('{"data": {"resultType": "vector", "result": [{"value": [0, "x"]}]}}', "not one of"),
    ],
)
def test_an_answer_that_is_none_says_so(answer: Any, words: str) -> None:
    with (
        prometheus({"": answer}) as (url, _),
        pytest.raises(PrometheusError, match=words),
    ):
        PrometheusUsage(url, SETTINGS).usage(1e9)


def test_a_server_that_is_away_stops_nothing_and_is_named() -> None:
    with prometheus({}) as (url, _):
        pass  # the port is free again
    world = fair_world(prometheus=url)
    burst(world, "a", 1)
    world.run(3)
    assert world.placed("a-")
    controller = world.control.usage
    assert controller is not None and controller._thread is not None
    controller._thread.join()
    assert "cannot be reached" in controller.problem


def test_what_prometheus_says_counts() -> None:
    answers = {"allocated_gpus": [({"queue_name": "a"}, 40)], "nvidia_com_gpu": [({}, 80)]}
    with prometheus(answers) as (url, _):
        world = fair_world(prometheus=url)
        world.run(1)
        controller = world.control.usage
        assert controller is not None and controller._thread is not None
        controller._thread.join()
        world.run(61)
        assert world.control.encoder.usage.queues["a"] == (0.0, 0.0, 0.5)


def test_usage_of_names_that_are_gone_does_no_harm() -> None:
    encoder = Encoder()
    encoder.apply(kinds.QUEUE, None, objects.queue("team"))
    encoder.set_usage(Usage({"gone": (1.0, 1.0, 1.0)}, {Holder("gone", "x"): (1.0, 1.0, 1.0)}))
    assert not encoder.snapshot(0.0).snapshot.queues.usage.any()
