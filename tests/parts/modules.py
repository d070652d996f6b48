"""Which real programs tests run, and what is kept of the modules that they are built from.

Each part is a folder here: `go.mod` and `go.sum` pin every byte by checksum, `tools.go` names the
packages. Programs that agree on the libraries they need are one part, so that those are compiled
once. To follow a release: change go.mod, then `go mod tidy` there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_ETCD = "go.etcd.io/etcd/server/v3"
_HELM = "helm.sh/helm/v3"
_JOBSET = "sigs.k8s.io/jobset"
_KUBERAY = "github.com/ray-project/kuberay/ray-operator"
_KUBERNETES = "k8s.io/kubernetes"
_KWOK = "sigs.k8s.io/kwok"
_LWS = "sigs.k8s.io/lws"
_TRAINER = "github.com/kubeflow/trainer/v2"
_TRAINING = "github.com/kubeflow/training-operator"


@dataclass(frozen=True)
class Kept:
    """A folder of a module that tests read: kept as `share/<program>/<name>` beside programs."""

    program: str
    name: str
    module: str
    folder: str


@dataclass(frozen=True)
class Stamp:
    """Variables of a program that its linker sets to the version of a module: `{version}`,
    `{major}` and `{minor}` are replaced. Without them the program reports a placeholder, on which
    those who compare versions choke."""

    module: str
    variables: Mapping[str, str]


@dataclass(frozen=True)
class Part:
    """One Go module here, and the programs built from it."""

    folder: str
    programs: Mapping[str, str]  # name of the program -> Go package
    kept: tuple[Kept, ...] = ()
    stamps: tuple[Stamp, ...] = field(default=())


def _kubernetes_version() -> dict[str, str]:
    values = {
        "gitVersion": "{version}",
        "gitMajor": "{major}",
        "gitMinor": "{minor}",
        "gitTreeState": "archive",
        "gitCommit": "0" * 40,
        "buildDate": "1970-01-01T00:00:00Z",
    }
    owners = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return {f"{owner}.{name}": value for owner in owners for name, value in values.items()}


PARTS: Mapping[str, Part] = {
    "kubernetes": Part(
        "kubernetes",
        {
            "etcd": _ETCD,
            "kube-apiserver": f"{_KUBERNETES}/cmd/kube-apiserver",
            "kube-controller-manager": f"{_KUBERNETES}/cmd/kube-controller-manager",
            "kube-scheduler": f"{_KUBERNETES}/cmd/kube-scheduler",
            "kubectl": f"{_KUBERNETES}/cmd/kubectl",
            "kwok": f"{_KWOK}/cmd/kwok",
            "jobset": _JOBSET,
            "trainer-controller-manager": f"{_TRAINER}/cmd/trainer-controller-manager",
            "helm": f"{_HELM}/cmd/helm",
        },
        kept=(
            Kept("jobset", "crds", _JOBSET, "config/components/crd/bases"),
            Kept("jobset", "webhooks", _JOBSET, "config/components/webhook"),
            Kept("trainer-controller-manager", "crds", _TRAINER, "manifests/base/crds"),
            Kept("trainer-controller-manager", "runtimes", _TRAINER, "manifests/base/runtimes"),
            Kept("trainer-controller-manager", "webhooks", _TRAINER, "manifests/base/webhook"),
        ),
        stamps=(
            Stamp(_KUBERNETES, _kubernetes_version()),
            Stamp(_HELM, {f"{_HELM}/internal/version.version": "{version}"}),
        ),
    ),
    "kuberay": Part(
        "kuberay",
        {"ray-operator": _KUBERAY, "lws": f"{_LWS}/cmd"},
        kept=(
            Kept("ray-operator", "crds", _KUBERAY, "config/crd/bases"),
            Kept("lws", "crds", _LWS, "config/crd/bases"),
            Kept("lws", "webhooks", _LWS, "config/webhook"),
        ),
    ),
    "training-operator": Part(
        "training-operator",
        {"training-operator.v1": f"{_TRAINING}/cmd/training-operator.v1"},
        kept=(
            Kept("training-operator.v1", "crds", _TRAINING, "manifests/base/crds"),
            Kept("training-operator.v1", "webhooks", _TRAINING, "manifests/base/webhook"),
        ),
    ),
}
