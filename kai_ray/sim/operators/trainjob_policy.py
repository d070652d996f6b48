"""What a runtime's mlPolicy adds to the pods: torch, JAX, XGBoost, MPI, Flux."""

from __future__ import annotations

from kai_ray.api import quantity
from kai_ray.cluster.port import Object

from .podset import field_env, upsert_env
from .world import own_copy

PORT = 29500
INDEX_FIELD = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
FLUX_IMAGE = "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy"


def apply_policy(job: Object, policy: Object, spec: Object) -> None:
    """Edits the JobSet's spec in place."""
    for group in spec["replicatedJobs"]:
        labels = (group["template"].get("metadata") or {}).get("labels") or {}
        is_trainer = labels.get("trainer.kubeflow.org/trainjob-ancestor-step") == "trainer"
        pod_spec = group["template"]["spec"]["template"]["spec"]
        node = next((c for c in pod_spec["containers"] if c["name"] == "node"), None)
        if node is None:
            continue
        if "mpi" in policy and group["name"] in ("node", "launcher"):
            _mpi(job, policy["mpi"] or {}, group["name"], pod_spec, node)
        elif is_trainer and "flux" in policy:
            _flux(job, pod_spec, node)
        elif is_trainer and job["spec"].get("trainer") is not None:
            nodes = group["template"]["spec"]["parallelism"]
            _rendezvous(job, policy, node, nodes)


def _rendezvous(job: Object, policy: Object, node: Object, nodes: int) -> None:
    name = job["metadata"]["name"]
    first = f"{name}-node-0-0.{name}"
    upsert_env(node, *own_copy((job["spec"]["trainer"]).get("env") or []))
    if "torch" in policy:
        variables = [
            _plain("PET_NNODES", nodes),
            _plain("PET_NPROC_PER_NODE", _processes(job, node)),
            _index("PET_NODE_RANK"),
            _plain("PET_MASTER_ADDR", first),
            _plain("PET_MASTER_PORT", PORT),
        ]
    elif "jax" in policy:
        variables = [
            _plain("JAX_NUM_PROCESSES", nodes),
            _index("JAX_PROCESS_ID"),
            _plain("JAX_COORDINATOR_ADDRESS", f"{first}:{PORT}"),
        ]
    elif "xgboost" in policy:
        variables = [
            _plain("DMLC_TRACKER_URI", first),
            _plain("DMLC_TRACKER_PORT", PORT),
            _index("DMLC_TASK_ID"),
            _plain("DMLC_NUM_WORKER", nodes * max(1, _gpus(node))),
        ]
    else:
        return
    upsert_env(node, *variables)
    ports = node.setdefault("ports", [])
    if not any(p["containerPort"] == PORT for p in ports):
        ports.append({"containerPort": PORT, "protocol": "TCP"})


def _plain(name: str, value: object) -> Object:
    return {"name": name, "value": str(value)}


def _index(name: str) -> Object:
    return field_env(name, INDEX_FIELD)


def _processes(job: Object, node: Object) -> str:
    """The trainer's own number, else auto with GPUs, else one a CPU."""
    given = job["spec"]["trainer"].get("numProcPerNode")
    if given is not None:
        return str(given)
    if _gpus(node):
        return "auto"
    resources = node.get("resources") or {}
    cpu = (resources.get("requests") or {}).get("cpu") or (resources.get("limits") or {}).get("cpu")
    return str(max(1, quantity.whole(cpu) if cpu else 0))


def _gpus(node: Object) -> int:
    resources = node.get("resources") or {}
    wanted = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return sum(quantity.whole(v) for k, v in wanted.items() if k.endswith("gpu"))


def _mount(container: Object, name: str, path: str, *, read_only: bool = False) -> None:
    mounts = container.setdefault("volumeMounts", [])
    if not any(m["name"] == name for m in mounts):
        mount: Object = {"name": name, "mountPath": path}
        if read_only:
            mount["readOnly"] = True
        mounts.append(mount)


