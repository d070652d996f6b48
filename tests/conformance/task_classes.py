"""Equal tasks of a recorded cluster as one class, with the rules that bind them to nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from kai_ray.scheduler.reason import Reason
from kai_ray.scheduler.snapshot import Classes, ClassRules, Op, Requirement
from tests.conformance import gpus, zones
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
        self,
        jobs: list[dict[str, Any]],
        nodes: list[dict[str, Any]],
        config: dict[str, Any],
        resources: tuple[str, ...],
        claims: gpus.Claims,
    ) -> None:
        self._config, self._resources, self._claims = config, resources, claims
        self._rules_apply = config["predicates_plugin_active"]
        types = sorted({node["labels"].get(NODE_TYPE, "") for node in nodes} - {""})
        self._type_code = {name: code for code, name in enumerate(types)}
        self._peers = sorted({p for job in jobs for t in job["tasks"] for p in _peers_of(job, t)})
        self._topologies = sorted({peer[2] for peer in self._peers})
        self._row: dict[tuple[Any, ...], int] = {}
        self._matches: list[frozenset[int]] = []

    def row(self, job: dict[str, Any], task: dict[str, Any]) -> int:
        """The class of a task."""
        request = task["request"]
        amounts = (int(request["cpu_milli"]), int(request["memory_bytes"]))
        # A class is what selectors see of a pod, not its labels: those name single pods.
        seen = frozenset(i for i, p in enumerate(self._peers) if _is_peer(p, job, task))
        asked = gpus.ask(self._claims, job, task)
        rules = self._rules(job, task, asked) if self._rules_apply else ClassRules(claims=asked[5])
        whole = int(request["gpus"] or 0) if request["gpu_kind"] == "whole" else 0
        charged = queue_request(task, self._config)
        key = (*amounts, whole, charged, rules, seen, asked, zones.kind(task))
        if key not in self._row:
            self._row[key] = len(self._row)
            self._matches.append(seen)
        return self._row[key]

    def _rules(self, job: dict[str, Any], task: dict[str, Any], asked: gpus.Ask) -> ClassRules:
        wanted = task["node_affinity_in"]
        codes = tuple(sorted(self._type_code.get(name, -2) for name in wanted))
        volumes = task.get("pvcs") or []
        why, what = asked[6], asked[7]
        if volumes:
            why, what = Reason.VOLUME_CLAIM_NOT_FOUND, _claim_name(volumes[0])
        return ClassRules(
            required=(((Requirement(0, Op.IN, codes),),),) if wanted else (),
            affinity=self._peer_rows(job, task["pod_affinity"]),
            anti_affinity=self._peer_rows(job, task["pod_anti_affinity"]),
            claims=asked[5],
            blocked=why,
            blocked_detail=what,
        )

    def _peer_rows(self, job: dict[str, Any], term: dict[str, Any] | None) -> tuple[int, ...]:
        return () if term is None else (self._peers.index(_peer(job, term)),)

    def arrays(self) -> Classes:
        """All classes seen so far."""
        keys = list(self._row)
        row = {name: i for i, name in enumerate(self._resources)}
        request = np.zeros((len(row), len(keys)), dtype=np.int64)
        for c, key in enumerate(keys):
            request[:4, c] = (*key[:3], 1)
            for name, amount in key[6][4]:
                request[row[name], c] += amount
        return Classes(
            request=request,
            queue_request=np.array([k[3] for k in keys], dtype=np.float64).reshape(-1, 3).T.copy(),
            rules=tuple(k[4] for k in keys),
        )

    @property
    def kinds(self) -> list[tuple[np.ndarray, bool]]:
        """(request, whether all of it is aligned) of each class."""
        request = self.arrays().request
        return [(request[:, c], key[7]) for c, key in enumerate(self._row)]

    @property
    def asks(self) -> list[gpus.Ask]:
        """What the classes ask of devices."""
        return [key[6] for key in self._row]

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
