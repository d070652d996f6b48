"""The program in a reservation pod: one device, said once, kept until it is told to end."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.clock import SystemClock
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import ApiError, Unavailable
from kai_ray.gpu import nvml, reservation
from tests.control import objects

UUID = "GPU-8f3b1c2d-0000-1111-2222-333344445555"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    made = MemoryStore(SystemClock(), ())
    install_defaults(made)
    made.create(r.POD, objects.pod("keeper"))
    monkeypatch.setenv("POD_NAME", "keeper")
    monkeypatch.setenv("POD_NAMESPACE", "default")
    return made


def _sees(monkeypatch: pytest.MonkeyPatch, *uuids: str) -> None:
    monkeypatch.setattr(nvml, "uuids", lambda: list(uuids))


def _told(store: MemoryStore) -> str | None:
    notes = store.get(r.POD, "keeper", "default")["metadata"].get("annotations") or {}
    return notes.get("run.ai/reserve_for_gpu_index")


def test_it_names_its_one_device_and_waits(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _sees(monkeypatch, UUID)
    stop, codes = threading.Event(), list[int]()
    thread = threading.Thread(target=lambda: codes.append(reservation.run(store, stop)))
    thread.start()
    thread.join(0.3)
    assert thread.is_alive() and _told(store) == UUID
    stop.set()
    thread.join(5)
    assert codes == [0]


@pytest.mark.parametrize("uuids", [(), ("GPU-a", "GPU-b")])
def test_none_or_several_are_an_error_that_is_said(
    uuids: tuple[str, ...],
    store: MemoryStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    _sees(monkeypatch, *uuids)
    assert reservation.run(store, threading.Event()) == 1
    assert "exactly 1 is expected" in caplog.text
    assert _told(store) is None


def test_without_the_drivers_library_the_environment_tells(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAI_NVML_LIBRARY", "/nowhere/libnone.so")
    monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", UUID)
    assert reservation.device() == UUID
    monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", "void")
    with pytest.raises(LookupError, match="cannot be loaded"):
        reservation.device()


def test_a_server_that_is_away_is_asked_again(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _sees(monkeypatch, UUID)
    monkeypatch.setattr(reservation, "_AGAIN_S", 0.01)
    failures: list[ApiError] = [Unavailable("away"), Unavailable("away")]
    patch = store.patch

    def flaky(*args: object, **kwargs: object) -> object:
        if failures:
            raise failures.pop()
        stop.set()
        return patch(*args, **kwargs)  # type: ignore[arg-type]

    stop = threading.Event()
    monkeypatch.setattr(store, "patch", flaky)
    assert reservation.run(store, stop) == 0
    assert _told(store) == UUID


def test_outside_a_pod_it_says_what_it_is_for(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("POD_NAME")
    assert reservation.run(store, threading.Event()) == 2
    assert "runs in a reservation pod" in caplog.text


DRIVER = r"""
#include <string.h>
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)(long)(i + 1); return 0; }
int nvmlDeviceGetUUID(void *d, char *text, unsigned size) {
  strncpy(text, d == (void *)1 ? "GPU-one" : "GPU-two", size); return 0; }
"""


def test_the_drivers_library_is_called_as_it_is_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, library = tmp_path / "nvml.c", tmp_path / "libnvml.so"
    source.write_text(DRIVER)
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no C compiler")
    monkeypatch.setenv("KAI_NVML_LIBRARY", str(library))
    assert nvml.uuids() == ["GPU-one", "GPU-two"]
