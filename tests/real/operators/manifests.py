"""Upstream's sample manifests, unchanged, on the real API server with the real operators.

    python -m tests.real.operators.manifests [PART OF A NAME...]

prints for every file how many of its gangs were bound whole, and why for the rest. What a sample
takes for granted (nodes of its kind, secrets, claims, runtimes) is there, as in tests/e2e.
"""

from __future__ import annotations

import copy
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import SystemClock
from kai_ray.cluster.port import AlreadyExists, ApiError, Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.podgrouper.outcome import told
from kai_ray.sim.embedded import EmbeddedCluster
from tests.e2e import supplies
from tests.e2e.outcomes import is_workload
from tests.real.control_plane import ControlPlane
from tests.real.operators import fleet as fleets
from tests.real.operators import upstream
from tests.real.sharing.device_plugin import DevicePlugin
from tests.shared import find_shared

#: Quiet for longer than a schedule of every minute rests.
PATIENCE_S, QUIET_S = 300.0, 70.0
#: Nodes for each node selector of a sample: two of them ask for a slice of 64 hosts.
SELECTED = 130
CARD_MEMORY = {L.GPU_CARD_MEMORY: "80000"}


@dataclass
class Sample:
    """One file, in a namespace of its own."""

    name: str
    namespace: str
    docs: list[Object]
    refused: list[str] = field(default_factory=list)
    workloads: list[Object] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    """What became of one gang, or of a workload that has none. `why` is empty for a bound one."""

    sample: str
    gang: str
    bound: int
    pods: int
    why: str


def samples(chosen: Sequence[str] = ()) -> list[Sample]:
    folder = find_shared()
    files = sorted((folder / "manifests").rglob("*.yaml")) if folder else []
    found: list[Sample] = []
    for number, path in enumerate(files):
        name = f"{path.parent.name}/{path.stem}"
        if not chosen or any(part in name for part in chosen):
            found.append(Sample(name, f"sample-{number}", supplies.documents(path)))
    return found


def submit(plane: ControlPlane, sample: Sample) -> None:
    """Creates what the file needs and then what it holds, in order."""
    folder = find_shared()
    assert folder is not None
    placed = [_placed(doc, sample.namespace) for doc in sample.docs]
    for namespace in {sample.namespace} | {d["metadata"].get("namespace") for d in placed} - {None}:
        fleets.ensure_namespace(plane, namespace, managed=True)
    world = cast(EmbeddedCluster, SimpleNamespace(client=plane.port))
    supplies.supply(world, placed, folder / "manifests")
    for doc in placed:
        resource = R.BY_KIND.get((doc["apiVersion"], doc["kind"]))
        title = f"{doc['kind']} {doc['metadata'].get('name')}"
        if resource is None:
            sample.refused.append(f"{title}: {doc['apiVersion']} is served by nobody here")
            continue
        try:
            made = plane.port.create(resource, doc)
        except AlreadyExists:
            continue
        except ApiError as error:
            sample.refused.append(f"{title}: {error.message}")
            continue
        if is_workload(made):
            sample.workloads.append(made)
            _admit_as_kueue_would(plane, made)
    _bind_claims(plane, placed)


def _placed(doc: Object, namespace: str) -> Object:
    """The document as kubectl would send it from a context of that namespace."""
    resource = R.BY_KIND.get((doc["apiVersion"], doc["kind"]))
    if resource is not None and not resource.namespaced:
        return doc
    doc = copy.deepcopy(doc)
    doc["metadata"].setdefault("namespace", namespace)
    return doc


def _bind_claims(plane: ControlPlane, docs: Sequence[Object]) -> None:
    """No volume plugin runs here: claims get a volume of their own at once."""
    for namespace in {d["metadata"].get("namespace") for d in docs} - {None}:
        for claim in plane.port.list(R.PVC, namespace).items:
            if claim["spec"].get("volumeName"):
                continue
            meta = claim["metadata"]
            volume = f"{namespace}-{meta['name']}"
            spec = {
                "accessModes": claim["spec"]["accessModes"],
                "capacity": claim["spec"]["resources"]["requests"],
                "claimRef": {"kind": "PersistentVolumeClaim"}
                | {field: meta[field] for field in ("namespace", "name", "uid")},
                "csi": {"driver": "tests.example", "volumeHandle": volume},
            }
            plane.port.create(R.PV, {"metadata": {"name": volume}, "spec": spec})
            change = {"spec": {"volumeName": volume}}
            plane.port.patch(R.PVC, meta["name"], change, namespace)
            done = {"status": {"phase": "Bound"}}
            plane.port.patch(R.PVC, meta["name"], done, namespace, subresource="status")


