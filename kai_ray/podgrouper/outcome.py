"""How a workload ended, by its own status."""

from __future__ import annotations

from typing import Any

from .values import Object

SUCCEEDED, FAILED = "Succeeded", "Failed"
_SUCCESS = {"SUCCEEDED", "Complete", "Completed", "Succeeded", "SuccessCriteriaMet"}
_FAILURE = {"FAILED", "STOPPED", "Failed", "ValidationFailed"}
_WORDS = ("jobStatus", "jobDeploymentStatus", "phase")
_LONGEST = 500


def outcome(workload: Object) -> str:
    """ "Succeeded" or "Failed" once the status says so, else ""."""
    status = workload.get("status") or {}
    for word in (status.get(name) for name in _WORDS):
        if found := _meaning(word):
            return found
    for condition in status.get("conditions") or []:
        if condition.get("status") == "True" and (found := _meaning(condition.get("type"))):
            return found
    return ""


def told(workload: Object) -> str:
    """The outcome and the operator's own words for it, as "Failed: ..."; "" before the end.

    A Ray job whose attempt failed may be tried again: it ends with its deployment.
    """
    status = workload.get("status") or {}
    if "jobDeploymentStatus" in status and not _meaning(status["jobDeploymentStatus"]):
        return ""
    word = outcome(workload)
    if not word:
        return ""
    said = status.get("message") or next(
        (
            c.get("message")
            for c in status.get("conditions") or []
            if c.get("status") == "True" and _meaning(c.get("type")) == word
        ),
        "",
    )
    text = " ".join(str(said or "").split())
    return f"{word}: {text}"[:_LONGEST] if text else word


def _meaning(word: Any) -> str:
    if not isinstance(word, str):
        return ""
    return SUCCEEDED if word in _SUCCESS else FAILED if word in _FAILURE else ""
