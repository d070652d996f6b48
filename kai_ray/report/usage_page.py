"""The report of usage as a page."""

from __future__ import annotations

from collections.abc import Sequence

from kai_ray.report import svg
from kai_ray.report.page import cards, note, page, section, table
from kai_ray.report.usage import UsageReport, UsageRow
from kai_ray.report.words import days, hours, moment, money, percent

_MOST_BARS = 20
_PARTS = (("held and in use", "c1"), ("held and idle", "c2"), ("held, use not known", "c5"))


def usage_page(report: UsageReport, made_s: float) -> str:
    parts = [
        _cards(report),
        *(note(text) for text in report.notes),
        section("GPUs over time", _over_time(report)),
        section(f"GPU hours by {report.by}", _bars(report.rows, report.by)),
        section("In figures", _table(report)),
        section("GPU types", _types(report)),
    ]
    made = f"kai report usage · {moment(made_s)} UTC"
    title = f"GPU usage by {report.by}"
    return page(title, days(report.since_s, report.until_s), parts, made)


def called(name: str, by: str) -> str:
    """What a row is called: nothing has no name."""
    return name or {"user": "(no user)", "node-pool": "(no node pool)"}.get(by, "(none)")


def _cards(report: UsageReport) -> str:
    total = report.total
    rows = [(hours(total.held_hours), "GPU hours held")]
    if report.capacity_hours:
        held = total.held_hours / report.capacity_hours
        rows.append((percent(min(held, 1.0)), f"of {hours(report.capacity_hours)} there were"))
    rows += [
        (percent(total.used_part), "of those in use"),
        (f"{hours(total.waited_hours)} h", "jobs waited in all"),
        (f"{total.started:,}", "jobs started"),
        (f"{total.evicted:,}", "evictions"),
    ]
    if report.priced:
        rows.append((money(total.cost, report.currency), "cost"))
    return cards(rows)


def _over_time(report: UsageReport) -> str:
    if not report.held:
        return ""
    curves = [
        svg.Curve("there", "c5", report.capacity),
        svg.Curve("held", "c0", report.held, filled=True),
    ]
    if any(value is not None for _, value in report.used):
        curves.append(svg.Curve("in use", "c1", report.used, filled=True))
    return svg.steps(curves, report.since_s, report.until_s, unit="GPUs")


def _bars(rows: Sequence[UsageRow], by: str) -> str:
    bars: list[svg.Bar] = []
    for row in rows[:_MOST_BARS]:
        used = row.used_hours or 0.0
        unknown = max(0.0, row.held_hours - row.known_hours)
        idle = max(0.0, row.held_hours - used - unknown)
        bars.append(
            svg.Bar(
                called(row.name, by),
                (("c1", used), ("c2", idle), ("c5", unknown)),
                hours(row.held_hours),
            )
        )
    if not bars:
        return ""
    rest = len(rows) - len(bars)
    more = f'<p class="sub">and {rest} more, in the table below</p>' if rest > 0 else ""
    return svg.bars(bars) + svg.legend(_PARTS) + more


def _table(report: UsageReport) -> str:
    priced = report.priced
    heads = [report.by.capitalize(), "Held", "Asked", "In use", "Waited (h)"]
    heads += ["Started", "Failed", "Evicted", *(["Cost"] if priced else [])]

    def cells(row: UsageRow) -> list[str]:
        made = [
            called(row.name, report.by),
            hours(row.held_hours),
            hours(row.asked_hours),
            percent(row.used_part),
            hours(row.waited_hours),
            f"{row.started:,}",
            f"{row.failed:,}",
            f"{row.evicted:,}",
        ]
        return [*made, money(row.cost, report.currency)] if priced else made

    numbers = [False, *([True] * (len(heads) - 1))]
    foot = ["Total", *cells(report.total)[1:]]
    return table(heads, (cells(row) for row in report.rows), numbers, foot)


def _types(report: UsageReport) -> str:
    whole = report.total.held_hours or 1.0
    rows = [
        (product or "unknown", hours(held), percent(held / whole))
        for product, held in sorted(report.total.by_type.items(), key=lambda t: -t[1])
    ]
    return table(("Type", "GPU hours held", "Part"), rows, (False, True, True))
