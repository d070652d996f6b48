"""KServe InferenceService: predictor pods serve alone; one over several nodes is a gang."""

from __future__ import annotations

from dataclasses import replace

from kai_ray.podgrouper.build import LARGEST_NAME, build_group
from kai_ray.podgrouper.groups import Group, Member, Owner, owner_reference
from kai_ray.podgrouper.values import Object, count, dig, labels, mapping, name_of
from kai_ray.podgrouper.workload import UNKNOWN_NAME, UNKNOWN_UID, Rule, Workload

COMPONENTS = ("predictor", "transformer", "explainer")
_WORKERS = "spec.predictor.workerSpec"


def inference_service_groups(w: Workload) -> list[Group]:
    if dig(w.subject, _WORKERS) is not None and not _serves_beside(w):
        return [_multi_node(w)]
    if w.pod is not None:
        return [
            build_group(
                w,
                name=f"pg-{name_of(w.pod)}-{(w.pod.get('metadata') or {}).get('uid') or ''}",
                owner=owner_reference(w.pod),
                default_priority="inference",
            )
        ]
    return _planned(w, COMPONENTS) if w.planning else []


def _serves_beside(w: Workload) -> bool:
    """Whether the pod is of the transformer or explainer: those run alone in any case."""
    component = labels(w.pod)
    return component.get("component", "predictor") != "predictor"


def _multi_node(w: Workload) -> Group:
    """Head and workers: as many pods as the pipeline is deep."""
    depth = count(w.subject, f"{_WORKERS}.pipelineParallelSize", 2) or 1
    members = [Member("head", _component(w.subject, "predictor"), 1)]
    if depth > 1:
        worker = mapping(w.subject, _WORKERS)
        members.append(Member("worker", {"spec": worker}, depth - 1))
    return build_group(w, min_member=depth, members=members, default_priority="inference")


def _component(service: Object, name: str) -> Object:
    """A pod template of one component: its own pod fields, or the container of its model."""
    spec = mapping(service, f"spec.{name}")
    containers = [c for c in spec.get("containers") or () if isinstance(c, dict)]
    for part in ("model", *spec):
        model = spec.get(part)
        if isinstance(model, dict) and ("resources" in model or "storageUri" in model):
            containers.append({"name": part, "resources": model.get("resources") or {}})
            break
    meta = {k: spec[k] for k in ("labels", "annotations") if isinstance(spec.get(k), dict)}
    return {"metadata": meta, "spec": {**spec, "containers": containers}}


def _planned(w: Workload, components: tuple[str, ...]) -> list[Group]:
    found: list[Group] = []
    for component in components:
        if dig(w.subject, f"spec.{component}") is None:
            continue
        replicas = count(w.subject, f"spec.{component}.minReplicas", 1)
        one = build_group(
            w,
            name=f"pg-{name_of(w.subject)}-{component}-{UNKNOWN_NAME}-{UNKNOWN_UID}"[:LARGEST_NAME],
            owner=Owner("v1", "Pod"),
            members=(Member(component, _component(w.subject, component), 1),),
            default_priority="inference",
        )
        found += [replace(one)] * (1 if replicas is None else replicas)
    return found


RULE = Rule(inference_service_groups, per_pod=True)
