"""The pods of a Job, and the compact text of completed indices ("0-2,5")."""

from __future__ import annotations

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object

from .podset import field_env, pod_of, upsert_env
from .world import own_copy, owner_ref

INDEX = "batch.kubernetes.io/job-completion-index"
TRACKING = "batch.kubernetes.io/job-tracking"


def job_labels(job: Object) -> dict[str, str]:
    meta = job["metadata"]
    return {
        "batch.kubernetes.io/controller-uid": meta["uid"],
        "batch.kubernetes.io/job-name": meta["name"],
        "controller-uid": meta["uid"],
        "job-name": meta["name"],
    }


def job_pod(job: Object, index: int | None) -> Object:
    """A pod of the Job's template; `index` for Indexed Jobs."""
    meta, template = job["metadata"], job["spec"]["template"]
    labels = job_labels(job)
    annotations: dict[str, str] = {}
    prefix = f"{meta['name']}-"
    if index is not None:
        labels[INDEX] = annotations[INDEX] = str(index)
        prefix = f"{meta['name']}-{index}-"
        template = own_copy(template)
        spec = template["spec"]
        spec.setdefault("hostname", f"{meta['name']}-{index}")
        for container in (*spec["containers"], *(spec.get("initContainers") or ())):
            path = f"metadata.labels['{INDEX}']"
            upsert_env(container, field_env("JOB_COMPLETION_INDEX", path))
    return pod_of(
        template,
        meta["namespace"],
        generate_name=prefix,
        labels=labels,
        annotations=annotations,
        owner=owner_ref(R.JOB, job),
        finalizers=[TRACKING],
    )


def completion_index(pod: Object) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdigit() else None


def parse_indices(text: str) -> set[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def format_indices(indices: set[int]) -> str:
    parts: list[str] = []
    ordered = sorted(indices)
    start = 0
    for i in range(1, len(ordered) + 1):
        if i < len(ordered) and ordered[i] == ordered[i - 1] + 1:
            continue
        first, last = ordered[start], ordered[i - 1]
        parts.append(str(first) if first == last else f"{first}-{last}")
        start = i
    return ",".join(parts)
