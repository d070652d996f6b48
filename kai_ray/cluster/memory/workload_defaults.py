"""What the API server fills into the built-in workloads."""

from __future__ import annotations

from typing import Any

from kai_ray.cluster.port import Object

from .pod_defaults import pod_spec


def deployment(obj: Object) -> None:
    spec = spec_of(obj)
    fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = spec.setdefault("strategy", {"type": "RollingUpdate"})
    if strategy.get("type", "RollingUpdate") == "RollingUpdate":
        strategy["type"] = "RollingUpdate"
        fill(strategy.setdefault("rollingUpdate", {}), maxUnavailable="25%", maxSurge="25%")
    _template(spec)


def replica_set(obj: Object) -> None:
    fill(spec_of(obj), replicas=1)
    _template(spec_of(obj))


def replication_controller(obj: Object) -> None:
    replica_set(obj)
    template = spec_of(obj).get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    if labels:
        fill(spec_of(obj), selector=dict(labels))


def stateful_set(obj: Object) -> None:
    spec = spec_of(obj)
    fill(spec, replicas=1, podManagementPolicy="OrderedReady", revisionHistoryLimit=10)
    fill(spec, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
    fill(
        spec,
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Retain"},
    )
    _template(spec)


def daemon_set(obj: Object) -> None:
    spec = spec_of(obj)
    rolling = {"maxUnavailable": 1, "maxSurge": 0}
    fill(spec, revisionHistoryLimit=10)
    fill(spec, updateStrategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    _template(spec)


def job(obj: Object) -> None:
    spec = spec_of(obj)
    fill(spec, completionMode="NonIndexed", suspend=False)
    if "completions" not in spec and "parallelism" not in spec:
        fill(spec, completions=1)
    fill(spec, parallelism=1, backoffLimit=6, manualSelector=False)
    fill(
        spec,
        podReplacementPolicy="TerminatingOrFailed" if "podFailurePolicy" not in spec else "Failed",
    )
    _template(spec)


def own_its_pods(obj: Object) -> None:
    """A new Job selects the pods that carry its UID."""
    spec, meta = spec_of(obj), obj["metadata"]
    template: Any = spec.get("template")
    if spec.get("manualSelector") or not isinstance(template, dict):
        return
    uid, name = meta["uid"], meta["name"]
    labels: Any = template.setdefault("metadata", {}).setdefault("labels", {})
    had = bool(labels)
    for prefix in ("", "batch.kubernetes.io/"):
        labels[f"{prefix}controller-uid"] = uid
        labels[f"{prefix}job-name"] = name
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    if had and not meta.get("labels"):
        meta["labels"] = dict(labels)


def cron_job(obj: Object) -> None:
    spec = spec_of(obj)
    fill(spec, concurrencyPolicy="Allow", suspend=False)
    fill(spec, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    template: Any = spec.get("jobTemplate")
    if isinstance(template, dict):
        template.setdefault("metadata", {})
        _template(template.get("spec"))


def _template(obj: Any) -> None:
    """Defaults of the pod template of a workload's spec."""
    template: Any = obj.get("template") if isinstance(obj, dict) else None
    if isinstance(template, dict):
        template.setdefault("metadata", {})
        pod_spec(template.get("spec"))


def spec_of(obj: Object) -> dict[str, Any]:
    spec = obj.setdefault("spec", {})
    return spec if isinstance(spec, dict) else {}


def fill(spec: dict[str, Any], **defaults: Any) -> None:
    for key, value in defaults.items():
        spec.setdefault(key, value)
