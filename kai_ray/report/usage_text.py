"""The report of usage as plain text."""

from __future__ import annotations

from kai_ray.report.columns import columns
from kai_ray.report.usage import UsageReport, UsageRow
from kai_ray.report.usage_page import called
from kai_ray.report.words import days, hours, money, percent


def usage_text(report: UsageReport) -> str:
    priced = report.priced
    heads = [report.by.upper(), "HELD", "ASKED", "IN-USE", "WAITED", "STARTED", "FAILED", "EVICTED"]
    heads += ["COST"] if priced else []

    def cells(row: UsageRow, name: str) -> list[str]:
        made = [
            name,
            hours(row.held_hours),
            hours(row.asked_hours),
            percent(row.used_part),
            hours(row.waited_hours),
            f"{row.started}",
            f"{row.failed}",
            f"{row.evicted}",
        ]
        return [*made, money(row.cost, report.currency)] if priced else made

    rows = [cells(row, called(row.name, report.by)) for row in report.rows]
    rows.append(cells(report.total, "TOTAL"))
    text = f"GPU usage, {days(report.since_s, report.until_s)}\n"
    text += "HELD and ASKED in GPU hours, WAITED in hours of jobs\n\n"
    text += columns(heads, rows, [False, *([True] * (len(heads) - 1))])
    if report.capacity_hours:
        part = percent(min(1.0, report.total.held_hours / report.capacity_hours))
        text += f"\n{part} of the {hours(report.capacity_hours)} GPU hours that there were\n"
    return text + "".join(f"\nNote: {note}\n" for note in report.notes)