def _admit_as_kueue_would(plane: ControlPlane, workload: Object) -> None:
    """Kueue resumes what it admits."""
    if workload["kind"] == "TrainJob" and workload["spec"].get("suspend"):
        meta, change = workload["metadata"], {"spec": {"suspend": False}}
        plane.port.patch(R.TRAIN_JOB, meta["name"], change, meta["namespace"])


# What became of them


def judge(plane: ControlPlane, sample: Sample) -> list[Verdict]:
    """One verdict a gang; one for a workload that came to no gang at all."""
    verdicts: list[Verdict] = []
    spaces = {w["metadata"]["namespace"] for w in sample.workloads}
    for namespace in sorted(spaces):
        own = {w["metadata"]["name"] for w in sample.workloads}
        pods = plane.port.list(R.POD, namespace).items
        groups = plane.port.list(R.POD_GROUP, namespace).items
        tops = {g["metadata"]["name"]: _tops(g, own, pods) for g in groups}
        verdicts += [_of_gang(sample, g, pods) for g in groups if tops[g["metadata"]["name"]]]
        grouped = {name for found in tops.values() for name in found}
        for workload in sample.workloads:
            meta = workload["metadata"]
            if meta["namespace"] == namespace and meta["name"] not in grouped:
                verdicts += _of_workload(plane, sample, workload, pods)
    return verdicts


def _of_gang(sample: Sample, group: Object, pods: Sequence[Object]) -> Verdict:
    name = group["metadata"]["name"]
    members = [p for p in pods if _group_of(p) == name]
    bound = sum(bool(p["spec"].get("nodeName")) for p in members)
    conditions = {c["type"]: c for c in (group.get("status") or {}).get("conditions") or ()}
    scheduled = conditions.get("Scheduled") or {}
    fine = scheduled.get("status") == "True" and bound == len(members)
    why = "" if fine else f"{scheduled.get('reason')}: {scheduled.get('message')}"
    return Verdict(sample.name, name, bound, len(members), why)


def _of_workload(
    plane: ControlPlane, sample: Sample, workload: Object, pods: Sequence[Object]
) -> list[Verdict]:
    kind, meta = workload["kind"], workload["metadata"]
    title = f"{kind} {meta['name']}"
    resource = fleets.resource_of(workload)
    found = plane.port.get(resource, meta["name"], meta["namespace"])
    if kind in ("Deployment", "ReplicaSet", "StatefulSet"):
        return []  # a group for each pod, owned by it
    why = told(found) or ""
    if not why:
        own = [p for p in pods if p["metadata"]["name"].startswith(meta["name"])]
        others = {p["spec"].get("schedulerName") for p in own} - {L.SCHEDULER_NAME}
        why = f"asks for the scheduler {', '.join(map(str, others))}" if others else ""
    return [Verdict(sample.name, title, 0, 0, why or _warning(plane, found) or "no pods came")]


def _warning(plane: ControlPlane, obj: Object) -> str:
    """The operator's last complaint about an object."""
    events = plane.port.list(R.EVENT, obj["metadata"]["namespace"]).items
    about = [
        e
        for e in events
        if e["involvedObject"].get("uid") == obj["metadata"]["uid"] and e.get("type") == "Warning"
    ]
    last = max(about, key=lambda e: str(e.get("lastTimestamp") or ""), default=None)
    return f"{last['reason']}: {last['message']}" if last else ""


