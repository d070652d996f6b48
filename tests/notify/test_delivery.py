"""Messages reach webhooks, in order, whatever those do; and who sends them never waits."""

from __future__ import annotations

import itertools
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_ray.sight.notify import Channel, Delivery, NotifyConfig
from kai_ray.sight.notify.lanes import Limits
from kai_ray.sight.notify.message import Message, body, escaped
from tests.notify.webhooks import hanging, until, webhook
from tests.real.pki import Authority

QUICK = Limits(deadline_s=0.3, first_retry_s=0.02, last_retry_s=0.1, keep_s=30.0)
LOOPBACK = NotifyConfig(hosts=("localhost", "127.0.0.1"))
Open = Callable[..., Delivery]


@pytest.fixture
def opened() -> Iterator[Open]:
    made: list[Delivery] = []

    def open_(config: NotifyConfig = LOOPBACK, limits: Limits = QUICK) -> Delivery:
        made.append(Delivery(config, limits))
        return made[-1]

    yield open_
    for delivery in made:
        delivery.stop(0.0)


def about(name: str, kind: str = "started", text: str = "") -> Message:
    return Message(kind, "team-a", name, "RayJob", "vision", 8.0, text, "ada")


def test_a_message_arrives_in_the_form_that_slack_takes(opened: Open) -> None:
    with webhook() as hook:
        delivery = opened()
        delivery.send(hook.url, about("train", "evicted", "Reclaimed for <owner> & others"))
        until(lambda: delivery.figures().sent == 1)
    (got,) = hook.bodies
    assert got["text"].endswith(
        "RayJob team-a/train had to leave: Reclaimed for &lt;owner&gt; &amp; others"
    )
    (block,) = got["blocks"]
    assert block["type"] == "section" and block["text"]["type"] == "mrkdwn"
    assert "*RayJob team-a/train* had to leave" in block["text"]["text"]
    assert "queue vision · 8 GPUs · by ada" in block["text"]["text"]
    assert hook.headers[0]["Content-Type"] == "application/json; charset=utf-8"


def test_what_fails_for_a_while_is_tried_again_less_and_less_often(opened: Open) -> None:
    with webhook(answer=lambda n: (503 if n < 4 else 200, {})) as hook:
        delivery = opened(limits=Limits(first_retry_s=0.04, last_retry_s=9.0))
        delivery.send(hook.url, about("train"))
        until(lambda: delivery.figures().sent == 1)
    assert delivery.figures().retried == 4
    assert delivery.figures().problems == ()
    pauses = [b - a for a, b in itertools.pairwise(hook.times)]
    assert all(took >= 0.75 * 0.04 * 2**n for n, took in enumerate(pauses))


def test_a_server_that_asks_for_time_is_given_it(opened: Open) -> None:
    with webhook(answer=lambda n: (429, {"Retry-After": "1"}) if n == 0 else (200, {})) as hook:
        delivery = opened()
        delivery.send(hook.url, about("train"))
        until(lambda: delivery.figures().sent == 1)
    assert hook.times[1] - hook.times[0] >= 1.0


@pytest.mark.parametrize("status", [302, 400, 403, 404, 410])
def test_a_refusal_is_final_and_nothing_is_followed_elsewhere(opened: Open, status: int) -> None:
    with webhook() as other:
        with webhook(answer=lambda n: (status, {"Location": other.url})) as hook:
            delivery = opened()
            delivery.send(hook.url, about("train"))
            until(lambda: delivery.figures().refused == 1)
        assert len(hook.bodies) == 1
        assert other.bodies == []
    ((host, why),) = delivery.figures().problems
    assert host.startswith("localhost:") and "secret" not in host
    assert str(status) in why


@pytest.mark.parametrize("drip", [b"", b"HTTP/1.1 200 OK\r\nX-More: 1\r\n"], ids=["mute", "drips"])
def test_a_webhook_that_hangs_holds_up_nobody(opened: Open, drip: bytes) -> None:
    with webhook() as hook, hanging(drip) as stuck:
        delivery = opened(limits=Limits(deadline_s=0.3, first_retry_s=0.1, workers=2))
        began = time.monotonic()
        for number in range(50):
            delivery.send(stuck, about(f"j{number}"))
        delivery.send(hook.url, about("other"))
        assert time.monotonic() - began < 5.0
        until(lambda: delivery.figures().sent == 1)
        until(lambda: delivery.figures().retried > 0)
        assert "within 0.3 s" in delivery.figures().problems[0][1]
        assert delivery.figures().waiting == 50


def test_channels_are_served_while_every_address_hangs(opened: Open) -> None:
    with webhook() as hook, hanging() as stuck:
        config = NotifyConfig({"ops": Channel(hook.url)}, hosts=("127.0.0.1",))
        delivery = opened(config, Limits(deadline_s=20.0, workers=3))
        for number in range(20):
            delivery.send(f"{stuck}{number}", about("j"))
        time.sleep(0.05)
        delivery.send("ops", about("train"))
        until(lambda: len(hook.bodies) == 1, timeout_s=15.0)


