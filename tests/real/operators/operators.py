"""Starts the real operators on a control plane, with the webhooks that their releases bring.

The webhook servers of training-operator, Trainer, JobSet and LeaderWorkerSet expect certificates
in one fixed folder, which some kubelet mounts for them. Here each sees a folder of the test's own
at that place, with certificates of an authority that the API server is told to trust.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path

import yaml

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object, Resource
from tests.real.control_plane import LOOPBACK, ControlPlane
from tests.real.operators import upstream
from tests.real.pki import Authority
from tests.real.programs import Program

CERTIFICATES = "/tmp/k8s-webhook-server"
WEBHOOKS = {
    kind: Resource("admissionregistration.k8s.io", "v1", plural, kind, False)
    for kind, plural in {
        "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
        "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    }.items()
}
PROGRAMS = (
    "ray-operator",
    "training-operator.v1",
    "jobset",
    "trainer-controller-manager",
    "lws",
)
#: What controller-runtime logs when controllers run, and when webhooks are served.
WORKS, SERVES = "Starting workers", "Serving webhook server"
#: Names that training-operator's check of its certificates insists on.
AUTHORITY_NAME = "training-operator-ca"
TRAINING_NAMESPACE, TRAINING_SECRET = "kubeflow", "training-operator-webhook-cert"
SERVER_NAMES = (LOOPBACK, "training-operator.kubeflow.svc")
#: It makes new certificates in place of those that end within three months.
LIFE = timedelta(days=365)


@dataclass
class Operators:
    """Operators on one plane. Start those that a test needs; they end with the plane."""

    plane: ControlPlane
    running: dict[str, Program] = field(default_factory=dict)

    def define(self) -> None:
        """The definitions of all of them, at once: the API server needs seconds to serve each."""
        found = [crd for program in PROGRAMS for crd in upstream.documents(program, "crds")]
        self.plane.apply_crds(*(crd for crd in found if crd["kind"] == R.CRD.kind))

    def kuberay(self, name: str, namespaces: Sequence[str], *, batch_scheduler: str = "") -> None:
        """KubeRay for these namespaces, so that several with other flags fit on one plane."""
        flag = [f"--batch-scheduler={batch_scheduler}"] if batch_scheduler else []
        self._run(
            name,
            "ray-operator",
            [
                "--enable-leader-election=false",
                f"--watch-namespace={','.join(namespaces)}",
                f"--metrics-addr={self._free()}",
                "--use-kubernetes-proxy",
                "--feature-gates=RayCronJob=true",
                "--log-stdout-encoder=console",
                "--qps=200",
                "--burst=400",
                *flag,
            ],
            probe="--health-probe-bind-address",
        )

    def training(self) -> None:
        """Kubeflow's training-operator, version 1."""
        self._secret(TRAINING_NAMESPACE, TRAINING_SECRET)
        port = self.plane.free_port()
        self._webhooks("training-operator.v1", port, "training-operator")
        self._run(
            "training-operator",
            "training-operator.v1",
            [
                f"--kubeconfig={self.plane.kubeconfig}",
                f"--metrics-bind-address={self._free()}",
                f"--webhook-server-port={port}",
                "--kube-api-qps=200",
                "--kube-api-burst=400",
            ],
            probe="--health-probe-bind-address",
        )

    def job_set(self) -> None:
        port = self.plane.free_port()
        config = {
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": LOOPBACK, "port": port},
            "internalCertManagement": {"enable": False},
        }
        self._configured("jobset", config, port)

    def trainer(self) -> None:
        """Kubeflow Trainer, version 2, and the runtimes of its release. Needs `job_set`."""
        port = self.plane.free_port()
        config = {
            "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "metrics": {"bindAddress": self._free(), "secureServing": False},
            "webhook": {"host": LOOPBACK, "port": port},
            "certManagement": {"enable": False},
        }
        self._configured("trainer-controller-manager", config, port)

    def leader_worker_set(self) -> None:
        port = self.plane.free_port()
        config = {
            "apiVersion": "config.lws.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": LOOPBACK, "port": port},
            "internalCertManagement": {"enable": False},
        }
        self._configured("lws", config, port)

    def wait(self, seconds: float = 60.0) -> None:
        """Until every operator works and every webhook that the API server is told of answers."""
        for name, program in self.running.items():
            word = WORKS if name.startswith("kuberay") else SERVES
            program.wait_until(lambda p=program, w=word: w in p.log.read_text(), seconds)

    # Inside

    def _configured(self, program: str, config: Object, port: int) -> None:
        probe = self._free()
        config["health"] = {"healthProbeBindAddress": probe}
        self._webhooks(program, port, program)
        path = self.plane.folder / f"{program}.yaml"
        path.write_text(yaml.safe_dump(config))
        self._run(program, program, [f"--config={path}"], address=probe)

    def _run(
        self, name: str, program: str, args: Sequence[str], *, probe: str = "", address: str = ""
    ) -> None:
        address = address or self._free()
        flags = [f"{probe}={address}"] if probe else []
        started = self.plane.run(
            program,
            [*args, *flags],
            name=name,
            env={"GOMAXPROCS": "1"},
            private={CERTIFICATES: self._certificates},
            memory="150MiB",
        )
        self.running[name] = started

    def _free(self) -> str:
        return f"{LOOPBACK}:{self.plane.free_port()}"

    @cached_property
    def _authority(self) -> Authority:
        return Authority(AUTHORITY_NAME, [AUTHORITY_NAME], LIFE)

    @cached_property
    def _files(self) -> dict[str, bytes]:
        server = self._authority.server(SERVER_NAMES, LIFE)
        own = self._authority.pair
        return {
            "ca.crt": own.certificate,
            "ca.key": own.key,
            "tls.crt": server.certificate,
            "tls.key": server.key,
        }

    @cached_property
    def _certificates(self) -> Path:
        folder = self.plane.folder / "webhooks"
        (folder / "serving-certs").mkdir(parents=True)
        for name, data in self._files.items():
            (folder / "serving-certs" / name).write_bytes(data)
        return folder

    def _secret(self, namespace: str, name: str) -> None:
        data = {file: base64.b64encode(text).decode() for file, text in self._files.items()}
        self.plane.port.create(R.NAMESPACE, {"metadata": {"name": namespace}})
        secret = {"metadata": {"name": name, "namespace": namespace}, "data": data}
        self.plane.port.create(R.SECRET, secret)

    def _webhooks(self, program: str, port: int, prefix: str) -> None:
        """The release's webhooks, with the address of our server in place of a service's."""
        rendered = self.plane.kubectl("kustomize", str(upstream.folder(program, "webhooks")))
        authority = base64.b64encode(self._authority.pair.certificate).decode()
        for found in yaml.safe_load_all(rendered):
            resource = WEBHOOKS.get(found["kind"])
            if resource is None:
                continue
            if not found["metadata"]["name"].startswith("validator."):
                found["metadata"]["name"] = f"{prefix}-{resource.plural}"
            for hook in found["webhooks"]:
                path = hook["clientConfig"]["service"]["path"]
                url = f"https://{LOOPBACK}:{port}{path}"
                hook["clientConfig"] = {"url": url, "caBundle": authority}
            self.plane.port.create(resource, found)
