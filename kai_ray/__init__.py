"""Gang scheduling of Ray and Kubeflow jobs on one fairly shared pool of GPUs.

>>> import kai_ray
>>> kai = kai_ray.connect(cluster)
>>> job = kai.submit(kai_ray.RayJob("hello-ray", "python hello.py", gpus=1), queue="vision")
>>> job.wait().status
<Status.SUCCEEDED: 'Succeeded'>

Importing this costs nothing: a name is loaded when it is first used.
"""

TYPE_CHECKING = False  # as type checkers know it, without the import
if TYPE_CHECKING:
    from kai_ray.sdk import aio, kfp, kubeflow
    from kai_ray.sdk.client import Client, connect
    from kai_ray.sdk.errors import (
        Ambiguous,
        BadKubeconfig,
        CannotSuspend,
        Conflict,
        Denied,
        InvalidManifest,
        JobDeleted,
        JobFailed,
        KaiError,
        NoCluster,
        NotFound,
        Unreachable,
        Unserved,
        WaitTimeout,
    )
    from kai_ray.sdk.explaining import Explanation
    from kai_ray.sdk.forecast import Eta
    from kai_ray.sdk.happenings import Event, EventList
    from kai_ray.sdk.job import Job, JobList
    from kai_ray.sdk.looks import Change
    from kai_ray.sdk.queue import Queue, QueueList, QueueOptions
    from kai_ray.sdk.scheduling import Scheduling, Topology, annotations, labels
    from kai_ray.sdk.status import Status
    from kai_ray.sdk.workloads import BatchJob, PyTorchJob, RayCluster, RayJob, TrainJob

__all__ = [
    "Ambiguous",
    "BadKubeconfig",
    "BatchJob",
    "CannotSuspend",
    "Change",
    "Client",
    "Conflict",
    "Denied",
    "Eta",
    "Event",
    "EventList",
    "Explanation",
    "InvalidManifest",
    "Job",
    "JobDeleted",
    "JobFailed",
    "JobList",
    "KaiError",
    "NoCluster",
    "NotFound",
    "PyTorchJob",
    "Queue",
    "QueueList",
    "QueueOptions",
    "RayCluster",
    "RayJob",
    "Scheduling",
    "Status",
    "Topology",
    "TrainJob",
    "Unreachable",
    "Unserved",
    "WaitTimeout",
    "aio",
    "annotations",
    "connect",
    "kfp",
    "kubeflow",
    "labels",
]

#: The module below kai_ray.sdk that a public name is loaded from; a module is its own.
_HOMES = {
    "Ambiguous": "errors",
    "BadKubeconfig": "errors",
    "BatchJob": "workloads",
    "CannotSuspend": "errors",
    "Change": "looks",
    "Client": "client",
    "Conflict": "errors",
    "Denied": "errors",
    "Eta": "forecast",
    "Event": "happenings",
    "EventList": "happenings",
    "Explanation": "explaining",
    "InvalidManifest": "errors",
    "Job": "job",
    "JobDeleted": "errors",
    "JobFailed": "errors",
    "JobList": "job",
    "KaiError": "errors",
    "NoCluster": "errors",
    "NotFound": "errors",
    "PyTorchJob": "workloads",
    "Queue": "queue",
    "QueueList": "queue",
    "QueueOptions": "queue",
    "RayCluster": "workloads",
    "RayJob": "workloads",
    "Scheduling": "scheduling",
    "Status": "status",
    "Topology": "scheduling",
    "TrainJob": "workloads",
    "Unreachable": "errors",
    "Unserved": "errors",
    "WaitTimeout": "errors",
    "aio": "aio",
    "annotations": "scheduling",
    "connect": "client",
    "kfp": "kfp",
    "kubeflow": "kubeflow",
    "labels": "scheduling",
}


if not TYPE_CHECKING:  # a type checker is to know the names above, and no others

    def __getattr__(name: str) -> object:
        from importlib import import_module

        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'kai_ray' has no attribute {name!r}")
        module = import_module(f"kai_ray.sdk.{home}")
        found = module if home == name else getattr(module, name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
