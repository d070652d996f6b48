"""All simulated kubelets as one controller: a pod is looked at when something is due."""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections import defaultdict

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import epoch, rfc3339
from kai_ray.cluster.port import ApiError, NotFound, Object
from kai_ray.cluster.runtime import Runtime

from . import pod_facts, pod_status
from .claimed_devices import LOOK_AGAIN_S, ClaimedDevices
from .cluster_file import ClusterConfig, NodePool
from .node_books import NodeBooks
from .node_health import address_of, is_down
from .work import Work

log = logging.getLogger(__name__)

BY_NODE = "kubelet-node"
BY_FACT = "kubelet-fact"


class Kubelet:
    """Runs the pods bound to simulated nodes (those with a pool label of the cluster file)."""

    name = "kubelet"

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._pools = {pool.name: pool for pool in config.node_pools}
        self._work = Work(config.seed, config.run_time_factor)
        self._books: dict[str, NodeBooks] = {}
        self._node_of: dict[str, str] = {}
        self._waiting: dict[str, set[str]] = defaultdict(set)
        self._began: dict[str, float] = {}
        self._wrote: dict[str, str] = {}
        self._addresses = itertools.count(1)
        #: Pods refused for want of room: a scheduler that is right never causes one.
        self.refused: list[str] = []

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._port = runtime.port
        self._work.setup(runtime)
        self._nodes = runtime.informer(R.NODE)
        self._pods = runtime.informer(R.POD)
        self._claims = ClaimedDevices(runtime)
        self._pods.add_index(BY_NODE, lambda p: (p["spec"].get("nodeName") or "",))
        self._pods.add_index(BY_FACT, lambda p: pod_facts.facts_of(p))
        self._nodes.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)

    # ------------------------------------------------------------------ events

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        name = obj["metadata"]["name"]
        if new is None:
            self._books.pop(name, None)
        elif name in self._books:
            self._books[name].resize(new)
        if new is None or is_down(new) != (old is not None and is_down(old)):
            for pod in self._pods.by_index(BY_NODE, name):
                self._enqueue(pod)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            assert old is not None
            self._forget(old["metadata"]["uid"])
            return
        meta = new["metadata"]
        if not new["spec"].get("nodeName"):
            return
        if pod_facts.is_finished(new):
            self._release(meta["uid"])
            if not meta.get("deletionTimestamp"):
                return
        if self._wrote.get(meta["uid"]) != meta.get("resourceVersion"):
            self._enqueue(new)

    def _enqueue(self, pod: Object, after_s: float = 0.0) -> None:
        meta = pod["metadata"]
        self._runtime.enqueue(self.name, f"{meta['namespace']}/{meta['name']}", after_s)

    def _release(self, uid: str) -> None:
        node = self._node_of.pop(uid, None)
        if node is not None and node in self._books:
            self._books[node].release(uid)

    def _forget(self, uid: str) -> None:
        self._release(uid)
        self._began.pop(uid, None)
        self._wrote.pop(uid, None)

    # ------------------------------------------------------------------ one pod

    def reconcile(self, key: str) -> float | None:
        namespace, _, name = key.partition("/")
        pod = self._pods.get(name, namespace)
        if pod is None or not pod["spec"].get("nodeName"):
            return None
        node = self._nodes.get(pod["spec"]["nodeName"])
        if node is None:
            return self._lose(pod)
        pool = self._pools.get((node["metadata"].get("labels") or {}).get(L.SIM_POOL, ""))
        if pool is None:
            return None
        if is_down(node):
            return self._on_down_node(pod)
        if pod["metadata"].get("deletionTimestamp"):
            return self._terminate(pod)
        if pod_facts.is_finished(pod):
            return None
        if pod["metadata"]["uid"] not in self._node_of and not self._admit(pod, node):
            return None
        if pod_facts.phase(pod) == "Pending":
            return self._start(pod, node, pool)
        return self._progress(pod, pool)

    def gpus_of(self, node: str) -> list[tuple[Object, list[int]]]:
        """The pods that run on a node, with the numbers of the GPUs that each was given."""
        books = self._books.get(node)
        found: list[tuple[Object, list[int]]] = []
        for pod in self._pods.by_index(BY_NODE, node):
            if pod_facts.phase(pod) != "Running" or pod_facts.kept_group(pod):
                continue
            held = books.given(pod["metadata"]["uid"]) if books is not None else []
            held = held or held_devices(pod)  # after a restart, what was told before it
            if pod["spec"].get("resourceClaims"):
                held = held or self._claims.gpus(pod)
            if held:
                found.append((pod, held))
        return found

    def _admit(self, pod: Object, node: Object) -> bool:
        name, uid = node["metadata"]["name"], pod["metadata"]["uid"]
        books = self._books.get(name)
        if books is None:
            books = self._books[name] = NodeBooks(node)
            self._readmit(books, name)
            if uid in books.pods:
                return True
        wanted, shares = pod_facts.requests(pod), pod_facts.shares(pod, books.shared.card)
        if shares:
            self._keep_claimed(books, name)
        short = books.shortage(wanted)
        full = books.shared.overfull(shares)
        contested = self._claims.contested(pod) if pod["spec"].get("resourceClaims") else ""
        if contested:
            self._refuse(pod, "UnexpectedAdmissionError", f"Pod was rejected: {contested}")
            return False
        if full:
            self._refuse(pod, "UnexpectedAdmissionError", f"Pod was rejected: {full}")
            return False
        if short:
            message = (
                f"Node didn't have enough resource: {short}, requested: {wanted.get(short, 0)}, "
                f"free: {books.free.get(short, 0)}, capacity: {books.capacity.get(short, 0)}"
            )
            self._refuse(pod, f"OutOf{short}", message)
            return False
        port = books.taken_port(pod_facts.host_ports(pod))
        if port is not None:
            message = f"Pod was rejected: port {port[1]}/{port[0]} of the node is taken"
            self._refuse(pod, "NodePorts", message)
            return False
        if not _selected(pod, node):
            message = "Pod was rejected: the node does not match the pod's node selector"
            self._refuse(pod, "NodeAffinity", message)
            return False
        keeps = pod_facts.kept_group(pod)
        books.admit(uid, wanted, pod_facts.host_ports(pod), shares=shares, keeps=keeps)
        self._node_of[uid] = name
        return True

    def _keep_claimed(self, books: NodeBooks, node: str) -> None:
        """Takes in which GPUs reservation pods keep by claims."""
        for pod in self._pods.by_index(BY_NODE, node):
            group = pod_facts.kept_group(pod)
            if not group or not pod["spec"].get("resourceClaims") or pod_facts.is_finished(pod):
                continue
            index = self._claims.first(pod).rpartition("-")[2]
            if index.isdigit() and not self._claims.lack(pod):
                books.shared.keep(pod["metadata"]["uid"], group, int(index))

    def _refuse(self, pod: Object, reason: str, message: str) -> None:
        meta = pod["metadata"]
        self.refused.append(f"{meta['namespace']}/{meta['name']}: {reason}")
        self._write(pod, pod_status.rejected(reason, message, self._stamp()))

    def _readmit(self, books: NodeBooks, node: str) -> None:
        """Books what already ran here before this process started, devices that are known first."""
        known = [
            p
            for p in self._pods.by_index(BY_NODE, node)
            if (p.get("status") or {}).get("startTime") and not pod_facts.is_finished(p)
        ]
        for pod in sorted(known, key=lambda p: (not held_devices(p), not pod_facts.kept_group(p))):
            uid = pod["metadata"]["uid"]
            ports = pod_facts.host_ports(pod)
            shares = pod_facts.shares(pod, books.shared.card)
            keeps = pod_facts.kept_group(pod)
            books.admit(uid, pod_facts.requests(pod), ports, held_devices(pod), shares, keeps)
            self._node_of[uid] = node

    def _start(self, pod: Object, node: Object, pool: NodePool) -> float | None:
        bound = pod_facts.pod_condition(pod, "PodScheduled")
        uid = pod["metadata"]["uid"]
        keeps = pod_facts.kept_group(pod)
        if pool.start_delay_seconds and not keeps:
            since = self._began.setdefault(
                uid, epoch(bound["lastTransitionTime"]) if bound else self._runtime.clock.now()
            )
            wait = since + pool.start_delay_seconds - self._runtime.clock.now()
            if wait > 0:
                return wait
        if pod["spec"].get("resourceClaims") and self._claims.lack(pod):
            return LOOK_AGAIN_S
        unmet = [gate for gate in pod_facts.init_gates(pod) if not self._holds(gate)]
        host = address_of(node)
        if unmet:
            for gate in unmet:
                meta = pod["metadata"]
                self._waiting[gate].add(f"{meta['namespace']}/{meta['name']}")
            if not (pod.get("status") or {}).get("initContainerStatuses"):
                self._write(pod, pod_status.waiting_for_init(pod, host, self._stamp()))
            return None
        devices = self._books[node["metadata"]["name"]].given(uid)
        ids = [f"GPU-{node['metadata']['name']}-{i}" for i in devices]
        n = next(self._addresses)
        pod_ip = f"10.{128 + (n >> 16) % 128}.{(n >> 8) % 256}.{n % 256}"
        self._began[uid] = self._runtime.clock.now()
        made = self._write(pod, pod_status.running(pod, host, pod_ip, self._stamp(), ids))
        if keeps and ids and made is not None:
            self._report(made, ids[0])
        return None if made is None else self._progress(made, pool)

    def _report(self, pod: Object, device: str) -> None:
        """What the program in a reservation pod does: it says which device it sees."""
        meta, note = pod["metadata"], {"metadata": {"annotations": {L.RESERVED_GPU: device}}}
        with contextlib.suppress(NotFound):
            self._port.patch(R.POD, meta["name"], note, meta["namespace"])

    def _holds(self, gate: str) -> bool:
        if gate.startswith("pod/"):
            _, namespace, name = gate.split("/")
            pod = self._pods.get(name, namespace)
            return pod is not None and pod_facts.is_ready(pod)
        return any(pod_facts.is_ready(p) for p in self._pods.by_index(BY_FACT, gate))

    def _progress(self, pod: Object, pool: NodePool) -> float | None:
        now = self._runtime.clock.now()
        restart = self._restart_at(pod)
        if restart is not None:
            return restart - now if restart > now else self._restart(pod, pool)
        limit = pod["spec"].get("activeDeadlineSeconds")
        left = None
        if limit is not None:
            left = epoch(pod["status"]["startTime"]) + limit - now
            if left <= 0:
                self._write(pod, pod_status.finished(pod, 137, self._stamp(), "DeadlineExceeded"))
                return None
        names = [c["name"] for c in pod["spec"]["containers"]]
        beside = pod_facts.SUBMITTER in names and len(names) > 1
        if beside and "terminated" in pod_facts.container_state(pod, pod_facts.SUBMITTER):
            return None
        life = self._work.life_s(pod, pool, ends=beside or pod_facts.ends_by_itself(pod))
        if life is None:
            return left
        uid = pod["metadata"]["uid"]
        began = self._began.get(uid)
        if began is None:
            began = self._began[uid] = _started(pod, now)
        if began + life > now:
            return began + life - now if left is None else min(left, began + life - now)
        code = self._work.code(pod)
        if beside:
            self._write(
                pod, pod_status.container_ended(pod, pod_facts.SUBMITTER, code, self._stamp())
            )
            return None
        return self._end(pod, code, pool)

    def _end(self, pod: Object, code: int, pool: NodePool) -> float | None:
        policy = pod["spec"].get("restartPolicy", "Always")
        # An ownerless pod with a run time ends: nobody else would ever end it.
        again = policy == "Always" and (code != 0 or pod["metadata"].get("ownerReferences"))
        if again or (policy == "OnFailure" and code != 0):
            made = self._write(pod, pod_status.crashed(pod, code, self._stamp()))
            return None if made is None else self._progress(made, pool)
        self._write(pod, pod_status.finished(pod, code, self._stamp()))
        return None

    def _restart_at(self, pod: Object) -> float | None:
        first = pod["spec"]["containers"][0]["name"]
        if "waiting" not in pod_facts.container_state(pod, first):
            return None
        status = next(s for s in pod["status"]["containerStatuses"] if s["name"] == first)
        ended = (status.get("lastState") or {}).get("terminated")
        if ended is None:
            return None
        back_off = self._config.kubelet.restart_delay_seconds * 2 ** (status["restartCount"] - 1)
        return epoch(ended["finishedAt"]) + min(300.0, back_off)

    def _restart(self, pod: Object, pool: NodePool) -> float | None:
        status = pod["status"]
        self._began[pod["metadata"]["uid"]] = self._runtime.clock.now()
        fresh = pod_status.running(
            pod, status.get("hostIP", ""), status.get("podIP", ""), self._stamp(), _device_ids(pod)
        )
        made = self._write(pod, fresh)
        return None if made is None else self._progress(made, pool)

    # ------------------------------------------------------------------ the end of pods and nodes

    def _terminate(self, pod: Object) -> float | None:
        meta = pod["metadata"]
        grace = float(meta.get("deletionGracePeriodSeconds") or 0)
        asked = epoch(meta["deletionTimestamp"]) - grace
        if pod_facts.phase(pod) == "Running":
            wait = asked + min(grace, self._config.kubelet.most_grace_seconds)
            wait -= self._runtime.clock.now()
            if wait > 0:
                return wait
        self._kill(pod)
        return None

    def _kill(self, pod: Object, reason: str = "") -> None:
        """Ends the pod's containers, then lets the object go."""
        meta = pod["metadata"]
        if meta.get("finalizers") and not pod_facts.is_finished(pod):
            # Somebody still counts this pod: show how it ended.
            self._write(pod, pod_status.finished(pod, 137, self._stamp(), reason))
        if not meta.get("deletionTimestamp") or meta.get("deletionGracePeriodSeconds"):
            try:
                self._port.delete(
                    R.POD, meta["name"], meta["namespace"], grace_s=0, uid=meta["uid"]
                )
            except ApiError as error:
                log.debug("pod %s is gone already: %s", meta["name"], error)
        self._release(meta["uid"])

    def _lose(self, pod: Object) -> None:
        """The node object is gone, and its pods with it."""
        self._kill(pod, "NodeLost")

    def _on_down_node(self, pod: Object) -> None:
        if pod["metadata"].get("deletionTimestamp"):
            # Nobody there can end it in order, so it is taken for lost.
            self._kill(pod, "NodeLost")
        elif pod_facts.is_ready(pod):
            self._write(pod, pod_status.unreachable(pod, self._stamp()))

    # ------------------------------------------------------------------ writes

    def _stamp(self) -> str:
        return rfc3339(self._runtime.clock.now())

    def _write(self, pod: Object, status: Object) -> Object | None:
        """Writes the status; None if the pod is gone."""
        meta = pod["metadata"]
        try:
            made = self._port.patch(
                R.POD, meta["name"], {"status": status}, meta["namespace"], subresource="status"
            )
        except NotFound:
            return None
        if made["metadata"]["uid"] != meta["uid"]:
            return None
        self._wrote[meta["uid"]] = made["metadata"]["resourceVersion"]
        self._pods.remember(made)
        if self._waiting and pod_facts.is_ready(made):
            for fact in pod_facts.facts_of(made):
                for key in self._waiting.pop(fact, ()):
                    self._runtime.enqueue(self.name, key)
        return made


def held_devices(pod: Object) -> list[int]:
    """The GPU indices that the pod's status names."""
    return [int(i.rpartition("-")[2]) for i in _device_ids(pod)]


def _device_ids(pod: Object) -> list[str]:
    return [
        device["resourceID"]
        for status in (pod.get("status") or {}).get("containerStatuses") or ()
        for given in status.get("allocatedResourcesStatus") or ()
        for device in given["resources"]
    ]


def _started(pod: Object, now: float) -> float:
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        running = (status.get("state") or {}).get("running")
        if running:
            return epoch(running["startedAt"])
    return now


def _selected(pod: Object, node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    wanted = pod["spec"].get("nodeSelector") or {}
    return all(labels.get(k) == v for k, v in wanted.items())
