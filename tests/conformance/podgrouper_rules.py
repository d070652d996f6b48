"""What our rules make of KAI's expectation of a vector, computed from the input.

Written apart from the product, and simpler: it knows only what vectors can hold.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

Wanted = dict[str, Any]
SUBMITTER = "submitter"
TOPOLOGY = "kai.scheduler/topology"


def rewrite(case: Mapping[str, Any]) -> tuple[str, Wanted]:
    """("differs by rule N" or "", what is expected then)."""
    wanted: Wanted = copy.deepcopy(dict(case["expect"]))
    given = case["input"]
    grouper = given["grouper"]
    rules: list[int] = []
    if grouper.startswith("ray."):
        rules += _ray(given, wanted)
    elif grouper == "jobset.JobSetGrouper":
        rules += _job_set(given, wanted)
    rules += _labels(given, wanted)
    return (f"differs by rule {rules[0]}" if rules else ""), wanted


def _ray(given: Mapping[str, Any], wanted: Wanted) -> list[int]:
    top = given["top_owner"]
    spec = top.get("spec") or {}
    if spec.get("clusterSelector"):
        return _only_submitter(given, wanted)
    cluster = top
    if given["grouper"] != "ray.RayClusterGrouper":
        found = [r["object"] for r in given["api_reads"] if (r["object"] or {}).get("kind")]
        clusters = [o for o in found if o["kind"] == "RayCluster"]
        if not clusters:
            return []
        cluster = clusters[0]
    tree, total, deep = _ray_tree(cluster.get("spec") or {})
    inherited = _note(top, TOPOLOGY)
    nameless = _needs_topology(cluster.get("spec") or {})
    if tree is None or (nameless and not inherited):
        return []
    mode = spec.get("submissionMode") or "K8sJobMode"
    late = given["grouper"] == "ray.RayJobGrouper" and mode == "K8sJobMode"
    if late:
        tree.append(_leaf(SUBMITTER, 0, None))
    rules: list[int] = []
    meta = wanted["metadata"]
    if meta is None:
        if not nameless and "replicas" not in str(wanted["error"]).lower():
            return []
        meta = wanted["metadata"] = _bare_metadata(given)
        wanted["error"] = None
        rules.append(5 if nameless else 2)
    own = cluster["metadata"]
    name = f"pg-{own.get('name', '')}-{own.get('uid', '')}"
    if meta["name"] != name:
        meta["name"] = name
        rules.append(1)
    theirs = _kais_floors(cluster.get("spec") or {})
    ours = [(s["name"], s["min_available"]) for s in tree]
    if not rules.count(2) and not rules.count(5) and ours == theirs:
        return rules  # the input gives our rules no say: whatever differs is a failure
    if meta["min_available"] != total:
        meta["min_available"] = total
        rules.append(3 if deep else 2)
    flat = not meta["sub_groups"] and not rules.count(2) and _legacy_flat(given)
    merged = [] if flat else _merge(tree, meta["sub_groups"], given["pod"])
    if rules[:1] in ([2], [5]):
        _constrain(merged, cluster.get("spec") or {}, inherited)
    if _shape(merged) != _shape(meta["sub_groups"]):
        meta["sub_groups"] = merged
        rules.append(3 if deep else 2)
    return rules


def _legacy_flat(given: Mapping[str, Any]) -> bool:
    groups = [
        r["object"]
        for r in given["api_reads"]
        if r["object"] and r["object"].get("kind") in (None, "PodGroup") and "minMember" in str(r)
    ]
    return any(not (g.get("spec") or {}).get("subGroups") for g in groups)


def _only_submitter(given: Mapping[str, Any], wanted: Wanted) -> list[int]:
    if wanted["metadata"] is None:
        wanted["metadata"], wanted["error"] = _bare_metadata(given), None
    wanted["metadata"].update(min_available=1, sub_groups=[])
    return [1]


def _kais_floors(spec: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Subgroups and minima by KAI's formula, which knows neither suspend nor the autoscaler."""
    found = [("headgroup", 1)]
    for i, group in enumerate(spec.get("workerGroupSpecs") or ()):
        floor = group.get("minReplicas") or group.get("replicas") or 0
        if floor and not group.get("suspended"):
            name = group.get("groupName") or f"worker-group-{i}"
            found.append((name, floor * (group.get("numOfHosts") or 1)))
    return found


