"""Asking a head to empty workers: from threads, again and again, and told apart when it fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping

import pytest

from kai_ray.cluster.port import Key
from kai_ray.controllers.drainer import Drain, DrainRequest, RayWorker
from kai_ray.ray import GcsDrainer
from kai_ray.ray.gcs import Gcs, GcsUnavailable
from kai_ray.ray.messages import PREEMPTION
from tests.ray.head import DEAD, DRAINING, IDLE, Head, Node

WORKER = RayWorker("uid-w", "ray-w-0", "10.0.0.7")


@pytest.fixture
def drainer() -> Iterator[GcsDrainer]:
    made = GcsDrainer(lambda address: Gcs(address, timeout_s=2.0))
    yield made
    made.close()


def ask(address: str, *workers: RayWorker) -> DrainRequest:
    return DrainRequest(Key("default", "ray"), address, workers or (WORKER,), 2000.5, "room for x")


def until(
    drainer: GcsDrainer,
    request: DrainRequest,
    done: Callable[[Mapping[str, Drain]], bool],
) -> Mapping[str, Drain]:
    news, now = threading.Event(), 1000.0
    end = time.monotonic() + 20
    while time.monotonic() < end:
        found = drainer.look(request, now, news.set)
        if done(found):
            return found
        news.wait(0.05)
        news.clear()
        now += 1.0
    raise AssertionError(f"it stays at {found}")


def is_(word: str) -> Callable[[Mapping[str, Drain]], bool]:
    return lambda found: all(drain.word == word for drain in found.values())


def test_a_worker_is_drained_with_reason_and_deadline_until_it_has_left(
    drainer: GcsDrainer,
) -> None:
    with Head([Node(b"head", ip="10.0.0.1"), Node(b"w", "ray-w-0", "10.0.0.7")]) as head:
        request = ask(head.address)
        assert drainer.look(request, 0.0, lambda: None) == {"uid-w": Drain("asked")}
        until(drainer, request, is_("draining"))
        assert head.asked == [(b"w", PREEMPTION, "room for x", 2_000_500)]
        head.nodes[1].status = DEAD
        until(drainer, request, is_("drained"))
        assert len(head.asked) == 1, "one that drains is not asked again"


def test_after_a_restart_it_goes_on_where_ray_is(drainer: GcsDrainer) -> None:
    with Head([Node(b"w", "ray-w-0", status=DRAINING)]) as head:
        until(drainer, ask(head.address), is_("draining"))
        assert not head.asked


def test_a_worker_that_no_instance_names_is_found_by_its_address(drainer: GcsDrainer) -> None:
    nodes = [Node(b"a", "", "10.0.0.7"), Node(b"b", "", "10.0.0.8"), Node(b"c", "x", "10.0.0.7")]
    with Head(nodes) as head:
        until(drainer, ask(head.address), is_("draining"))
        assert [node for node, *_ in head.asked] == [b"a"]


def test_a_container_that_came_back_is_another_node_of_the_pod(drainer: GcsDrainer) -> None:
    nodes = [Node(b"old", "ray-w-0", status=DEAD), Node(b"new", "ray-w-0", status=IDLE)]
    with Head(nodes) as head:
        until(drainer, ask(head.address), is_("draining"))
        assert [node for node, *_ in head.asked] == [b"new"]


def test_a_worker_that_ray_does_not_know_has_nothing_to_lose(drainer: GcsDrainer) -> None:
    with Head([Node(b"head")]) as head:
        until(drainer, ask(head.address), is_("drained"))


def test_each_worker_has_its_own_answer(drainer: GcsDrainer) -> None:
    other = RayWorker("uid-o", "ray-o-0", "")
    with Head([Node(b"w", "ray-w-0"), Node(b"o", "ray-o-0", status=DEAD)]) as head:
        found = until(
            drainer,
            ask(head.address, WORKER, other),
            lambda f: "asked" not in {d.word for d in f.values()},
        )
        assert {uid: drain.word for uid, drain in found.items()} == {
            "uid-w": "draining",
            "uid-o": "drained",
        }


def test_a_refusal_is_told_in_rays_words(drainer: GcsDrainer) -> None:
    with Head([Node(b"w", "ray-w-0")], refuses="it is the head") as head:
        found = until(drainer, ask(head.address), is_("refused"))
        assert found["uid-w"].message == "it is the head"


@pytest.mark.parametrize("address", ["", "127.0.0.1:1"])
def test_a_head_that_nobody_reaches_is_given_up(drainer: GcsDrainer, address: str) -> None:
    found = until(drainer, ask(address), is_("unreachable"))
    assert found["uid-w"].message


def test_what_is_no_ray_is_told_from_one(drainer: GcsDrainer) -> None:
    with Head() as head, Gcs(head.address) as gcs, pytest.raises(GcsUnavailable, match="UNKNOWN"):
        gcs.drain(b"nobody", "x", 0)


def test_without_grpc_the_mend_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "grpc", None)
    with pytest.raises(GcsUnavailable, match=r"kai-ray\[ray\]"):
        Gcs("127.0.0.1:1")
