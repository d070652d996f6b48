"""The report of one job as a page."""

from __future__ import annotations

from kai_ray.api.durations import spoken
from kai_ray.report import svg
from kai_ray.report.curves import Points
from kai_ray.report.job import JobReport
from kai_ray.report.lifetime import Stretch
from kai_ray.report.page import cards, note, page, section, table
from kai_ray.report.words import hours, moment, money, percent

_COLOURS = {"waiting": "c2", "running": "c1", "suspended": "c3", "ended": "c5"}
_FEW_NODES = 6


def job_page(report: JobReport, made_s: float) -> str:
    job = report.job
    words = [f"queue {job.queue}" if job.queue else "", f"user {job.user}" if job.user else ""]
    words += [f"{job.gpus:g} GPUs" if job.gpus else "", job.outcome or job.state]
    parts = [
        _cards(report),
        *(note(text) for text in report.notes),
        section("What happened when", _timeline(report)),
        section("GPUs", _gpus(report)),
        section("Use of the GPUs it held", _use(report)),
        section("What it waited for", _waits(report)),
        section("Where it ran", _runs(report)),
        section("Why it had to leave", _departures(report)),
        section("Warnings", _warnings(report)),
        section("GPU types", _types(report)),
    ]
    title = f"{job.kind} {job.namespace}/{job.name}"
    made = f"kai report job · {moment(made_s)} UTC"
    return page(title, " · ".join(w for w in words if w), parts, made)


def _cards(report: JobReport) -> str:
    rows = [
        (spoken(report.waited_s), "waited"),
        (spoken(report.ran_s), "ran"),
        (str(report.restarts), "restarts"),
        (str(report.evictions), "evictions"),
        (hours(report.asked_hours), "GPU hours asked"),
        (hours(report.held_hours), "GPU hours held"),
        (hours(report.used_hours), "GPU hours used"),
    ]
    if report.cost is not None:
        rows.append((money(report.cost, report.currency), "cost"))
    return cards(rows)


def _timeline(report: JobReport) -> str:
    if not report.stretches:
        return ""
    bands = [svg.Band(s.since_s, s.until_s, _COLOURS[s.phase], _said(s)) for s in report.stretches]
    seen = [phase for phase in _COLOURS if any(s.phase == phase for s in report.stretches)]
    legend = svg.legend((phase, _COLOURS[phase]) for phase in seen)
    return svg.bands(bands, report.stretches[0].since_s, report.until_s) + legend


def _said(stretch: Stretch) -> str:
    why = f" ({stretch.reason})" if stretch.reason else ""
    return f"{moment(stretch.since_s)} UTC: {stretch.phase}{why} for {spoken(stretch.seconds)}"


def _gpus(report: JobReport) -> str:
    if not any(s.asked for s in report.stretches):
        return ""
    asked: Points = tuple((s.since_s, s.asked) for s in report.stretches)
    held: Points = tuple((s.since_s, s.held) for s in report.stretches)
    curves = [svg.Curve("asked", "c0", asked), svg.Curve("held", "c1", held, filled=True)]
    return svg.steps(curves, report.stretches[0].since_s, report.until_s, unit="GPUs", height=150)


def _use(report: JobReport) -> str:
    if not any(value is not None for _, value in report.use):
        return ""
    used: Points = tuple((at, None if v is None else 100 * v) for at, v in report.use)
    curves = [svg.Curve("in use", "c0", used, filled=True)]
    since_s = report.stretches[0].since_s if report.stretches else report.use[0][0]
    return svg.steps(curves, since_s, report.until_s, unit="%")


def _waits(report: JobReport) -> str:
    rows = [
        (w.reason or "its pods are being made", spoken(w.seconds), str(w.times), w.message)
        for w in report.waits
    ]
    return table(("Reason", "Time", "Times", "Last said"), rows, (False, True, True, False))


def _runs(report: JobReport) -> str:
    rows = [
        (
            moment(r.since_s),
            spoken(r.until_s - r.since_s),
            f"{r.gpus:g}",
            hours(r.gpu_hours),
            _few(r.nodes),
            r.ended or "runs",
        )
        for r in report.runs
    ]
    heads = ("Started (UTC)", "Ran", "GPUs", "GPU hours", "Nodes", "Ended")
    return table(heads, rows, (False, True, True, True, False, False))


def _departures(report: JobReport) -> str:
    rows = [(moment(d.at_s), d.rule, d.for_whom, d.message) for d in report.departures]
    return table(("When (UTC)", "Rule", "For whom", "Said"), rows, (False,) * 4)


def _warnings(report: JobReport) -> str:
    rows = [(moment(at_s), reason, message) for at_s, reason, message in report.warnings]
    return table(("When (UTC)", "Reason", "Said"), rows, (False,) * 3)


def _types(report: JobReport) -> str:
    whole = report.held_hours or 1.0
    rows = [
        (product or "unknown", hours(held), percent(held / whole))
        for product, held in report.by_type
    ]
    return table(("Type", "GPU hours held", "Part"), rows, (False, True, True))


def _few(nodes: tuple[str, ...]) -> str:
    shown = ", ".join(nodes[:_FEW_NODES])
    more = len(nodes) - _FEW_NODES
    return f"{shown} and {more} more" if more > 0 else shown