def _ray_tree(spec: Mapping[str, Any]) -> tuple[list[dict[str, Any]] | None, int, bool]:
    """(subgroups, pods that must start, whether replicas span hosts); None if absurd."""
    grows = spec.get("enableInTreeAutoscaling") is True
    tree = [_leaf("headgroup", 1, None)]
    total, deep = 1, False
    for i, group in enumerate(spec.get("workerGroupSpecs") or ()):
        low, wanted = group.get("minReplicas") or 0, group.get("replicas") or 0
        high = group.get("maxReplicas")
        if high is not None and low > high:
            return None, 0, False
        now = max(wanted, low) if high is None else min(max(wanted, low), high)
        if group.get("suspend") or not now:
            continue
        floor = low if grows else now
        hosts = group.get("numOfHosts") or 1
        name = (group.get("groupName") or f"worker-group-{i}").lower()
        total += floor * hosts
        if hosts == 1:
            tree.append(_leaf(name, floor, None))
            continue
        deep = True
        tree.append({**_leaf(name, 0, None), "min_sub_group": floor})
        tree += [_leaf(f"{name}-{n}", hosts, name) for n in range(now)]
    return tree, total, deep


def _needs_topology(spec: Mapping[str, Any]) -> bool:
    """Whether a template asks for a level of no topology: that stays an error."""
    templates = [(spec.get("headGroupSpec") or {}).get("template") or {}]
    templates += [g.get("template") or {} for g in spec.get("workerGroupSpecs") or ()]
    for template in templates:
        notes = (template.get("metadata") or {}).get("annotations") or {}
        levels = [k for k in notes if k.startswith("kai.scheduler/topology-")]
        if levels and not notes.get("kai.scheduler/topology"):
            return True
    return False


def _constrain(subs: list[dict[str, Any]], spec: Mapping[str, Any], inherited: str) -> None:
    """Each group's constraint from its template; a level without a topology has the workload's."""
    templates = {"headgroup": (spec.get("headGroupSpec") or {}).get("template")}
    for i, group in enumerate(spec.get("workerGroupSpecs") or ()):
        name = (group.get("groupName") or f"worker-group-{i}").lower()
        templates[name] = group.get("template")
    parents = {s["parent"] for s in subs}
    for sub in subs:
        template = templates.get(sub["parent"] or sub["name"]) or {}
        required = _note(template, f"{TOPOLOGY}-required-placement")
        preferred = _note(template, f"{TOPOLOGY}-preferred-placement")
        if sub["name"] not in parents and (required or preferred):
            sub["topology_constraint"] = {
                "topology": _note(template, TOPOLOGY) or inherited,
                "required_level": required,
                "preferred_level": preferred,
            }


def _note(obj: Mapping[str, Any], key: str) -> str:
    return ((obj.get("metadata") or {}).get("annotations") or {}).get(key) or ""


def _leaf(name: str, floor: int, parent: str | None) -> dict[str, Any]:
    return {
        "name": name,
        "min_available": floor,
        "parent": parent,
        "pods": [],
        "topology_constraint": None,
    }


