"""Devices that are set aside, as annotations of nodes name them."""

from __future__ import annotations

import pytest

from kai_ray.api import labels as L
from kai_ray.encode import bad_devices
from kai_ray.encode.bad_devices import BadDevice


@pytest.mark.parametrize(
    ("annotations", "names"),
    [
        ({}, []),
        ({L.UNHEALTHY_DEVICES: "GPU-1, GPU-0,GPU-1"}, ["GPU-0", "GPU-1"]),
        ({L.UNHEALTHY_DEVICES: " ,"}, []),
        ({L.BAD_DEVICES: '{"g": {"reason": "fails", "until": "2026-01-01T00:00:00Z"}}'}, ["g"]),
        ({L.BAD_DEVICES: "no json"}, []),
        ({L.BAD_DEVICES: "[1]"}, []),
        ({L.BAD_DEVICES: '{"g": 5}'}, []),
        ({L.BAD_DEVICES: '{"g": {}}', L.UNHEALTHY_DEVICES: "h"}, ["g", "h"]),
    ],
)
def test_annotations_name_devices(annotations: dict[str, str], names: list[str]) -> None:
    assert [device.name for device in bad_devices.read(annotations)] == names


def test_what_is_written_is_read() -> None:
    device = BadDevice("g", "3 pods failed", "2026-01-01T00:00:00Z")
    text = bad_devices.written({"g": device})
    assert bad_devices.read({L.BAD_DEVICES: text}) == (device,)
    assert bad_devices.written({}) is None
