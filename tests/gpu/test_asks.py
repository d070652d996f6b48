"""What annotations, labels and resource names say about parts of GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from kai_ray.encode import gpu_asks
from kai_ray.encode.gpu_asks import GpuAsk
from kai_ray.encode.gpu_table import card_mib, groups_of, mig_mode
from kai_ray.encode.node_rows import NodeRow
from kai_ray.encode.problems import Malformed
from kai_ray.scheduler.gpu.facts import GpuKind, MigMode

MIG = "nvidia.com/mig-"


@pytest.mark.parametrize(
    ("annotations", "request_", "ask"),
    [
        ({}, (), GpuAsk()),
        ({}, (("nvidia.com/gpu", 2),), GpuAsk(GpuKind.WHOLE)),
        ({}, ((MIG + "1g.10gb", 2),), GpuAsk(GpuKind.MIG)),
        ({"gpu-fraction": "0.5"}, (), GpuAsk(GpuKind.FRACTION, 1, 0.5)),
        ({"gpu-fraction": ".25", "mps": "true"}, (), GpuAsk(GpuKind.FRACTION, 1, 0.25)),
        (
            {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "3"},
            (),
            GpuAsk(GpuKind.FRACTION, 3, 0.5),
        ),
        ({"gpu-memory": "8000"}, (), GpuAsk(GpuKind.MEMORY, 1, 0.0, 8000)),
        ({MIG + "1g.10gb": "1"}, (), GpuAsk(GpuKind.LEGACY_MIG)),
    ],
)
def test_how_a_pod_asks(annotations: dict[str, str], request_: Any, ask: GpuAsk) -> None:
    assert gpu_asks.read(annotations, request_) == ask


@pytest.mark.parametrize("value", ["0", "1", "1.5", "-0.5", "nan", "inf", "", "1_0e-1", "0,5", 0.5])
def test_what_is_no_part_of_a_card(value: Any) -> None:
    with pytest.raises(Malformed, match="decimal between 0 and 1"):
        gpu_asks.read({"gpu-fraction": value}, ())


@pytest.mark.parametrize("value", ["0", "-1", "8Gi", "1e3", "", "٣", None.__class__, "9" * 40])
def test_what_is_no_memory(value: Any) -> None:
    with pytest.raises(Malformed, match="whole MiB"):
        gpu_asks.read({"gpu-memory": value}, ())


@pytest.mark.parametrize(
    ("name", "slices", "cards"),
    [
        ("1g.10gb", 1, 1 / 7),
        ("3g.40gb", 3, 3 / 7),
        ("7g.80gb", 7, 1.0),
        ("1g.10gb.me", 1, 1 / 7),
        ("1g.10gb+me", 1, 1 / 7),
        ("1g.20gb-me", 1, 1 / 7),
        ("1c.3g.40gb", 3, 3 / 7),
        ("2g.12gb", 2, 0.5),  # a card of four slices
        ("4g.24gb", 4, 1.0),
        ("large", 0, 0.0),
    ],
)
def test_what_a_profile_counts(name: str, slices: int, cards: float) -> None:
    assert gpu_asks.slices({MIG + name: 2}) == 2 * slices
    assert gpu_asks.cards(((MIG + name, 2),)) == pytest.approx(2 * cards)


@pytest.mark.parametrize(
    ("text", "mib"),
    [("81559", 81500), ("85520809984", 81500), ("99", 0), ("", 0), ("80GB", 0), ("1" * 30, 0)],
)
def test_memory_of_a_card(text: str, mib: int) -> None:
    assert card_mib({"nvidia.com/gpu.memory": text}) == mib


@pytest.mark.parametrize(
    ("labels", "allocatable", "mode"),
    [
        ({}, {}, MigMode.NONE),
        ({}, {MIG + "1g.10gb": 7}, MigMode.OPEN),
        ({"nvidia.com/mig.strategy": "mixed"}, {MIG + "1g.10gb": 7}, MigMode.MIXED),
        ({"nvidia.com/mig.strategy": "single"}, {}, MigMode.NONE),
        (
            {"nvidia.com/mig.strategy": "single", "node-role.kubernetes.io/mig-enabled": "true"},
            {},
            MigMode.SINGLE,
        ),
        ({"node-role.kubernetes.io/mig-enabled": "false"}, {MIG + "1g.10gb": 7}, MigMode.NONE),
    ],
)
def test_how_cards_are_partitioned(
    labels: dict[str, str], allocatable: dict[str, int], mode: MigMode
) -> None:
    assert mig_mode(NodeRow(True, False, allocatable, labels, ())) is mode


def test_groups_of_one_and_of_several_devices() -> None:
    one = {"metadata": {"labels": {"runai-gpu-group": "g", "app": "x"}}}
    several = {"metadata": {"labels": {"runai-gpu-group/b": "b", "runai-gpu-group/a": "a"}}}
    assert groups_of(one) == ("g",)
    assert groups_of(several) == ("a", "b")
    assert groups_of({"metadata": {}}) == ()
