"""Stand-in for the training operator's MPIJob (v1): launcher, workers, hostfile, account."""

from __future__ import annotations

from kai_ray.api import labels as L
from kai_ray.api import operator_defaults as defaults
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.sim import pod_facts

from .podset import add_env, env_names, pod_of
from .training import ROLE, Replicas, run_policy
from .training_status import JobStatus
from .world import World, is_deleting, own_copy, owner_ref, split_key

DELIVERY_IMAGE = "ghcr.io/kubeflow/training-v1/kubectl-delivery:latest"
_CONFIG_MOUNT = {"name": "mpi-job-config", "mountPath": "/etc/mpi"}
_KUBECTL_MOUNT = {"name": "mpi-job-kubectl", "mountPath": "/opt/kube"}
_SCRIPT_MODE, _TEXT_MODE = 0o555, 0o444


class MpiOperator:
    name = "mpijob"

    def __init__(self) -> None:
        self._restarts: dict[str, int] = {}

    def setup(self, runtime: Runtime) -> None:
        self._world = World(runtime)
        self._world.watch(self.name, R.MPI_JOB)
        self._world.watch_owned(self.name, R.POD, R.MPI_JOB)

    def reconcile(self, key: str) -> float | None:
        job = self._world.get(R.MPI_JOB, *split_key(key))
        if job is None or is_deleting(job):
            return None
        status = JobStatus(self._world, "MPIJob", job, self._restarts)
        pods = self._world.owned(R.POD, job)
        wait = self._step(job, status, pods)
        self._world.set_status(R.MPI_JOB, job, status.value)
        return wait

    def _step(self, job: Object, status: JobStatus, pods: list[Object]) -> float | None:
        policy = run_policy(job)
        status.created()
        if status.is_finished():
            return self._after_end(policy, status, pods)
        if policy.get("suspend"):
            for pod in pods:
                self._world.delete(R.POD, pod)
            status.suspended()
            return None
        status.resumed()
        left = None
        if policy.get("activeDeadlineSeconds") is not None:
            left = policy["activeDeadlineSeconds"] - self._world.age_s(status.value["startTime"])
            if left <= 0:
                status.failed(
                    f"MPIJob {job['metadata']['name']} was active longer than its deadline"
                )
                return self._after_end(policy, status, pods)
        replicas = _replicas(job)
        launcher = next((p for p in pods if _type(p) == "launcher"), None)
        workers = [p for p in pods if _type(p) == "worker"]
        if launcher is None or not pod_facts.is_finished(launcher):
            self._make(job, replicas, launcher, workers)
        pods = self._world.owned(R.POD, job)
        self._judge(job, replicas, status, pods)
        return self._after_end(policy, status, pods) if status.is_finished() else left

    def _make(
        self, job: Object, replicas: Replicas, launcher: Object | None, workers: list[Object]
    ) -> None:
        name = job["metadata"]["name"]
        for resource, body in self._helpers(job, replicas):
            self._world.ensure(resource, body)
        wanted = replicas.get("Worker", {}).get("replicas", 0)
        have = {p["metadata"]["name"]: p for p in workers}
        for index in range(wanted):
            if f"{name}-worker-{index}" not in have:
                self._world.create(R.POD, self._worker(job, replicas["Worker"], index))
        for pod in workers:
            if int(pod["metadata"]["labels"].get(L.TRAINING_REPLICA_INDEX, 0)) >= wanted:
                self._world.delete(R.POD, pod)
        if launcher is None:
            self._world.create(R.POD, self._launcher(job, replicas["Launcher"]))
        elif pod_facts.phase(launcher) == "Failed":
            self._world.delete(R.POD, launcher)

    def _judge(
        self, job: Object, replicas: Replicas, status: JobStatus, pods: list[Object]
    ) -> None:
        for kind in ("Launcher", "Worker"):
            if kind in replicas:
                status.count(kind, [p for p in pods if _type(p) == kind.lower()])
        active, succeeded, failed = status.counts("Launcher")
        if active:
            status.running()
        if succeeded:
            status.succeeded()
        elif failed:
            status.replicas_failed("Launcher", failed)
        _, _, failed_workers = status.counts("Worker")
        if failed_workers and not succeeded:
            status.replicas_failed("Worker", failed_workers)

    def _after_end(self, policy: Object, status: JobStatus, pods: list[Object]) -> float | None:
        clean = policy.get("cleanPodPolicy") or "None"
        for pod in pods:
            if clean == "All" or (clean == "Running" and not pod_facts.is_finished(pod)):
                self._world.delete(R.POD, pod)
        status.settle()
        return status.expire(R.MPI_JOB, policy.get("ttlSecondsAfterFinished"))

    # ------------------------------------------------------------------ objects

    def _meta(self, job: Object, name: str) -> Object:
        return {
            "name": name,
            "namespace": job["metadata"]["namespace"],
            "labels": {"app": job["metadata"]["name"]},
            "ownerReferences": [owner_ref(R.MPI_JOB, job)],
        }

    def _helpers(self, job: Object, replicas: Replicas):
        """Service account, hostfile, role and role binding of the launcher."""
        name = job["metadata"]["name"]
        slots = job["spec"].get("slotsPerWorker") or 1
        count = replicas.get("Worker", {}).get("replicas", 0)
        hosts = "".join(f"{name}-worker-{i} slots={slots}\n" for i in range(count))
        container = job["spec"].get("mainContainer")
        into = f" --container {container}" if container else ""
        script = (
            f'#!/bin/sh\npod=$1\nshift\n/opt/kube/kubectl exec "$pod"{into} -- /bin/sh -c "$*"\n'
        )
        account, launcher = f"{name}-launcher", f"{name}-launcher"
        yield R.SERVICE_ACCOUNT, _object(R.SERVICE_ACCOUNT, self._meta(job, account))
        data = {"hostfile": hosts, "kubexec.sh": script}
        yield R.CONFIG_MAP, _object(R.CONFIG_MAP, self._meta(job, f"{name}-config"), data=data)
        pods = [f"{name}-worker-{i}" for i in range(count)]
        rules = [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
            {
                "apiGroups": [""],
                "resources": ["pods/exec"],
                "verbs": ["create"],
                "resourceNames": pods,
            },
        ]
        yield R.ROLE, _object(R.ROLE, self._meta(job, launcher), rules=rules)
        binding = {
            "subjects": [
                {
                    "kind": "ServiceAccount",
                    "name": account,
                    "namespace": job["metadata"]["namespace"],
                }
            ],
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": launcher,
            },
        }
        yield R.ROLE_BINDING, _object(R.ROLE_BINDING, self._meta(job, launcher), **binding)

    def _labels(self, job: Object, kind: str) -> dict[str, str]:
        return {
            L.TRAINING_JOB_NAME: job["metadata"]["name"],
            ROLE: "mpijob-controller",
            L.TRAINING_REPLICA_TYPE: kind,
        }

    def _worker(self, job: Object, spec: Object, index: int) -> Object:
        template = own_copy(spec["template"])
        pod_spec, main = template["spec"], template["spec"]["containers"][0]
        pod_spec["restartPolicy"] = _policy(spec)
        if not main.get("command"):
            main["command"], main["args"] = ["sleep"], ["365d"]
        main.setdefault("volumeMounts", []).append(dict(_CONFIG_MOUNT))
        items = [_item("kubexec.sh", _SCRIPT_MODE)]
        pod_spec.setdefault("volumes", []).append(_config_volume(job, items))
        labels = self._labels(job, "worker") | {L.TRAINING_REPLICA_INDEX: str(index)}
        return pod_of(
            template,
            job["metadata"]["namespace"],
            name=f"{job['metadata']['name']}-worker-{index}",
            labels=labels,
            owner=owner_ref(R.MPI_JOB, job),
        )

    def _launcher(self, job: Object, spec: Object) -> Object:
        template = own_copy(spec["template"])
        pod_spec, main = template["spec"], template["spec"]["containers"][0]
        name = f"{job['metadata']['name']}-launcher"
        pod_spec.setdefault("serviceAccountName", name)
        pod_spec["restartPolicy"] = _policy(spec)
        pod_spec.setdefault("initContainers", []).append(_delivery(job))
        add_env(
            main,
            ("OMPI_MCA_plm_rsh_agent", "/etc/mpi/kubexec.sh"),
            ("OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile"),
        )
        if not _uses_gpu(main):
            # Without a GPU of its own the launcher must not see any.
            add_env(main, ("NVIDIA_VISIBLE_DEVICES", ""), ("NVIDIA_DRIVER_CAPABILITIES", ""))
        for variable, value in (
            ("I_MPI_HYDRA_BOOTSTRAP", "rsh"),
            ("I_MPI_HYDRA_BOOTSTRAP_EXEC", "/etc/mpi/kubexec.sh"),
        ):
            if variable not in env_names(main):
                add_env(main, (variable, value))
        main.setdefault("volumeMounts", []).extend([dict(_KUBECTL_MOUNT), dict(_CONFIG_MOUNT)])
        items = [
            _item("kubexec.sh", _SCRIPT_MODE),
            _item("hostfile", _TEXT_MODE),
            _item("discover_hosts.sh", _SCRIPT_MODE),
        ]
        pod_spec.setdefault("volumes", []).extend(
            [{"name": "mpi-job-kubectl", "emptyDir": {}}, _config_volume(job, items)]
        )
        return pod_of(
            template,
            job["metadata"]["namespace"],
            name=name,
            labels=self._labels(job, "launcher") | {L.TRAINING_JOB_ROLE: "master"},
            owner=owner_ref(R.MPI_JOB, job),
        )


