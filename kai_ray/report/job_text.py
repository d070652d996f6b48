"""The report of one job as plain text."""

from __future__ import annotations

from kai_ray.api.durations import spoken
from kai_ray.report.columns import columns
from kai_ray.report.job import JobReport
from kai_ray.report.words import hours, moment, money, percent


def job_text(report: JobReport) -> str:
    parts = [_head(report), _waits(report), _runs(report), _departures(report), _warnings(report)]
    text = "\n".join(part for part in parts if part)
    return text + "".join(f"\nNote: {note}\n" for note in report.notes)


def _head(report: JobReport) -> str:
    job = report.job
    state = job.outcome or job.state.capitalize()
    said = job.message.removeprefix(f"{state}: ")
    types = ", ".join(f"{name or 'unknown'} {hours(held)}" for name, held in report.by_type)
    used = hours(report.used_hours)
    if report.used_hours is not None and report.known_hours > 0:
        used += f" ({percent(report.used_hours / report.known_hours)})"
    rows = [
        ("Job", f"{job.kind} {job.namespace}/{job.name}"),
        ("Queue", job.queue),
        ("User", job.user),
        ("State", f"{state}: {said}" if said else state),
        ("GPUs", f"{job.gpus:g}"),
        ("Created", f"{moment(job.created_s)} UTC"),
        ("Ended", f"{moment(job.ended_s)} UTC" if job.ended_s is not None else ""),
        ("Counted", f"up to {moment(report.until_s)} UTC" if job.ended_s is None else ""),
        ("Waited", spoken(report.waited_s)),
        ("Ran", spoken(report.ran_s)),
        ("Suspended", spoken(report.suspended_s) if report.suspended_s else ""),
        ("Restarts", str(report.restarts)),
        ("Evictions", str(report.evictions)),
        (
            "GPU hours",
            f"{hours(report.asked_hours)} asked, {hours(report.held_hours)} held, {used} used",
        ),
        ("By type", types),
        ("Cost", money(report.cost, report.currency) if report.cost is not None else ""),
    ]
    return "".join(f"{name + ':':<11} {value}\n" for name, value in rows if value)


def _waits(report: JobReport) -> str:
    rows = [
        (w.reason or "(being made)", spoken(w.seconds), str(w.times), w.message)
        for w in report.waits
    ]
    if not rows:
        return ""
    heads = ("REASON", "TIME", "TIMES", "LAST SAID")
    return "Waited for\n" + columns(heads, rows, (False, True, True, False))


def _runs(report: JobReport) -> str:
    rows = [
        (
            moment(r.since_s),
            spoken(r.until_s - r.since_s),
            f"{r.gpus:g}",
            hours(r.gpu_hours),
            str(len(r.nodes)),
            r.ended or "runs",
        )
        for r in report.runs
    ]
    if not rows:
        return ""
    heads = ("STARTED", "RAN", "GPUS", "GPU-HOURS", "NODES", "ENDED")
    return "Ran\n" + columns(heads, rows, (False, True, True, True, True, False))


def _departures(report: JobReport) -> str:
    rows = [(moment(d.at_s), d.rule, d.for_whom, d.message) for d in report.departures]
    if not rows:
        return ""
    return "Had to leave\n" + columns(("WHEN", "RULE", "FOR WHOM", "SAID"), rows, (False,) * 4)


def _warnings(report: JobReport) -> str:
    rows = [(moment(at_s), reason, message) for at_s, reason, message in report.warnings]
    if not rows:
        return ""
    return "Warnings\n" + columns(("WHEN", "REASON", "SAID"), rows, (False,) * 3)
