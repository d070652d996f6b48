"""Stand-in for the training operator (v1.9): what its kinds share; a file a kind says the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object, Resource
from kai_ray.cluster.runtime import Runtime
from kai_ray.sim import pod_facts

from .podset import pod_of
from .training_status import JobStatus
from .world import BURST, World, is_deleting, own_copy, owner_ref, split_key

ROLE = "training.kubeflow.org/operator-name"
Replicas = dict[str, Object]
#: (job, replicas, template of the pod, replica type in lower case, index): edits the template.
Configure = Callable[[Object, Replicas, Object, str, int], None]


@dataclass(frozen=True)
class Framework:
    """What sets one kind apart. `order`: types in the order in which their pods are made."""

    resource: Resource
    specs: str
    container: str
    port_name: str
    port: int
    order: tuple[str, ...]
    restart_policy: str
    configure: Configure
    is_master: Callable[[Replicas, str, int], bool]
    judge: Callable[[Object, Replicas, JobStatus, list[Object]], None]


def replicas_of(job: Object, framework: Framework) -> Replicas:
    """The replica specs with the operator's defaults, keyed by their proper names, in order."""
    given = job["spec"].get(framework.specs) or {}
    by_lower = {name.lower(): spec for name, spec in given.items()}
    out: Replicas = {}
    for name in framework.order:
        spec = by_lower.get(name.lower())
        if spec is None:
            continue
        spec = own_copy(spec)
        if spec.get("replicas") is None:
            spec["replicas"] = 1
        if not spec.get("restartPolicy"):
            spec["restartPolicy"] = framework.restart_policy
        containers = spec["template"]["spec"]["containers"]
        main = next((c for c in containers if c["name"] == framework.container), containers[0])
        if not any(p.get("name") == framework.port_name for p in main.get("ports") or ()):
            main.setdefault("ports", []).append(
                {"name": framework.port_name, "containerPort": framework.port}
            )
        out[name] = spec
    return out


def port_of(replicas: Replicas, kind: str, framework_container: str, port_name: str) -> int:
    for container in replicas[kind]["template"]["spec"]["containers"]:
        if container["name"] == framework_container:
            for port in container.get("ports") or ():
                if port.get("name") == port_name:
                    return port["containerPort"]
    return 0


def total(replicas: Replicas) -> int:
    return sum(spec["replicas"] for spec in replicas.values())


def run_policy(job: Object) -> Object:
    """`spec.runPolicy`, with the fields that older manifests put at the top of the spec."""
    spec = job["spec"]
    policy = dict(spec.get("runPolicy") or {})
    for name in (
        "cleanPodPolicy",
        "ttlSecondsAfterFinished",
        "activeDeadlineSeconds",
        "backoffLimit",
    ):
        if name in spec:
            policy.setdefault(name, spec[name])
    return policy