def _replicas(job: Object) -> Replicas:
    given = {k.lower(): v for k, v in (job["spec"].get("mpiReplicaSpecs") or {}).items()}
    out: Replicas = {}
    for kind, default in (("Launcher", 1), ("Worker", 0)):
        spec = given.get(kind.lower())
        if spec is not None:
            count = spec.get("replicas")
            out[kind] = {**spec, "replicas": default if count is None else count}
    return out


def _policy(spec: Object) -> str:
    policy = spec.get("restartPolicy") or "Never"
    return "Never" if policy == "ExitCode" else policy


def _type(pod: Object) -> str:
    return (pod["metadata"].get("labels") or {}).get(L.TRAINING_REPLICA_TYPE, "")


def _uses_gpu(container: Object) -> bool:
    limits = (container.get("resources") or {}).get("limits") or {}
    return any(name.endswith("gpu") for name in limits)


def _item(name: str, mode: int) -> Object:
    return {"key": name, "path": name, "mode": mode}


def _config_volume(job: Object, items: list[Object]) -> Object:
    source = {"name": f"{job['metadata']['name']}-config", "items": items}
    return {"name": "mpi-job-config", "configMap": source}


def _delivery(job: Object) -> Object:
    return {
        "name": defaults.MPI_DELIVERY_CONTAINER,
        "image": DELIVERY_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "env": [
            {"name": "TARGET_DIR", "value": "/opt/kube"},
            {"name": "NAMESPACE", "value": job["metadata"]["namespace"]},
        ],
        "resources": own_copy(defaults.MPI_DELIVERY_RESOURCES),
        "volumeMounts": [dict(_KUBECTL_MOUNT), dict(_CONFIG_MOUNT)],
    }


def _object(resource, meta: Object, **body: object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, **body}
