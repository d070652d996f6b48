"""The submitter of a RayJob: a Job of its own (K8sJobMode) or a container beside the head."""

from __future__ import annotations

import json

import yaml

from kai_ray.api import operator_defaults as defaults
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object

from . import ray_names as names
from . import ray_start, raycluster_extras
from .podset import add_env
from .raycluster_services import service_ports
from .world import own_copy, owner_ref


def submitter_job(job: Object, status: Object, cluster: Object) -> Object:
    spec, meta = job["spec"], job["metadata"]
    template = own_copy(spec.get("submitterPodTemplate") or _template(cluster["spec"]))
    _configure(template["spec"]["containers"][0], job, status, cluster)
    if (cluster["spec"].get("authOptions") or {}).get("enableK8sTokenAuth"):
        source = {"sources": [{"serviceAccountToken": {"path": "token"}}]}
        volumes = template["spec"].setdefault("volumes", [])
        volumes.append({"name": "ray-token", "projected": source})
    limit = (spec.get("submitterConfig") or {}).get("backoffLimit")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "labels": {
                names.ORIGIN_NAME: meta["name"],
                names.ORIGIN_KIND: "RayJob",
                "app.kubernetes.io/created-by": "kuberay-operator",
            },
            "ownerReferences": [owner_ref(R.RAY_JOB, job)],
        },
        "spec": {"backoffLimit": 2 if limit is None else limit, "template": template},
    }


def sidecar(job: Object, cluster: Object) -> Object:
    """The container that SidecarMode adds to the head pod; a submitterPodTemplate has no say."""
    container = _container(cluster["spec"])
    _configure(container, job, job.get("status") or {}, cluster, beside=True)
    return container


def _template(cluster_spec: Object) -> Object:
    return {"spec": {"containers": [_container(cluster_spec)], "restartPolicy": "Never"}}


def _container(cluster_spec: Object) -> Object:
    head = cluster_spec["headGroupSpec"]["template"]["spec"]["containers"][0]
    return {
        "name": defaults.RAY_SUBMITTER_CONTAINER,
        "image": head["image"],
        "resources": own_copy(defaults.RAY_SUBMITTER_RESOURCES),
    }


def _configure(
    container: Object, job: Object, status: Object, cluster: Object, *, beside: bool = False
) -> None:
    if beside or not container.get("command"):
        port = service_ports(cluster).get("dashboard", ray_start.DASHBOARD_PORT)
        address = f"127.0.0.1:{port}" if beside else status.get("dashboardURL", "")
        address = "http://" + address.removeprefix("http://")
        container["command"] = ["/bin/bash", "-ce", "--"]
        container["args"] = [_script(job, status, address, beside=beside)]
    add_env(
        container,
        ("PYTHONUNBUFFERED", "1"),
        ("RAY_DASHBOARD_ADDRESS", status.get("dashboardURL", "")),
        ("RAY_JOB_SUBMISSION_ID", status.get("jobId", "")),
    )
    raycluster_extras.add_token(cluster, container)


def _script(job: Object, status: Object, address: str, *, beside: bool) -> str:
    """The shell line that submits once and follows the logs; beside the head it first waits."""
    spec, job_id = job["spec"], status.get("jobId", "")
    words = ["ray", "job", "submit", "--address", address]
    if not beside:
        words.append("--no-wait")
    words += _options(spec)
    if job_id:
        words += ["--submission-id", job_id]
    for field in ("Cpus", "Gpus"):
        amount = spec.get(f"entrypointNum{field}") or 0
        if amount > 0:
            words += [f"--entrypoint-num-{field.lower()}", f"{amount:f}"]
    if spec.get("entrypointResources"):
        words += ["--entrypoint-resources", json.dumps(spec["entrypointResources"])]
    words += ["--", spec.get("entrypoint", "").strip(), ";"]
    submit = " ".join(words)
    if beside:
        return (
            f"until ray job list --address {address} >/dev/null 2>&1 ; do sleep 2 ; done ; {submit}"
        )
    return (
        f"if ! ray job status --address {address} {job_id} >/dev/null 2>&1 ; then {submit} fi ; "
        f"ray job logs --address {address} --follow {job_id}"
    )


def _options(spec: Object) -> list[str]:
    words: list[str] = []
    if spec.get("runtimeEnvYAML"):
        environment = json.dumps(yaml.safe_load(spec["runtimeEnvYAML"]), separators=(",", ":"))
        words += ["--runtime-env-json", json.dumps(environment)]
    if spec.get("metadata"):
        metadata = json.dumps(spec["metadata"], separators=(",", ":"), sort_keys=True)
        words += ["--metadata-json", json.dumps(metadata)]
    return words
