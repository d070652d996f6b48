"""A Job's podFailurePolicy: what a failed pod means for its Job."""

from __future__ import annotations

from kai_ray.cluster.port import Object


def pod_failure_action(spec: Object, pod: Object) -> str:
    """The action of the first rule that matches: FailJob, Ignore, FailIndex or Count."""
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        if _matches_code(rule.get("onExitCodes"), pod) or _matches_condition(
            rule.get("onPodConditions"), pod
        ):
            return rule["action"]
    return "Count"


def _matches_code(rule: Object | None, pod: Object) -> bool:
    if not rule:
        return False
    values = set(rule.get("values") or ())
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if rule.get("containerName") and status["name"] != rule["containerName"]:
            continue
        ended = (status.get("state") or {}).get("terminated")
        if not ended or ended["exitCode"] == 0:
            continue
        if (ended["exitCode"] in values) == (rule["operator"] == "In"):
            return True
    return False


def _matches_condition(patterns: list[Object] | None, pod: Object) -> bool:
    found = {c["type"]: c["status"] for c in (pod.get("status") or {}).get("conditions") or ()}
    return any(found.get(p["type"]) == p.get("status", "True") for p in patterns or ())
