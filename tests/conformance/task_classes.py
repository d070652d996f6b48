"""Equal tasks of a recorded cluster as one class, with the rules that bind them to nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from kai_ray.scheduler.reason import Reason
from kai_ray.scheduler.snapshot import Classes, ClassRules, Op, Requirement
from tests.conformance.requests import queue_request

#: Rows of node amounts.
NODE_RESOURCES = ("cpu", "memory", "gpu", "pods")
#: The label that carries a node's own name; required by `node_affinity_in`.
NODE_TYPE = "kai.scheduler/type"

INT64_MIN = np.iinfo(np.int64).min

#: Namespace, labels that must match, topology key.
Peer = tuple[str, tuple[tuple[str, str], ...], str]


class ClassTable:
    """Classes of all tasks of a case, made when a task is first seen."""

    def __init__(
        self, jobs: list[dict[str, Any]], nodes: list[dict[str, Any]], config: dict[str, Any]
    ) -> None:
        self._config = config
        self._rules_apply = config["predicates_plugin_active"]
        types = sorted({node["labels"].get(NODE_TYPE, "") for node in nodes} - {""})
        self._type_code = {name: code for code, name in enumerate(types)}
        self._peers = sorted({p for job in jobs for t in job["tasks"] for p in _peers_of(job, t)})
        self._topologies = sorted({peer[2] for peer in self._peers})
        self._row: dict[tuple[Any, ...], int] = {}
        self._matches: list[frozenset[int]] = []

    def row(self, job: dict[str, Any], task: dict[str, Any], node: dict[str, Any] | None) -> int:
        """The class of a task that is on `node`, if on any."""
        request = task["request"]
        amounts = (int(request["cpu_milli"]), int(request["memory_bytes"]))
        # A class is what selectors see of a pod, not its labels: those name single pods.
        seen = frozenset(i for i, p in enumerate(self._peers) if _is_peer(p, job, task))
        rules = self._rules(job, task) if self._rules_apply else ClassRules()
        whole = int(request["gpus"] or 0) if request["gpu_kind"] == "whole" else 0
        charged = queue_request(task, self._config, node)
        key = (*amounts, whole, charged, rules, seen)
        if key not in self._row:
            self._row[key] = len(self._row)
            self._matches.append(seen)
        return self._row[key]

    def _rules(self, job: dict[str, Any], task: dict[str, Any]) -> ClassRules:
        wanted = task["node_affinity_in"]
        codes = tuple(sorted(self._type_code.get(name, -2) for name in wanted))
        claims = task.get("pvcs") or []
        return ClassRules(
            required=(((Requirement(0, Op.IN, codes),),),) if wanted else (),
            affinity=self._peer_rows(job, task["pod_affinity"]),
            anti_affinity=self._peer_rows(job, task["pod_anti_affinity"]),
            blocked=Reason.VOLUME_CLAIM_NOT_FOUND if claims else Reason.NONE,
            blocked_detail=_claim_name(claims[0]) if claims else "",
        )

    def _peer_rows(self, job: dict[str, Any], term: dict[str, Any] | None) -> tuple[int, ...]:
        return () if term is None else (self._peers.index(_peer(job, term)),)

    def arrays(self) -> Classes:
        """All classes seen so far."""
        keys = list(self._row)
        request = [
            [k[0] for k in keys],
            [k[1] for k in keys],
            [k[2] for k in keys],
            [1] * len(keys),
        ]
        return Classes(
            request=np.array(request, dtype=np.int64).reshape(len(NODE_RESOURCES), len(keys)),
            queue_request=np.array([k[3] for k in keys], dtype=np.float64).reshape(-1, 3).T.copy(),
            rules=tuple(k[4] for k in keys),
        )

    def peers(self, nodes: list[dict[str, Any]]) -> tuple[list[tuple[int, np.ndarray]], np.ndarray]:
        """(topology row, classes that match) of each peer, and the domains [D, N] of the nodes."""
        terms = [
            (self._topologies.index(peer[2]), np.array([i in m for m in self._matches], dtype=bool))
            for i, peer in enumerate(self._peers)
        ]
        domain = [_codes([node["labels"].get(key) for node in nodes]) for key in self._topologies]
        return terms, np.array(domain, dtype=np.int32).reshape(len(domain), len(nodes))

    def label_rows(self, nodes: list[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
        """The only label that a requirement names, as codes and as (no) numbers, [1, N]."""
        codes = [self._type_code.get(node["labels"].get(NODE_TYPE, ""), -1) for node in nodes]
        return (
            np.array([codes], dtype=np.int32).reshape(1, len(nodes)),
            np.full((1, len(nodes)), INT64_MIN, dtype=np.int64),
        )


def _claim_name(claim: Any) -> str:
    return claim if isinstance(claim, str) else str(claim.get("name", claim))


def _peer(job: dict[str, Any], term: dict[str, Any]) -> Peer:
    labels = tuple(sorted(term["match_labels"].items()))
    return (job["namespace"] or "", labels, term["topology_key"])


def _peers_of(job: dict[str, Any], task: dict[str, Any]) -> list[Peer]:
    terms = (task["pod_affinity"], task["pod_anti_affinity"])
    return [_peer(job, term) for term in terms if term is not None]


def _is_peer(peer: Peer, job: dict[str, Any], task: dict[str, Any]) -> bool:
    namespace, labels, _ = peer
    return (job["namespace"] or "") == namespace and all(
        task["labels"].get(key) == value for key, value in labels
    )


def _codes(values: list[str | None]) -> list[int]:
    known = {value: code for code, value in enumerate(sorted({v for v in values if v is not None}))}
    return [-1 if value is None else known[value] for value in values]
