"""From a process to the pod and container that it runs in, by its cgroup.

    0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice/cri-containerd-<id>.scope
    11:devices:/kubepods/besteffort/pod<uid>/<id>

Both layouts, of systemd and of cgroupfs, version 1 and 2. `/proc/<pid>/cgroup` may be read by
anybody; what it takes is to see the node's processes (hostPID).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_UID = r"[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}"
#: Pods that a kubelet has from a file have a hash in the place of a UID.
_POD = re.compile(rf"(?:^|[/-])pod({_UID}|[0-9a-f]{{32}})(?=[/.]|$)", re.MULTILINE)
_CONTAINER = re.compile(r"(?:^|[/:-])([0-9a-f]{64})(?=[/.]|$)", re.MULTILINE)
_LONGEST = 65_536


class Place(NamedTuple):
    """Where a process runs. No uid: outside of any pod."""

    uid: str = ""
    container_id: str = ""


def place_of(pid: int, proc: Path) -> Place | None:
    """None where the process cannot be seen."""
    try:
        with (proc / str(pid) / "cgroup").open(encoding="utf-8", errors="replace") as file:
            text = file.read(_LONGEST)
    except OSError:
        return None
    return read(text)


def read(text: str) -> Place:
    """What the file says."""
    pod = _POD.search(text)
    if pod is None:
        return Place()
    container = _CONTAINER.search(text, pod.end())
    return Place(pod[1].replace("_", "-"), container[1] if container else "")