class TrainingOperator:
    """Runs the jobs of one framework."""

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._resource = framework.resource
        self.name = framework.resource.kind.lower()
        self._restarts: dict[str, int] = {}

    def setup(self, runtime: Runtime) -> None:
        self._world = World(runtime)
        self._world.watch(self.name, self._resource)
        for resource in (R.POD, R.SERVICE):
            self._world.watch_owned(self.name, resource, self._resource)

    def reconcile(self, key: str) -> float | None:
        job = self._world.get(self._resource, *split_key(key))
        if job is None or is_deleting(job):
            return None
        policy = run_policy(job)
        if policy.get("managedBy", "kubeflow.org/training-operator") != (
            "kubeflow.org/training-operator"
        ):
            return None
        status = JobStatus(self._world, self._resource.kind, job, self._restarts)
        pods = self._world.owned(R.POD, job)
        wait = self._step(job, policy, status, pods)
        self._world.set_status(self._resource, job, status.value)
        return wait

    def _step(
        self, job: Object, policy: Object, status: JobStatus, pods: list[Object]
    ) -> float | None:
        status.created()
        if status.is_finished():
            return self._after_end(job, policy, status, pods)
        if policy.get("suspend"):
            self._clean(job, pods, "All")
            status.suspended()
            return None
        status.resumed()
        replicas = replicas_of(job, self._framework)
        left = self._past_limits(policy, status, replicas, pods)
        if status.is_finished():
            return self._after_end(job, policy, status, pods)
        for kind, spec in replicas.items():
            own = [p for p in pods if _type_of(p) == kind.lower()]
            self._reconcile_replicas(job, replicas, kind, spec, own, status)
        pods = self._world.owned(R.POD, job)
        self._framework.judge(job, replicas, status, pods)
        if status.is_finished():
            self._after_end(job, policy, status, pods)
        return left

    # ------------------------------------------------------------------ pods and services

    def _reconcile_replicas(
        self,
        job: Object,
        replicas: Replicas,
        kind: str,
        spec: Object,
        pods: list[Object],
        status: JobStatus,
    ) -> None:
        by_index = {_index_of(p): p for p in pods}
        made = 0
        for index in range(spec["replicas"]):
            pod = by_index.get(index)
            if pod is None:
                if made == BURST:
                    break
                made += 1
                self._world.create(R.POD, self.pod(job, replicas, kind, index))
            elif pod_facts.phase(pod) == "Failed" and not is_deleting(pod):
                self._on_failed(spec, pod, kind, status)
        for index, pod in by_index.items():
            if index is None or index >= spec["replicas"]:
                self._world.delete(R.POD, pod)
        for index in range(min(spec["replicas"], len(by_index) + made)):
            self._world.ensure(R.SERVICE, self._service(job, kind, spec, index))
        alive = [p for i, p in by_index.items() if i is not None and i < spec["replicas"]]
        status.count(kind, alive, self._selector(job, kind))

    def _on_failed(self, spec: Object, pod: Object, kind: str, status: JobStatus) -> None:
        policy, code = spec["restartPolicy"], pod_facts.exit_code(pod)
        # 128 and above: ended by a signal, worth another try.
        retryable = code is not None and code >= 128
        if policy in ("OnFailure", "Always") or (policy == "ExitCode" and retryable):
            self._world.delete(R.POD, pod)
            status.restarting(kind)
        elif policy == "ExitCode":
            status.failed(f"{kind} replica failed with a code that is not worth another try")

    def pod(self, job: Object, replicas: Replicas, kind: str, index: int) -> Object:
        template = own_copy(replicas[kind]["template"])
        low = kind.lower()
        policy = replicas[kind]["restartPolicy"]
        template["spec"]["restartPolicy"] = "Never" if policy == "ExitCode" else policy
        self._framework.configure(job, replicas, template, low, index)
        labels = self._labels(job, low) | {L.TRAINING_REPLICA_INDEX: str(index)}
        if self._framework.is_master(replicas, kind, index):
            labels[L.TRAINING_JOB_ROLE] = "master"
        return pod_of(
            template,
            job["metadata"]["namespace"],
            name=f"{job['metadata']['name']}-{low}-{index}",
            labels=labels,
            owner=owner_ref(self._resource, job),
        )

    def _labels(self, job: Object, low: str) -> dict[str, str]:
        return {
            L.TRAINING_JOB_NAME: job["metadata"]["name"],
            ROLE: f"{self.name}-controller",
            L.TRAINING_REPLICA_TYPE: low,
        }

    def _selector(self, job: Object, kind: str) -> str:
        return ",".join(f"{k}={v}" for k, v in sorted(self._labels(job, kind.lower()).items()))

    def _service(self, job: Object, kind: str, spec: Object, index: int) -> Object:
        low = kind.lower()
        labels = self._labels(job, low) | {L.TRAINING_REPLICA_INDEX: str(index)}
        main = next(
            (
                c
                for c in spec["template"]["spec"]["containers"]
                if c["name"] == self._framework.container
            ),
            spec["template"]["spec"]["containers"][0],
        )
        ports = [
            {"name": p.get("name", ""), "port": p["containerPort"]} for p in main.get("ports") or ()
        ]
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": f"{job['metadata']['name']}-{low}-{index}",
                "namespace": job["metadata"]["namespace"],
                "labels": labels,
                "ownerReferences": [owner_ref(self._resource, job)],
            },
            "spec": {"clusterIP": "None", "selector": labels, "ports": ports},
        }

    # ------------------------------------------------------------------ limits and the end

    def _past_limits(
        self, policy: Object, status: JobStatus, replicas: Replicas, pods: list[Object]
    ) -> float | None:
        """Fails the job past its back-off limit or deadline; seconds left until the deadline."""
        name = status.job["metadata"]["name"]
        limit = policy.get("backoffLimit")
        if limit is not None:
            restarts = sum(
                pod_facts.restarts(p)
                for p in pods
                if _policy_of(p, replicas) in ("OnFailure", "Always")
            )
            if restarts > limit or status.restart_count() > limit:
                status.failed(f"Job {name} has failed: it has reached the backoff limit of {limit}")
                return None
        deadline = policy.get("activeDeadlineSeconds")
        if deadline is None:
            return None
        left = deadline - self._world.age_s(status.value.get("startTime"))
        if left <= 0:
            status.failed(f"Job {name} has failed: it was active longer than {deadline} s")
        return left

    def _after_end(
        self, job: Object, policy: Object, status: JobStatus, pods: list[Object]
    ) -> float | None:
        self._clean(job, pods, policy.get("cleanPodPolicy") or "None")
        status.settle()
        return status.expire(self._resource, policy.get("ttlSecondsAfterFinished"))

    def _clean(self, job: Object, pods: list[Object], policy: str) -> None:
        """Deletes pods and their services: none, those still running or waiting, or all."""
        if policy == "None":
            return
        for pod in pods:
            if policy == "Running" and pod_facts.is_finished(pod):
                continue
            self._world.delete(R.POD, pod)
            meta = pod["metadata"]
            service = self._world.get(R.SERVICE, meta["namespace"], meta["name"])
            if service is not None:
                self._world.delete(R.SERVICE, service)


def _type_of(pod: Object) -> str:
    return (pod["metadata"].get("labels") or {}).get(L.TRAINING_REPLICA_TYPE, "")


def _policy_of(pod: Object, replicas: Replicas) -> str:
    for kind, spec in replicas.items():
        if kind.lower() == _type_of(pod):
            return spec["restartPolicy"]
    return ""


def _index_of(pod: Object) -> int | None:
    text = (pod["metadata"].get("labels") or {}).get(L.TRAINING_REPLICA_INDEX, "")
    return int(text) if text.isdigit() else None
