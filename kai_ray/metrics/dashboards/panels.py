"""Panels and dashboards in Grafana's JSON model, laid out in rows of 24 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

COLUMNS = 24
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_SCHEMA = 39


@dataclass(frozen=True)
class Query:
    """PromQL and what its series are called. `instant`: only the present value."""

    expr: str
    legend: str = ""
    instant: bool = False


@dataclass(frozen=True)
class Panel:
    """`unit` is Grafana's: short, percentunit, s, bytes. `kind` is the name of its plugin."""

    title: str
    queries: Sequence[Query]
    about: str = ""
    kind: str = "timeseries"
    unit: str = "short"
    width: int = 12
    height: int = 8
    stacked: bool = False
    limits: Sequence[tuple[float, str]] = ()
    """(from this value on, colour): for figures that are good or bad."""
    dashed: str = ""
    """Series whose name matches are lines of reference: dashed, not filled."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """For tables: label -> title of its column; others are left out."""


@dataclass(frozen=True)
class Choice:
    """A variable that narrows the dashboard: the values of a label."""

    name: str
    title: str
    query: str


def dashboard(
    uid: str, title: str, about: str, rows: Sequence[Sequence[Panel]], choices: Sequence[Choice]
) -> dict[str, Any]:
    """`uid` keeps links alive through updates."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row in rows:
        left = 0
        for panel in row:
            place = {"x": left, "y": top, "w": panel.width, "h": panel.height}
            panels.append(_panel(panel, len(panels) + 1, place))
            left += panel.width
        top += max(panel.height for panel in row)
    return {
        "uid": uid,
        "title": title,
        "description": about,
        "tags": ["kai-ray"],
        "schemaVersion": _SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "links": [_others()],
        "annotations": {"list": []},
        "templating": {"list": [_source(), *(_variable(choice) for choice in choices)]},
        "panels": panels,
    }


def _others() -> dict[str, Any]:
    """The way to the other dashboards."""
    return {
        "type": "dashboards",
        "title": "kai-ray",
        "tags": ["kai-ray"],
        "asDropdown": True,
        "includeVars": False,
        "keepTime": True,
    }


def _source() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
    }


def _variable(choice: Choice) -> dict[str, Any]:
    return {
        "name": choice.name,
        "label": choice.title,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"query": choice.query, "refId": choice.name},
        "definition": choice.query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _DATASOURCE,
        "gridPos": place,
        "targets": [_target(panel, i, query) for i, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": _overrides(panel)},
        "options": _options(panel),
    }
    if panel.kind == "table":
        made["transformations"] = _columns(panel)
    return made


def _target(panel: Panel, i: int, query: Query) -> dict[str, Any]:
    now = query.instant or panel.kind in ("stat", "table", "bargauge", "piechart")
    return {
        "refId": chr(ord("A") + i),
        "datasource": _DATASOURCE,
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "instant": now,
        "range": not now,
        "format": "table" if panel.kind == "table" else "time_series",
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    made: dict[str, Any] = {"unit": panel.unit}
    steps = [{"color": "green" if panel.limits else "blue", "value": None}]
    steps += [{"color": colour, "value": value} for value, colour in panel.limits]
    made["thresholds"] = {"mode": "absolute", "steps": steps}
    if panel.unit == "percentunit":
        made |= {"min": 0, "max": 1}
    if panel.kind == "timeseries":
        made["custom"] = {
            "lineWidth": 1,
            "fillOpacity": 30 if panel.stacked else 8,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none"},
        }
        made["min"] = 0
    return made


def _overrides(panel: Panel) -> list[dict[str, Any]]:
    if not panel.dashed:
        return []
    line = {"fill": "dash", "dash": [6, 4]}
    return [
        {
            "matcher": {"id": "byRegexp", "options": panel.dashed},
            "properties": [
                {"id": "custom.lineStyle", "value": line},
                {"id": "custom.fillOpacity", "value": 0},
                {"id": "custom.stacking", "value": {"mode": "none"}},
            ],
        }
    ]


def _options(panel: Panel) -> dict[str, Any]:
    if panel.kind == "timeseries":
        return {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    if panel.kind in ("stat", "bargauge"):
        reduce = {"calcs": ["lastNotNull"], "fields": "", "values": False}
        made: dict[str, Any] = {"reduceOptions": reduce}
        if panel.kind == "stat":
            return made | {"colorMode": "value", "graphMode": "none", "textMode": "auto"}
        return made | {"orientation": "horizontal", "displayMode": "gradient"}
    if panel.kind == "table":
        return {"showHeader": True, "sortBy": []}
    return {}


def _columns(panel: Panel) -> list[dict[str, Any]]:
    """One row for equal labels, with a column for each query."""
    names = {f"Value #{chr(ord('A') + i)}": q.legend for i, q in enumerate(panel.queries)}
    if len(panel.queries) == 1:
        names = {"Value": panel.queries[0].legend}
    shown = {**panel.renamed, **names}
    return [
        {"id": "merge", "options": {}},
        {
            "id": "organize",
            "options": {
                "renameByName": shown,
                "indexByName": {name: i for i, name in enumerate(shown)},
                "includeByName": dict.fromkeys(shown, True),
            },
        },
    ]
