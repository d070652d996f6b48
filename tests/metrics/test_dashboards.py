"""Dashboards can be imported as they are: well formed, nothing on top of anything else."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest

from kai_ray.metrics.dashboards import dashboards
from kai_ray.metrics.dashboards.panels import COLUMNS

ALL = dashboards()


@pytest.mark.parametrize("name", ALL)
def test_panels_lie_side_by_side(name: str) -> None:
    places = [panel["gridPos"] for panel in ALL[name]["panels"]]
    assert all(place["x"] + place["w"] <= COLUMNS for place in places)
    for one, other in itertools.combinations(places, 2):
        apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart or above


@pytest.mark.parametrize("name", ALL)
def test_everything_that_is_referred_to_is_there(name: str) -> None:
    dashboard = ALL[name]
    assert dashboard["uid"] == name
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    variables |= {"__rate_interval", "__range"}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard["panels"])))
    assert used <= variables
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    assert all(_titled(panel) for panel in dashboard["panels"])


def _titled(panel: dict[str, Any]) -> bool:
    references = [target["refId"] for target in panel["targets"]]
    return bool(panel["title"]) and len(set(references)) == len(references) > 0
