"""A real Kubernetes control plane for tests: etcd, kube-apiserver, and what a test needs beside.

    with ControlPlane(folder) as plane:
        plane.gpu_nodes(4)
        namespace = plane.namespace()
        plane.run("ray-operator", ["--enable-leader-election=false"])

Everything binds to loopback on free ports, keeps its files in `folder` and ends with the test.
With `isolated=True` the plane has a network of its own (network.py): what `run` starts inside may
take any port and answers for every fake pod; the API server is reached from outside all the same.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

from kai_ray.cluster import resources as r
from kai_ray.cluster.kube import KubePort, connect
from kai_ray.cluster.port import ApiError, NotFound, Object, Write
from tests.parts import build
from tests.real.network import POD_NETWORK, Network
from tests.real.nodes import SELECTOR, gpu_node, holds, is_usable
from tests.real.pki import Pair
from tests.real.private import private_folders
from tests.real.programs import Program, ProgramFailed, Programs
from tests.real.trust import Trust

HERE = Path(__file__).resolve().parent
LOOPBACK = "127.0.0.1"
ETCD, API_SERVER, MANAGER, KWOK = "etcd", "kube-apiserver", "kube-controller-manager", "kwok"
CORE = (ETCD, API_SERVER, MANAGER, KWOK, "kubectl")
#: What a kubelet or a cloud would do for nodes and pods is not among them.
CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "deployment-controller",
    "device-taint-eviction-controller",
    "disruption-controller",
    "endpoints-controller",  # by them the API server finds what a proxied service stands for
    "endpointslice-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "resourceclaim-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
    "validatingadmissionpolicy-status-controller",
)
HOSTS = (LOOPBACK, "10.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc")


@dataclass(frozen=True)
class Ports:
    etcd: int
    api: int


class ControlPlane:
    """One control plane; `start` or `with` starts it."""

    def __init__(
        self,
        folder: Path,
        *,
        controllers: bool = True,
        left_out: Sequence[str] = (),
        nodes: bool = True,
        isolated: bool = False,
        api_args: Sequence[str] = (),
        memory: str = "900MiB",
    ) -> None:
        """`controllers`: with kube-controller-manager, but for those that are `left_out`;
        `nodes`: with kwok, which plays kubelets.

        `api_args` are more flags of kube-apiserver; `memory` is what Go tries to keep it below.
        """
        self.folder = folder
        self.isolated = isolated
        self.kubeconfig = folder / "kubeconfig"
        self.programs = Programs(folder / "logs")
        self._parts = {ETCD, API_SERVER}
        self._parts |= {MANAGER} if controllers else set()
        self._parts |= {KWOK} if nodes else set()
        self._controllers = [name for name in CONTROLLERS if name not in left_out]
        self._api_args = list(api_args)
        self._memory = memory
        self.trust = Trust(folder)
        self._named: dict[str, Program] = {}
        self._network: Network | None = None
        self._ports = Ports(0, 0)

    # Life

    def __enter__(self) -> ControlPlane:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Returns when the API server is ready. Raises ProgramFailed, with the log's end."""
        try:
            self.trust.write(HOSTS)
            if self.isolated:
                self._enter_network()
            else:
                # Someone else may take a port between our look and our use of it.
                self._ports = Ports(free_port(), free_port())
            self.trust.write_admin(self.kubeconfig, self.url)
            self.start_etcd()
            self.start_api_server()
            if MANAGER in self._parts:
                self.start_controllers()
            if KWOK in self._parts:
                self.start_kwok()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends every program. Logs stay, data goes."""
        if "port" in self.__dict__:
            self.port.close()
            del self.__dict__["port"]
        self.programs.stop()
        if self._network is not None:
            self._network.close()
            self._network = None
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    # Its own programs: a test may stop one and start it again

    def program(self, name: str) -> Program:
        return self._named[name]

    def start_etcd(self) -> Program:
        client = f"http://{LOOPBACK}:{self._ports.etcd}"
        peer = f"http://{LOOPBACK}:0"
        return self._start_part(
            ETCD,
            [
                f"--data-dir={self.folder / 'etcd'}",
                "--unsafe-no-fsync",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--log-level=error",
            ],
            memory="400MiB",
        )

    def start_api_server(self) -> Program:
        """Starts it (again, on the same port) and waits until it is ready."""
        off = ["ServiceAccount"]  # it would mount tokens that no kubelet here writes
        if MANAGER not in self._parts:
            off.append("TaintNodesByCondition")  # nobody would remove the taint
        file = self.trust.file
        program = self._start_part(
            API_SERVER,
            [
                f"--etcd-servers=http://{LOOPBACK}:{self._ports.etcd}",
                f"--bind-address={LOOPBACK}",
                f"--advertise-address={LOOPBACK}",
                f"--secure-port={self._ports.api}",
                f"--tls-cert-file={file('server.crt')}",
                f"--tls-private-key-file={file('server.key')}",
                f"--client-ca-file={file('ca.crt')}",
                f"--token-auth-file={self.trust.tokens}",
                f"--service-account-issuer={self.url}",
                f"--service-account-key-file={file('accounts.pub')}",
                f"--service-account-signing-key-file={file('accounts.key')}",
                "--service-cluster-ip-range=10.0.0.0/16",
                "--authorization-mode=RBAC",
                "--allow-privileged=true",
                "--endpoint-reconciler-type=none",
                f"--disable-admission-plugins={','.join(off)}",
                *self._api_args,
            ],
            memory=self._memory,
        )
        program.wait_until(self._ready)
        return program

    def start_controllers(self) -> Program:
        file = self.trust.file
        return self._start_part(
            MANAGER,
            [
                f"--kubeconfig={self.kubeconfig}",
                f"--controllers={','.join(self._controllers)}",
                "--leader-elect=false",
                f"--bind-address={LOOPBACK}",
                f"--secure-port={self.free_port()}",
                f"--service-account-private-key-file={file('accounts.key')}",
                f"--root-ca-file={file('ca.crt')}",
                "--kube-api-qps=500",
                "--kube-api-burst=1000",
            ],
        )

    def start_kwok(self) -> Program:
        return self._start_part(
            KWOK,
            [
                f"--config={HERE / 'kwok.yaml'}",
                f"--kubeconfig={self.kubeconfig}",
                f"--manage-nodes-with-annotation-selector={SELECTOR}",
                f"--node-ip={LOOPBACK}",
                "--node-lease-duration-seconds=40",
                f"--cidr={POD_NETWORK}",
            ],
        )

    # More programs

    def run(
        self,
        program: str | Path,
        args: Sequence[str] = (),
        *,
        name: str = "",
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
        private: Mapping[str, Path] | None = None,
        memory: str = "",
    ) -> Program:
        """Starts a part by its name, or any program by its path; KUBECONFIG names this plane.

        In an isolated plane it runs inside the network. `private` maps folders whose place is
        fixed in a program (as /tmp/k8s-webhook-server) to folders that it is to see there instead.
        """
        path = program if isinstance(program, Path) else part(program)
        settings = {"KUBECONFIG": str(self.kubeconfig)}
        if memory:
            settings["GOMEMLIMIT"] = memory
        return self.programs.start(
            [str(path), *args],
            name=name,
            env=settings | dict(env or {}),
            folder=folder,
            before_exec=private_folders(private) if private else None,
        )

    def kubectl(self, *args: str, stdin: Any = None) -> str:
        """What kubectl says. Raises ProgramFailed with its complaint."""
        text = stdin if stdin is None or isinstance(stdin, str) else json.dumps(stdin)
        done = subprocess.run(
            [str(part("kubectl")), *args],
            env=dict(os.environ) | {"KUBECONFIG": str(self.kubeconfig)},
            input=text,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode:
            raise ProgramFailed(f"kubectl {' '.join(args)}: {done.stderr}{done.stdout}")
        return done.stdout

    def free_port(self) -> int:
        """A port of loopback, inside the network if there is one: there, no two are the same."""
        return free_port()

    def reach(self, port: int) -> int:
        """The port of this machine's loopback at which `port` of the plane's network is reached."""
        if self._network is None:
            return port
        listener = _listen()
        here = listener.getsockname()[1]
        self._network.reach(port, listener)
        return here

    # Clients

    @property
    def etcd_url(self) -> str:
        return f"http://{LOOPBACK}:{self._ports.etcd}"

    @property
    def url(self) -> str:
        return f"https://{LOOPBACK}:{self._ports.api}"

    @property
    def ca_pem(self) -> bytes:
        return self.trust.authority.pair.certificate

    @cached_property
    def port(self) -> KubePort:
        """As an administrator."""
        return connect(str(self.kubeconfig))

    def kubeconfig_of(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig of a user who may do what RBAC lets them."""
        path = self.folder / f"kubeconfig-{user.replace(':', '-')}"
        self.trust.write_user(path, self.url, self.certificate(user, groups))
        return path

    def certificate(self, user: str, groups: Sequence[str] = ()) -> Pair:
        return self.trust.authority.client(user, groups)

    # What tests put on it

    def namespace(self, prefix: str = "story") -> str:
        """A fresh namespace that is ready for pods."""
        about = {"metadata": {"generateName": f"{prefix}-"}}
        name = self.port.create(r.NAMESPACE, about)["metadata"]["name"]
        if MANAGER in self._parts:
            self.program(MANAGER).wait_until(lambda: self._has_account(name))
        return name

    def gpu_nodes(
        self,
        count: int,
        gpus: int = 8,
        *,
        prefix: str = "gpu",
        labels: Mapping[str, str] | None = None,
        resources: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Creates fake nodes `<prefix>-0...` and waits until all may be scheduled to."""
        nodes = [
            gpu_node(f"{prefix}-{i}", gpus, labels or {}, resources or {}) for i in range(count)
        ]
        for answer in self.port.batch([Write(self.port.create, (r.NODE, n)) for n in nodes]):
            if isinstance(answer, ApiError):
                raise answer
        names = [node["metadata"]["name"] for node in nodes]
        if KWOK in self._parts:
            self.program(KWOK).wait_until(lambda: self._usable(set(names)))
        return names

    def remove_nodes(self, names: Sequence[str]) -> None:
        for answer in self.port.batch([Write(self.port.delete, (r.NODE, n)) for n in names]):
            if isinstance(answer, ApiError) and not isinstance(answer, NotFound):
                raise answer

    def apply_crds(self, *manifests: Object) -> None:
        """Creates the definitions that are not there, and waits until all are served."""
        for manifest in manifests:
            try:
                self.port.get(r.CRD, manifest["metadata"]["name"])
            except NotFound:
                self.port.create(r.CRD, manifest)
        names = {manifest["metadata"]["name"] for manifest in manifests}
        self.program(API_SERVER).wait_until(lambda: self._established(names))

    def logs(self, lines: int = 20) -> str:
        """The end of every log."""
        found = sorted(self.programs.logs.glob("*.log"))
        ends = [(path.stem, path.read_text(errors="replace").splitlines()) for path in found]
        return "\n".join(
            "\n".join([f"--- {name} ({len(text)} lines)", *text[-lines:]]) for name, text in ends
        )

    def pods(self) -> str:
        """Pods that have not ended, as kubectl shows them, the newest last; or its complaint."""
        not_ended = "--field-selector=status.phase!=Succeeded,status.phase!=Failed"
        order = "--sort-by=.metadata.creationTimestamp"
        try:
            return self.kubectl("get", "pods", "-A", "-o", "wide", not_ended, order)
        except (ProgramFailed, subprocess.SubprocessError, OSError) as error:
            return str(error)

    # Inside

    def _start_part(self, name: str, args: Sequence[str], memory: str = "300MiB") -> Program:
        program = self.run(name, args, memory=memory)
        self._named[name] = program
        return program

    def _enter_network(self) -> None:
        def start(command: list[str], keep_files: Sequence[int]) -> int:
            return self.programs.start(command, name="network", keep_files=keep_files).pid

        network = Network(start)
        self._network = network
        # The same port inside as outside, so that one kubeconfig serves both.
        listener = _listen()
        self._ports = Ports(2379, listener.getsockname()[1])
        network.reach(self._ports.api, listener)
        self.programs.before_exec = network.join()

    def _ready(self) -> bool:
        with socket.socket() as probe:
            if probe.connect_ex((LOOPBACK, self._ports.api)):
                return False
        try:
            return self.port.raw("GET", "/readyz") == "ok"
        except ApiError:
            return False

    def _has_account(self, namespace: str) -> bool:
        try:
            self.port.get(r.SERVICE_ACCOUNT, "default", namespace)
            self.port.get(r.CONFIG_MAP, "kube-root-ca.crt", namespace)
        except NotFound:
            return False
        return True

    def _usable(self, names: set[str]) -> bool:
        return names <= {
            node["metadata"]["name"] for node in self.port.list(r.NODE).items if is_usable(node)
        }

    def _established(self, names: set[str]) -> bool:
        return names <= {
            crd["metadata"]["name"]
            for crd in self.port.list(r.CRD).items
            if holds(crd, "Established")
        }


def part(program: str) -> Path:
    """The real program of that name. Raises ProgramFailed if it is not built."""
    found = build.find(program)
    if found is None:
        raise ProgramFailed(f"{program} is not built: run `make parts`")
    return found


def missing(*programs: str) -> list[str]:
    """Which of these parts (by default: of the control plane) are not built."""
    return [program for program in programs or CORE if build.find(program) is None]


def free_port() -> int:
    with _listen() as listener:
        return listener.getsockname()[1]


def _listen() -> socket.socket:
    listener = socket.socket()
    listener.bind((LOOPBACK, 0))
    listener.listen(128)
    return listener
