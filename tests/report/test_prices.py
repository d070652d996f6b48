"""Prices: the type that fits best, gaps that are told, files that say what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_ray.report.prices import Cost, PriceError, Prices, load, parse

H100 = "NVIDIA-H100-80GB-HBM3"


def test_the_more_of_a_name_is_said_the_more_it_counts() -> None:
    prices = Prices({"H100": 4.0, "h100 80gb": 5.0, "A100": 2.0}, default=1.0)
    assert prices.of(H100) == 5.0
    assert prices.of("NVIDIA-H100-NVL") == 4.0
    assert prices.of("NVIDIA-A100-SXM4-40GB") == 2.0
    assert prices.of("Tesla-T4") == prices.of("") == 1.0
    assert Prices({H100: 9.0, "H100-80GB-HBM3-NVIDIA": 5.0}).of(H100) == 9.0
    assert Prices({"H10": 4.0}).of(H100) is None


def test_a_type_without_a_price_is_left_out_and_said_so() -> None:
    cost = Cost(Prices({"H100": 4.0}))
    cost.add(H100, 10)
    cost.add("Tesla-T4", 2.5)
    cost.add("", 1)
    assert cost.amount == 40
    assert "1 GPU hours on GPUs of unknown type, 2.5 GPU hours on Tesla-T4" in cost.gap()
    assert "add gpuHour.Tesla-T4 or default" in cost.gap()
    assert Cost(Prices(default=2.0)).gap() == ""


def test_a_number_is_the_price_of_every_hour(tmp_path: Path) -> None:
    assert load("2.5") == Prices(default=2.5)
    file = tmp_path / "prices.yaml"
    file.write_text("currency: EUR\ndefault: 1\ngpuHour: {H100: 4.5, A100: 2}\n")
    assert load(str(file)) == Prices({"H100": 4.5, "A100": 2.0}, 1.0, "EUR")
    file.write_text('{"gpuHour": {"H100": 4.5}}')
    assert load(str(file)) == Prices({"H100": 4.5})


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (None, "not a map"),
        ({}, "names no price"),
        ({"gpus": {}}, "unknown field 'gpus': write one of currency, default, gpuHour"),
        ({"gpuHour": [1]}, "gpuHour: is not a map"),
        ({"gpuHour": {"H100": "four"}}, "gpuHour.H100: 'four' is not a number"),
        ({"gpuHour": {"H100": True}}, "gpuHour.H100: True"),
        ({"gpuHour": {"H100": -1}}, "gpuHour.H100: -1 is not a price"),
        ({"gpuHour": {"H100": float("nan")}}, "gpuHour.H100: nan"),
        ({"gpuHour": {100: 1}}, "100 is not a GPU type"),
        ({"default": None}, "names no price"),
        ({"default": 1, "currency": 5}, "currency: 5"),
    ],
)
def test_prices_that_make_no_sense(raw: object, words: str) -> None:
    with pytest.raises(PriceError) as raised:
        parse(raw)
    assert words in str(raised.value)


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "no/such/file"])
def test_what_is_neither_a_price_nor_a_file(text: str) -> None:
    with pytest.raises(PriceError):
        load(text)


@given(st.binary(max_size=60))
def test_no_bytes_make_more_than_an_error(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "prices"
    file.write_bytes(raw)
    try:
        load(str(file))
    except PriceError as error:
        assert str(file) in str(error)