def _tops(group: Object, own: set[str], pods: Sequence[Object]) -> set[str]:
    """Which of the workloads a group is made for, or by its pods' own word holds."""
    notes = group["metadata"].get("annotations") or {}
    for line in notes.get(L.TOP_OWNER_METADATA, "").splitlines():
        if line.startswith("name: "):
            top = line.removeprefix("name: ").strip("'\"")
            # What a RayCronJob starts is named after it.
            return {name for name in own if top == name or top.startswith(f"{name}-")}
    members = [p["metadata"]["name"] for p in pods if _group_of(p) == group["metadata"]["name"]]
    return {name for name in own if any(m.startswith(f"{name}-") for m in members)}


def _group_of(pod: Object) -> str:
    return (pod["metadata"].get("annotations") or {}).get(L.POD_GROUP) or ""


# The command


def settle(plane: ControlPlane, found: Sequence[Sample]) -> list[Verdict]:
    """The verdicts, once it has been the same samples for a while that wait."""
    end = time.monotonic() + PATIENCE_S
    last: set[str] | None = None
    since = time.monotonic()
    while True:
        now = [verdict for sample in found for verdict in judge(plane, sample)]
        waiting = {verdict.sample for verdict in now if verdict.why}
        if waiting != last:
            last, since = waiting, time.monotonic()
        whole = not waiting and {v.sample for v in now} >= {s.name for s in found if s.workloads}
        if whole or time.monotonic() > min(end, since + QUIET_S):
            return now
        time.sleep(2)


def add_nodes(plane: ControlPlane, found: Sequence[Sample]) -> None:
    """Ample GPU nodes, and nodes for every node selector."""
    docs = [doc for sample in found for doc in sample.docs]
    big = {"cpu": "256", "memory": "2Ti", "pods": "250", **fleets.DISK}
    labels = supplies.TOPOLOGY_LABELS | CARD_MEMORY
    plane.gpu_nodes(16, 8, labels=labels, resources=big)
    pools = supplies.large_cluster(docs).node_pools[1:]
    for pool in pools:
        more = {name: str(amount) for name, amount in pool.resources.items()}
        plane.gpu_nodes(
            SELECTED, 8, prefix=pool.name, labels=dict(pool.labels), resources=big | more
        )


@contextmanager
def device_plugin(plane: ControlPlane) -> Iterator[None]:
    """What tells reservation pods which cards they hold."""
    around = Runtime(plane.port, SystemClock())
    around.add(DevicePlugin(kubelet=False))
    thread = threading.Thread(target=around.run_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        around.stop()
        thread.join(10)
        around.close()


def table(found: Sequence[Sample], verdicts: Sequence[Verdict]) -> str:
    taken = {sample.name for sample in found if not sample.refused}
    counted = [v for v in verdicts if v.sample in taken]
    bound = sum(not v.why for v in counted)
    lines = [
        f"{bound} of {len(counted)} gangs bound whole; {len(taken)} of {len(found)} files were"
        " accepted whole, the gangs of the others are not counted"
    ]
    for sample in found:
        own = [v for v in verdicts if v.sample == sample.name]
        words = f"{sum(not v.why for v in own)}/{len(own)}" if own else "no gang"
        pods = sum(v.bound for v in own)
        lines.append(f"{sample.name:70} {words:>8}  {pods} pods")
        lines += [f"    {v.gang}: {v.why}" for v in own if v.why]
        lines += [f"    refused: {text}" for text in sample.refused]
    return "\n".join(lines)


def main(chosen: Sequence[str]) -> int:
    found = samples(chosen)
    if not found:
        sys.stderr.write("no samples: set KAI_SHARED to the folder of recorded facts\n")
        return 2
    with tempfile.TemporaryDirectory() as folder, fleets.everything(Path(folder) / "run") as plane:
        add_nodes(plane, found)
        add_runtimes(plane)
        with device_plugin(plane):
            for sample in found:
                submit(plane, sample)
            verdicts = settle(plane, found)
    sys.stdout.write(table(found, verdicts) + "\n")
    return 0


def add_runtimes(plane: ControlPlane) -> None:
    """Those of Trainer's release."""
    for runtime in upstream.documents("trainer-controller-manager", "runtimes"):
        with suppress(AlreadyExists):
            plane.port.create(fleets.resource_of(runtime), runtime)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
