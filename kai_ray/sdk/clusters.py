"""Which cluster is meant where nobody says so.

The kubeconfig is looked for in this order: the one that is named, `$KAI_KUBECONFIG`, `$KUBECONFIG`,
the cluster that `kai up` runs on this machine, `~/.kube/config`, the pod's own service account.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kai_ray.sdk.errors import BadKubeconfig, NoCluster

if TYPE_CHECKING:
    from kai_ray.cluster.kube import KubePort


@dataclass(frozen=True)
class Choice:
    """A kubeconfig and how it was found. An empty `path` means: by kubectl's own rules."""

    path: str
    origin: str


def home() -> Path:
    """Where `kai up` leaves word of itself: `$KAI_HOME`, else `~/.kai`."""
    return Path(os.environ.get("KAI_HOME") or Path.home() / ".kai")


def running_cluster() -> dict[str, Any] | None:
    """What the running `kai up` wrote about itself, or None if none runs."""
    try:
        note = json.loads((home() / "up.json").read_text())
        os.kill(int(note["pid"]), 0)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return note if Path(str(note.get("kubeconfig", ""))).is_file() else None


def choose(explicit: str | None) -> Choice:
    """The kubeconfig to use; raises NoCluster when there is none."""
    if explicit:
        if not Path(explicit).is_file():
            raise BadKubeconfig(f"there is no kubeconfig at {explicit}")
        return Choice(explicit, "--kubeconfig")
    own = os.environ.get("KAI_KUBECONFIG")
    if own:
        return Choice(own, "$KAI_KUBECONFIG")
    if os.environ.get("KUBECONFIG"):
        return Choice("", "$KUBECONFIG")  # may name several files, merged as kubectl does
    note = running_cluster()
    if note is not None:
        return Choice(str(note["kubeconfig"]), "kai up")
    default = Path.home() / ".kube" / "config"
    if default.is_file():
        return Choice("", "~/.kube/config")
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return Choice("", "the pod's service account")
    raise NoCluster(
        "no cluster to talk to",
        why="no --kubeconfig, $KAI_KUBECONFIG, $KUBECONFIG, running `kai up` or ~/.kube/config",
        command="kai up",
    )


def open_port(
    choice: Choice, context: str | None = None, patience_s: float | None = None
) -> KubePort:
    """A port to that cluster; asks the server nothing yet. Raises NoCluster.

    With `patience_s` each request is tried once and has so long.
    """
    from kai_ray.cluster import kube, kubeconfig

    try:
        if patience_s is None:
            return kube.connect(choice.path or None, context)
        connection = kubeconfig.load(choice.path or None, context)
        return kube.KubePort(connection, timeout_s=patience_s, attempts=1)
    except kubeconfig.KubeconfigError as error:
        raise BadKubeconfig(str(error)) from error