def _volume(pod_spec: Object, name: str, source: Object) -> None:
    volumes = pod_spec.setdefault("volumes", [])
    if not any(v["name"] == name for v in volumes):
        volumes.append({"name": name, **source})


def _mpi(job: Object, policy: Object, group: str, pod_spec: Object, node: Object) -> None:
    name = job["metadata"]["name"]
    items = [
        {"key": "ssh-privatekey", "path": "id_rsa", "mode": 0o640},
        {"key": "ssh-publickey", "path": "id_rsa.pub", "mode": 0o644},
        {"key": "ssh-publickey", "path": "authorized_keys", "mode": 0o644},
    ]
    secret = {"secretName": f"{name}-mpi-ssh-auth", "defaultMode": 0o400, "items": items}
    _volume(pod_spec, "mpi-ssh-auth", {"secret": secret})
    _mount(node, "mpi-ssh-auth", policy.get("sshAuthMountPath") or "/root/.ssh")
    if group != "launcher":
        return
    source = {
        "name": f"{name}-mpi-hostfile",
        "items": [{"key": "hostfile", "path": "hostfile", "mode": 0o444}],
    }
    _volume(pod_spec, "mpi-hostfile", {"configMap": source})
    _mount(node, "mpi-hostfile", "/etc/mpi")
    upsert_env(
        node,
        _plain("OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile"),
        _plain("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
        _plain("OMPI_MCA_orte_set_default_slots", mpi_slots(job, policy)),
        _plain("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10"),
    )


def mpi_slots(job: Object, policy: Object) -> int:
    """Processes on each node: the trainer's number, the runtime's, or one a GPU."""
    trainer = job["spec"].get("trainer") or {}
    if trainer.get("numProcPerNode") is not None:
        return int(trainer["numProcPerNode"])
    slots = int(policy.get("numProcPerNode") or 1)
    if slots == 1:
        slots = max(1, _gpus({"resources": trainer.get("resourcesPerNode") or {}}))
    return slots


def _flux(job: Object, pod_spec: Object, node: Object) -> None:
    name = job["metadata"]["name"]
    trainer = job["spec"].get("trainer") or {}
    config = f"{name}-flux-entrypoint"
    command = trainer.get("command") or node.get("command") or []
    line = " ".join(map(str, [*command, *(trainer.get("args") or ())])).strip()
    if trainer.get("image"):
        node["image"] = trainer["image"]
    node["command"] = ["/bin/bash", "/etc/flux-config/entrypoint.sh", line]
    node.pop("args", None)
    image = next(
        (e["value"] for e in trainer.get("env") or () if e["name"] == "FLUX_VIEW_IMAGE"), FLUX_IMAGE
    )
    installer = {
        "name": "flux-installer",
        "image": image,
        "command": ["/bin/bash", "/etc/flux-config/init.sh"],
    }
    _mount(installer, "flux-install", "/mnt/flux")
    _mount(installer, config, "/etc/flux-config", read_only=True)
    pod_spec.setdefault("initContainers", []).append(installer)
    for volume in ("spack-install", "flux-install"):
        _volume(pod_spec, volume, {"emptyDir": {}})
    _volume(pod_spec, config, {"configMap": {"name": config, "defaultMode": 0o755}})
    _volume(pod_spec, "shared-memory", {"emptyDir": {"medium": "Memory"}})
    secret = {"secretName": f"{name}-flux-curve", "defaultMode": 0o400}
    _volume(pod_spec, "flux-curve", {"secret": secret})
    _mount(node, "flux-install", "/mnt/flux")
    _mount(node, "spack-install", "/opt/software")
    _mount(node, config, "/etc/flux-config", read_only=True)
    _mount(node, "flux-curve", "/curve", read_only=True)
    _mount(node, "shared-memory", "/dev/shm", read_only=True)
