"""What is refused or completed before it is stored: pods, queues, podgroups, shards.

Only objects that concern us are looked at; without these checks everything still works, with
conditions in place of refusals.
"""

from __future__ import annotations

from kai_ray.admission.podgroups import PodGroupAdmission
from kai_ray.admission.pods import PodAdmission
from kai_ray.admission.queues import QueueAdmission
from kai_ray.admission.shards import ShardAdmission
from kai_ray.admission.topologies import TopologyAdmission
from kai_ray.cluster.port import Admission
from kai_ray.encode import EncodeConfig, MemberOf

__all__ = [
    "PodAdmission",
    "PodGroupAdmission",
    "QueueAdmission",
    "ShardAdmission",
    "TopologyAdmission",
    "default_admission",
]


def default_admission(
    config: EncodeConfig | None = None, member_of: MemberOf | None = None, *, runtime: str = ""
) -> list[Admission]:
    """The plugins of an embedded API server, in order.

    `member_of` tells the gang of a pod from its owners (the podgrouper's membership); without it
    the gang travels on the binding instead. `runtime`: RuntimeClass of pods that share GPUs.
    """
    config = config or EncodeConfig()
    return [
        PodAdmission(config, member_of, runtime=runtime),
        QueueAdmission(),
        PodGroupAdmission(config),
        ShardAdmission(),
        TopologyAdmission(),
    ]