def test_addresses_take_no_room_from_channels(opened: Open) -> None:
    with webhook(answer=lambda n: (503 if n == 0 else 200, {})) as hook:
        config = NotifyConfig({"ops": Channel(hook.url)}, hosts=("127.0.0.1",))
        limits = Limits(deadline_s=0.1, first_retry_s=60, lanes=3, messages=6)
        delivery = opened(config, limits)
        for number in range(12):
            delivery.send(f"http://127.0.0.1:9/{number % 3}", about("j"))
        until(lambda: delivery.figures().retried == 3)
        assert delivery.figures().waiting == 6
        for number in range(5):
            delivery.send("ops", about(f"k{number}"))
        until(lambda: delivery.figures().retried == 4)
        assert delivery.figures().waiting == 11
        delivery.send("http://127.0.0.1:9/4", about("late"))
        assert delivery.figures().waiting == 11


def test_what_comes_in_meanwhile_goes_out_together_and_in_order(opened: Open) -> None:
    with webhook(answer=lambda n: (500 if n == 0 else 200, {})) as hook:
        delivery = opened()
        for number in range(25):
            delivery.send(hook.url, about(f"j{number:02}"))
        until(lambda: delivery.figures().sent == 25)
    told = [line for text in hook.texts[1:] for line in text.splitlines()]
    assert [line.split()[2] for line in told] == [f"team-a/j{n:02}" for n in range(25)]
    assert len(hook.bodies) < 12


def test_a_full_lane_drops_the_oldest_and_says_how_many(opened: Open) -> None:
    delivery = opened(limits=Limits(deadline_s=0.2, first_retry_s=60, lane=10))
    for number in range(30):
        delivery.send("http://127.0.0.1:9/", about(f"j{number}"))
    until(lambda: delivery.figures().retried == 1)
    assert (delivery.figures().waiting, delivery.figures().dropped) == (10, 20)


def test_nobody_fills_the_memory_with_targets(opened: Open) -> None:
    delivery = opened(limits=Limits(deadline_s=0.1, first_retry_s=60, lanes=5))
    for number in range(9):
        delivery.send(f"http://127.0.0.1:9/{number}", about("j"))
    assert delivery.figures().waiting + delivery.figures().dropped == 9
    assert delivery.figures().dropped == 4


def test_what_could_not_be_brought_for_long_is_given_up(opened: Open) -> None:
    delivery = opened(limits=Limits(deadline_s=0.1, first_retry_s=0.05, keep_s=0.3))
    delivery.send("http://127.0.0.1:9/", about("train"))
    until(lambda: delivery.figures().expired == 1)
    assert delivery.figures().waiting == 0


def test_an_end_lets_go_out_what_is_due_and_does_not_wait_for_what_hangs(opened: Open) -> None:
    with webhook() as hook, hanging() as stuck:
        delivery = opened(limits=Limits(deadline_s=30.0))
        delivery.send(stuck, about("a"))
        delivery.send(hook.url, about("b"))
        began = time.monotonic()
        delivery.stop(0.5)
        assert time.monotonic() - began < 5.0
        assert len(hook.bodies) == 1
        delivery.send(hook.url, about("late"))
        assert delivery.figures().waiting == 1  # the one that hangs


def test_a_channel_may_keep_its_address_in_a_file_that_changes(
    opened: Open, tmp_path: Path
) -> None:
    file = tmp_path / "url"
    with webhook() as first, webhook() as second:
        delivery = opened(NotifyConfig({"ops": Channel(url_file=str(file))}))
        delivery.send("ops", about("a"))
        until(lambda: "No such file" in str(delivery.figures().problems))
        file.write_text(first.url + "\n")
        until(lambda: len(first.bodies) == 1)
        file.write_text(second.url)
        delivery.send("ops", about("b"))
        until(lambda: len(second.bodies) == 1)


def test_a_channel_that_nobody_has_configured_is_named(opened: Open) -> None:
    delivery = opened(NotifyConfig({"ops": Channel("https://example.com/")}))
    delivery.send("opps", about("a"))
    until(lambda: delivery.figures().refused == 1)
    assert delivery.figures().problems == (
        ("opps", "channel 'opps' is not configured (configured: ops)"),
    )


def test_addresses_may_be_forbidden_altogether(opened: Open) -> None:
    with webhook() as hook:
        delivery = opened(NotifyConfig(hosts=("localhost",), addresses=False))
        delivery.send(hook.url, about("a"))
        until(lambda: delivery.figures().refused == 1)
    assert hook.bodies == []


@pytest.mark.parametrize(("name", "arrives"), [("localhost", True), ("elsewhere", False)])
def test_certificates_are_checked_against_the_name(
    opened: Open, tmp_path: Path, name: str, arrives: bool
) -> None:
    authority = Authority()
    pair = authority.server([name])
    for file, text in (
        ("ca", authority.pair.certificate),
        ("crt", pair.certificate),
        ("key", pair.key),
    ):
        (tmp_path / file).write_bytes(text)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    with webhook(tls=tls) as hook:
        delivery = opened(NotifyConfig(hosts=("localhost",), ca_file=str(tmp_path / "ca")))
        delivery.send(hook.url, about("a"))
        until(lambda: bool(delivery.figures().sent or delivery.figures().problems))
        problems = delivery.figures().problems
    assert len(hook.bodies) == arrives
    assert arrives or "CERTIFICATE_VERIFY_FAILED" in problems[0][1]


def test_a_link_leads_to_the_job_in_the_console() -> None:
    got = body([about("a|b>c")], "https://kai.example").decode()
    assert "<https://kai.example/jobs/team-a/RayJob/a%7Cb%3Ec|team-a/a|b&gt;c>" in got


@given(st.text())
def test_no_text_can_call_a_channel_or_pose_as_a_link(text: str) -> None:
    assert not set(escaped(text)) & {"<", ">"}
