"""Reports: what jobs and queues had, used and cost, as documents, tables or pages to keep."""

from __future__ import annotations

from typing import Any

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Forbidden, NotFound, Unavailable
from kai_ray.console.api.past import reader
from kai_ray.console.asking import Ask, Refused, Text
from kai_ray.history.file import HistoryError
from kai_ray.report import documents
from kai_ray.report.job import NoSuchJob, find, job_report
from kai_ray.report.job_page import job_page
from kai_ray.report.usage import BY, usage_report
from kai_ray.report.usage_page import usage_page
from kai_ray.report.window import WindowError, window

_FORMATS = ("json", "csv", "html")


def usage(ask: Ask) -> dict[str, Any] | Text:
    """GPU hours asked, held and used, waits, evictions and cost, summed up. Sums of users and kinds
    are for who may see the jobs of all namespaces."""
    view, by, form = ask.view, ask.text("by") or "queue", _format(ask)
    if by not in BY:
        known = ", ".join(BY)
        raise Refused(f"{by[:40]!r} is nothing to sum up by: {known}", field="by", code=400)
    _allowed(ask, by)
    history = reader(view)
    try:
        now_s = history.about().last_s
        since_s, until_s = window(ask.text("since") or "7d", ask.text("until"), now_s)
        found = usage_report(history, by, since_s, until_s, view.prices)
    except WindowError as error:
        raise Refused(str(error), field="since", code=400) from error
    except HistoryError as error:
        raise Unavailable(str(error)) from error
    if form == "csv":
        return Text(documents.usage_csv(found), "text/csv; charset=utf-8", f"usage-{by}.csv")
    if form == "html":
        return Text(usage_page(found, now_s), "text/html; charset=utf-8", f"usage-{by}.html")
    return documents.usage_document(found)


def job(ask: Ask) -> dict[str, Any] | Text:
    """Waits and their reasons, runs, evictions, GPU hours and cost of one job, also of a gone one:
    the youngest of that name."""
    view, path, form = ask.view, ask.path, _format(ask)
    ask.must_see(path["namespace"])
    history = reader(view)
    try:
        row = find(history, path["namespace"], path["name"], path["kind"])
        now_s = history.about().last_s
        found = job_report(history, row, now_s, view.prices)
    except NoSuchJob as error:
        raise NotFound(str(error)) from error
    except HistoryError as error:
        raise Unavailable(str(error)) from error
    name = f"{path['namespace']}-{path['name']}"
    if form == "csv":
        return Text(documents.job_csv(found), "text/csv; charset=utf-8", f"{name}.csv")
    if form == "html":
        return Text(job_page(found, now_s), "text/html; charset=utf-8", f"{name}.html")
    return documents.job_document(found)


def _format(ask: Ask) -> str:
    form = ask.text("format") or "json"
    if form not in _FORMATS:
        raise Refused(f"is one of {', '.join(_FORMATS)}", field="format", code=400)
    return form


def _allowed(ask: Ask, by: str) -> None:
    if by == "queue":
        ask.must_list(R.QUEUE)
    elif by == "node-pool":
        ask.must_list(R.NODE)
    elif ask.sees(ask.view) is not None:
        raise Forbidden(f"sums by {by} are for who may see the jobs of all namespaces")
