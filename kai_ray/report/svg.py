"""Plots as SVG inside a page: no script, nothing from elsewhere; colours are the page's classes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import NamedTuple

from kai_ray.report.axes import time_ticks, value_ticks

WIDTH = 880
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 10, 24
_MOST_POINTS = 1500


class Curve(NamedTuple):
    """`points`: (seconds since 1970, value), in order; a value holds until the next point.

    None: nothing is known from there on.
    """

    name: str
    colour: str  # a class of the page: c0, c1, ...
    points: Sequence[tuple[float, float | None]]
    filled: bool = False


class Band(NamedTuple):
    since_s: float
    until_s: float
    colour: str
    title: str


class Bar(NamedTuple):
    label: str
    parts: Sequence[tuple[str, float]]  # (colour, value), side by side
    text: str


def steps(
    curves: Sequence[Curve], since_s: float, until_s: float, *, unit: str, height: int = 190
) -> str:
    """Values over time."""
    highest = max((v for c in curves for _, v in c.points if v is not None), default=0.0)
    ticks = value_ticks(highest)
    across = _scale(since_s, until_s, _LEFT, WIDTH - _RIGHT)
    up = _scale(0.0, ticks[-1], height - _BOTTOM, _TOP)
    parts = [_grid(ticks, up, unit), _times(since_s, until_s, across, height)]
    for curve in curves:
        parts += _drawn(curve, since_s, until_s, across, up)
    return _svg(height, "".join(parts), unit) + legend((c.name, c.colour) for c in curves)


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """Of (name, colour)."""
    items = "".join(f'<li class="{colour}">{escape(name)}</li>' for name, colour in entries)
    return f'<ul class="legend">{items}</ul>'


def bands(rows: Sequence[Band], since_s: float, until_s: float) -> str:
    """What was the case when, as one strip."""
    height = 58
    across = _scale(since_s, until_s, _LEFT, WIDTH - _RIGHT)
    parts = [_times(since_s, until_s, across, height)]
    for band in rows:
        left, right = across(max(band.since_s, since_s)), across(min(band.until_s, until_s))
        if right < left:
            continue
        parts.append(
            f'<rect class="{band.colour}" x="{left:.1f}" y="8" width="{max(right - left, 0.8):.1f}"'
            f' height="22" rx="2"><title>{escape(band.title)}</title></rect>'
        )
    return _svg(height, "".join(parts), "timeline")


def bars(rows: Sequence[Bar]) -> str:
    """One horizontal bar a row."""
    line, left = 26, 190
    highest = max((sum(v for _, v in row.parts) for row in rows), default=0.0) or 1.0
    room = WIDTH - left - 120
    parts: list[str] = []
    for number, row in enumerate(rows):
        top, x = number * line + 4, float(left)
        label = row.label if len(row.label) <= 26 else f"{row.label[:25]}…"
        parts.append(
            f'<text class="label" x="{left - 8}" y="{top + 14}" text-anchor="end">'
            f"{escape(label)}<title>{escape(row.label)}</title></text>"
        )
        for colour, value in row.parts:
            width = max(0.0, value) / highest * room
            parts.append(
                f'<rect class="{colour}" x="{x:.1f}" y="{top}" width="{width:.1f}" height="18"/>'
            )
            x += width
        parts.append(
            f'<text class="value" x="{x + 6:.1f}" y="{top + 14}">{escape(row.text)}</text>'
        )
    return _svg(len(rows) * line + 8, "".join(parts), "bars")


def _drawn(
    curve: Curve,
    since_s: float,
    until_s: float,
    across: Callable[[float], float],
    up: Callable[[float], float],
) -> list[str]:
    """One path a stretch of known values."""
    found: list[str] = []
    stretch: list[tuple[float, float]] = []
    points = _thinned([p for p in curve.points if p[0] <= until_s])

    def finish(end_s: float) -> None:
        if not stretch:
            return
        path = f"M{across(stretch[0][0]):.1f} {up(stretch[0][1]):.1f}"
        for (_, _), (at_s, value) in itertools.pairwise(stretch):
            path += f"H{across(at_s):.1f}V{up(value):.1f}"
        path += f"H{across(end_s):.1f}"
        if curve.filled:
            ground = f"V{up(0.0):.1f}H{across(stretch[0][0]):.1f}Z"
            found.append(f'<path class="area {curve.colour}" d="{path}{ground}"/>')
        found.append(f'<path class="line {curve.colour}" d="{path}"/>')
        stretch.clear()

    for at_s, value in points:
        at_s = max(at_s, since_s)
        if value is None:
            finish(at_s)
        else:
            stretch.append((at_s, value))
    finish(until_s)
    return found


def _thinned(points: list[tuple[float, float | None]]) -> list[tuple[float, float | None]]:
    """Of each run of too many points the highest."""
    size = -(-len(points) // _MOST_POINTS)
    if size <= 1:
        return points
    groups = (points[i : i + size] for i in range(0, len(points), size))
    return [(g[0][0], max((v for _, v in g if v is not None), default=None)) for g in groups]


def _grid(ticks: Sequence[float], up: Callable[[float], float], unit: str) -> str:
    parts: list[str] = []
    for tick in ticks:
        y = up(tick)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}'
            f"{'%' if unit == '%' else ''}</text>"
        )
    return "".join(parts)


def _times(since_s: float, until_s: float, across: Callable[[float], float], height: int) -> str:
    parts: list[str] = []
    for at_s, text in time_ticks(since_s, until_s):
        x = across(at_s)
        parts.append(
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{height - _BOTTOM}"/>'
            f'<text class="tick" x="{x:.1f}" y="{height - 8}" text-anchor="middle">'
            f"{escape(text)}</text>"
        )
    return "".join(parts)


def _scale(low: float, high: float, first: float, last: float) -> Callable[[float], float]:
    length = (high - low) or 1.0
    return lambda value: first + (value - low) / length * (last - first)


def _svg(height: int, content: str, about: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(about)}">'
        f"{content}</svg>"
    )
