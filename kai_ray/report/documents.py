"""Reports as JSON documents and CSV rows: names and units that programs can rely on."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from kai_ray.cluster.clock import rfc3339
from kai_ray.report.curves import Points
from kai_ray.report.job import JobReport
from kai_ray.report.usage import UsageReport, UsageRow

Document = dict[str, Any]

#: Of `job_document` and `usage_document`; grows when a field changes its meaning or goes.
VERSION = 1

USAGE_COLUMNS = (
    "name",
    "gpuHoursHeld",
    "gpuHoursAsked",
    "gpuHoursUsed",
    "gpuHoursUseKnown",
    "hoursWaited",
    "started",
    "ended",
    "failed",
    "evicted",
    "cost",
    "currency",
)


def job_document(report: JobReport) -> Document:
    """Times are RFC 3339, lengths seconds, GPU amounts hours; null = not known."""
    job = report.job
    return {
        "version": VERSION,
        "uid": job.uid,
        "namespace": job.namespace,
        "name": job.name,
        "kind": job.kind,
        "apiVersion": job.api_version,
        "queue": job.queue,
        "user": job.user,
        "state": job.state,
        "outcome": job.outcome,
        "message": job.message,
        "gpus": job.gpus,
        "created": _time(job.created_s),
        "started": _time(job.started_s),
        "ended": _time(job.ended_s),
        "until": _time(report.until_s),
        "waitedSeconds": _round(report.waited_s),
        "ranSeconds": _round(report.ran_s),
        "suspendedSeconds": _round(report.suspended_s),
        "restarts": report.restarts,
        "evictions": report.evictions,
        "gpuHours": {
            "asked": _round(report.asked_hours),
            "held": _round(report.held_hours),
            "used": _round(report.used_hours),
            "useKnown": _round(report.known_hours),
            "byType": {product: _round(hours) for product, hours in report.by_type},
        },
        "cost": _round(report.cost),
        "currency": report.currency,
        "waits": [
            {
                "reason": w.reason,
                "message": w.message,
                "seconds": _round(w.seconds),
                "times": w.times,
            }
            for w in report.waits
        ],
        "runs": [
            {
                "since": _time(r.since_s),
                "until": _time(r.until_s),
                "nodes": list(r.nodes),
                "gpus": r.gpus,
                "gpuHours": _round(r.gpu_hours),
                "ended": r.ended,
            }
            for r in report.runs
        ],
        "departures": [
            {"at": _time(d.at_s), "rule": d.rule, "forWhom": d.for_whom, "message": d.message}
            for d in report.departures
        ],
        "warnings": [
            {"at": _time(at_s), "reason": reason, "message": message}
            for at_s, reason, message in report.warnings
        ],
        "stretches": [
            {
                "since": _time(s.since_s),
                "until": _time(s.until_s),
                "phase": s.phase,
                "reason": s.reason,
                "gpusAsked": s.asked,
                "gpusHeld": s.held,
            }
            for s in report.stretches
        ],
        "use": _points(report.use),
        "notes": list(report.notes),
    }


def usage_document(report: UsageReport) -> Document:
    """Hours are GPU hours, but `hoursWaited`, which are hours of jobs; null = not known."""
    return {
        "version": VERSION,
        "by": report.by,
        "since": _time(report.since_s),
        "until": _time(report.until_s),
        "currency": report.currency,
        "rows": [_usage_row(row) for row in report.rows],
        "total": _usage_row(report.total),
        "gpuHoursOfCluster": _round(report.capacity_hours),
        "series": {
            "gpus": _points(report.capacity),
            "held": _points(report.held),
            "used": _points(report.used),
        },
        "notes": list(report.notes),
    }


def usage_csv(report: UsageReport) -> str:
    """One line a row, without the total. Columns: `by`, then `USAGE_COLUMNS[1:]`."""
    rows = ({**_usage_row(row), "currency": report.currency} for row in report.rows)
    head = [report.by, *USAGE_COLUMNS[1:]]
    return _csv(head, ([row[column] for column in USAGE_COLUMNS] for row in rows))


def job_csv(report: JobReport) -> str:
    """One line a stretch of time."""
    job = report.job
    head = ["namespace", "name", "kind", "queue", "since", "until", "seconds", "phase", "reason"]
    head += ["gpusAsked", "gpusHeld", "nodes"]
    about = [job.namespace, job.name, job.kind, job.queue]
    return _csv(
        head,
        (
            [
                *about,
                _time(s.since_s),
                _time(s.until_s),
                _round(s.seconds),
                s.phase,
                s.reason,
                s.asked,
                s.held,
                " ".join(s.nodes),
            ]
            for s in report.stretches
        ),
    )


def _usage_row(row: UsageRow) -> Document:
    return {
        "name": row.name,
        "gpuHoursHeld": _round(row.held_hours),
        "gpuHoursAsked": _round(row.asked_hours),
        "gpuHoursUsed": _round(row.used_hours),
        "gpuHoursUseKnown": _round(row.known_hours),
        "hoursWaited": _round(row.waited_hours),
        "started": row.started,
        "ended": row.ended,
        "failed": row.failed,
        "evicted": row.evicted,
        "cost": _round(row.cost),
        "byType": {product: _round(hours) for product, hours in row.by_type.items()},
    }


def _csv(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    """Spreadsheets take a text that begins like a formula for one: names come from users."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return "" if value is None else value


def _time(at_s: float | None) -> str | None:
    return None if at_s is None else rfc3339(at_s)


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _points(curve: Points) -> list[list[Any]]:
    return [[_time(at_s), _round(value)] for at_s, value in curve]