def _merge(
    tree: list[dict[str, Any]], theirs: list[dict[str, Any]], pod: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Our tree with what KAI says of pods and topology of subgroups of the same name."""
    known = {s["name"]: s for s in theirs}
    parents = {s["parent"] for s in tree}
    for sub in tree:
        same = known.get(sub["name"]) or {}
        if sub["name"] not in parents:
            sub["pods"] = same.get("pods") or []
            above = known.get(sub["parent"] or "") or same
            sub["topology_constraint"] = above.get("topology_constraint")
    index = ((pod.get("metadata") or {}).get("labels") or {}).get(
        "ray.io/worker-group-replica-index"
    )
    for sub in tree:
        held = (known.get(sub["parent"] or "") or {}).get("pods")
        if held and sub["name"] == f"{sub['parent']}-{index}":
            sub["pods"] = held
    return tree


def _shape(subs: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (s["name"], s.get("min_available") or 0, s.get("min_sub_group"), s.get("parent"))
        for s in subs
    ]


def _bare_metadata(given: Mapping[str, Any]) -> Wanted:
    """What KAI's default says of a workload that it refuses for another reason."""
    top, pod = given["top_owner"], given["pod"]
    meta = top.get("metadata") or {}
    labels, notes = dict(meta.get("labels") or {}), dict(meta.get("annotations") or {})
    above = {k: v for k, v in ((pod.get("metadata") or {}).get("labels") or {}).items()}
    version = str(top.get("apiVersion") or "")
    notes["kai.scheduler/top-owner-metadata"] = "".join(
        f"{k}: {_quoted(v)}\n"
        for k, v in (
            ("name", str(meta.get("name", ""))),
            ("uid", str(meta.get("uid", ""))),
            ("group", version.rpartition("/")[0]),
            ("version", version.rpartition("/")[2]),
            ("kind", str(top.get("kind", ""))),
        )
    )
    key = "kai.scheduler/queue"
    return {
        "name": f"pg-{meta.get('name', '')}-{meta.get('uid', '')}",
        "namespace": (pod.get("metadata") or {}).get("namespace", ""),
        "queue": labels.get(key) or above.get(key) or "default-queue",
        "priority_class_name": labels.get("ray.io/priority-class-name") or "train",
        "preemptibility": labels.get("kai.scheduler/preemptibility"),
        "min_available": 0,
        "owner": {**{k: top.get(k, "") for k in ("apiVersion", "kind")}, **_identity(meta)},
        "labels": labels,
        "annotations": notes,
        "sub_groups": [],
        "topology_constraint": {
            "topology": _note(top, TOPOLOGY),
            "required_level": _note(top, f"{TOPOLOGY}-required-placement"),
            "preferred_level": _note(top, f"{TOPOLOGY}-preferred-placement"),
        },
    }


def _identity(meta: Mapping[str, Any]) -> dict[str, str]:
    return {"name": meta.get("name", ""), "uid": meta.get("uid", "")}


def _quoted(value: str) -> str:
    return f'"{value}"' if not value or value.isdecimal() else value


def _job_set(given: Mapping[str, Any], wanted: Wanted) -> list[int]:
    """Rule 6: only what may run now is asked for, and never more than there is to do."""
    meta = wanted["metadata"]
    if meta is None or not meta["sub_groups"]:
        return []
    top = given["top_owner"]
    spec = top.get("spec") or {}
    jobs = [j for j in spec.get("replicatedJobs") or ()]
    in_order = (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
    later = {j["name"] for i, j in enumerate(jobs) if j.get("dependsOn") or (in_order and i)}
    work = {
        j["name"]: ((j.get("template") or {}).get("spec") or {}).get("completions") for j in jobs
    }
    changed = False
    for sub in meta["sub_groups"]:
        if sub["name"] in later and sub.get("min_sub_group"):
            sub["min_sub_group"], changed = 0, True
        limit = work.get(sub.get("parent") or "")
        if limit is not None and sub["min_available"] > limit:
            sub["min_available"], changed = limit, True
    notes = (top.get("metadata") or {}).get("annotations") or {}
    if not notes.get("kai.scheduler/batch-min-member"):
        sets = sum(1 for s in meta["sub_groups"] if not s.get("parent"))
        if meta.get("min_sub_group") != sets:
            meta["min_sub_group"], changed = sets, True
    return [6] if changed else []


def _labels(given: Mapping[str, Any], wanted: Wanted) -> list[int]:
    """Rule 7: the top owner's label before the nearest owner's, and that before the pod's."""
    meta = wanted["metadata"]
    if meta is None:
        return []
    chain = [given["top_owner"] or {}, *(given["other_owners"] or ())]
    pod = given["pod"]
    rules: list[int] = []
    queue = _first(chain, "kai.scheduler/queue") or _first([pod], "kai.scheduler/queue")
    if queue and meta["queue"] != queue and given["config"].get("queue_label_key"):
        meta["queue"] = queue
        rules.append(7)
    readable = {
        r["key"].rpartition("/")[2] for r in given["api_reads"] or () if r["object"] is not None
    }
    stated = [_first([o], "priorityClassName") for o in chain]
    first = next((p for p in stated if p and p in readable), "")
    forced = _first(chain[:1], "ray.io/priority-class-name")
    if first and not forced and meta["priority_class_name"] != first:
        meta["priority_class_name"] = first
        rules.append(7)
    return rules


def _first(objects: list[Mapping[str, Any]], key: str) -> str:
    for obj in objects:
        value = ((obj.get("metadata") or {}).get("labels") or {}).get(key)
        if value:
            return str(value)
    return ""
