"""What was on its way when a process ended goes out from the next one."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kai_ray.sight.notify import Delivery, NotifyConfig, Outbox
from kai_ray.sight.notify.lanes import Limits
from kai_ray.sight.notify.message import Message
from kai_ray.sight.notify.outbox import Parcel
from tests.notify.webhooks import until, webhook

TRUSTED = NotifyConfig(hosts=("localhost", "127.0.0.1"))
PATIENT = Limits(deadline_s=0.2, first_retry_s=60.0, save_s=0.05)


def about(name: str) -> Message:
    return Message("started", "team-a", name, "RayJob", "vision", 8.0, "", "ada")


def test_an_orderly_end_keeps_what_could_not_be_brought(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    with webhook(answer=lambda n: (503 if n == 0 else 200, {})) as hook:
        first = Delivery(TRUSTED, PATIENT, outbox=Outbox(file))
        first.send(hook.url, about("one"))
        until(lambda: first.figures().retried == 1)
        first.send(hook.url, about("two"))
        first.stop(0.1)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        second = Delivery(TRUSTED, PATIENT, outbox=Outbox(file))
        second.resume()
        until(lambda: second.figures().sent == 2)
        told = "\n".join(hook.texts[1:]).splitlines()
        assert [line.split()[2] for line in told] == ["team-a/one", "team-a/two"]
        second.stop()
    assert not file.exists()


def test_a_kill_loses_nothing_older_than_a_second(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tests.notify.test_outbox import *\n"
        "made = Delivery(TRUSTED, PATIENT, outbox=Outbox(Path(sys.argv[1])))\n"
        "for n in range(20): made.send('http://127.0.0.1:9/', about(f'j{n}'))\n"
        "time.sleep(60)\n"
    )
    file = tmp_path / "out.json"
    child = subprocess.Popen([sys.executable, "-c", program, str(file)])
    try:
        until(lambda: file.exists() and len(Outbox(file).load()) == 20, 20.0)
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    assert [p.message.name for p in Outbox(file).load()] == [f"j{n}" for n in range(20)]


def test_nothing_is_written_for_what_goes_out_at_once(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    with webhook() as hook:
        delivery = Delivery(TRUSTED, Limits(save_s=0.5), outbox=Outbox(file))
        for number in range(5):
            delivery.send(hook.url, about(f"j{number}"))
        until(lambda: delivery.figures().sent == 5)
        time.sleep(0.6)
        delivery.stop()
    assert list(tmp_path.iterdir()) == []


def test_what_is_too_old_by_then_is_given_up(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    Outbox(file).save([Parcel("ops", time.time() - 4000, about("old"))])
    with webhook() as hook:
        delivery = Delivery(TRUSTED, outbox=Outbox(file))
        delivery.resume()
        until(lambda: delivery.figures().expired == 1)
        delivery.stop()
        assert hook.bodies == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        json.dumps({"version": 99, "parcels": []}).encode(),
        json.dumps({"version": 1, "parcels": [["ops", "soon", {}]]}).encode(),
    ],
)
def test_a_file_that_makes_no_sense_is_put_aside(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "out.json"
    file.write_bytes(content)
    assert Outbox(file).load() == []
    assert (tmp_path / "out.unread").read_bytes() == content
    assert not file.exists()


def test_a_folder_that_cannot_be_written_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = Outbox(tmp_path / "absent" / "out.json")
    for _ in range(3):
        outbox.save([Parcel("ops", 0.0, about("a"))])
    assert len([r for r in caplog.records if "are not kept" in r.message]) == 1
