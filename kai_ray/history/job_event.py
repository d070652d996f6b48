"""What happens to a job, as one stream of records: history, notifications and pages read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

What = Literal[
    "created",  # the user made it
    "grouped",  # its gang is known
    "waits",  # for another reason than before
    "nominated",  # others leave for it; these nodes will be its own
    "started",  # its minimum has places
    "ready",  # its minimum runs
    "grew",
    "shrunk",
    "noticed",  # it has to leave soon, and was told
    "evicted",  # all of it, by a decision
    "interrupted",  # it lost its minimum without a decision: pods failed or were deleted
    "suspended",  # by its user
    "resumed",  # started again after one of the last three
    "ended",  # reason: Succeeded, Failed or Deleted
    "warned",  # it holds GPUs and does not use them
]
#: In this order: the history file keeps their positions, so new ones come last.
WHAT: tuple[What, ...] = get_args(What)


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Something that happened to one gang of a job at `at_s`.

    `uid` is the workload that its user made: the TrainJob, where its JobSet has the gang. `held`
    GPUs and `pods` are what the gang holds from then on; `types` are those GPUs as (product, node
    pool, GPUs).
    `replayed`: it was found after a start of this process and may have been told before.
    """

    at_s: float
    what: What
    uid: str
    namespace: str
    name: str
    kind: str
    api_version: str
    group: str  # the PodGroup
    queue: str
    user: str
    pool: str
    gpus: float  # asked for
    held: float
    pods: int
    reason: str = ""
    message: str = ""
    nodes: tuple[str, ...] = ()
    types: tuple[tuple[str, str, float], ...] = ()
    for_whom: str = ""  # "RayJob namespace/name"
    replayed: bool = False

    @property
    def job(self) -> str:
        """ "RayJob namespace/name"."""
        return f"{self.kind} {self.namespace}/{self.name}"
