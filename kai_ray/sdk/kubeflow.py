"""For Kubeflow's own Python clients: the queue and the rest, in the form that they take."""

from typing import Any, Unpack

from kai_ray.sdk import scheduling
from kai_ray.sdk.errors import KaiError
from kai_ray.sdk.scheduling import Scheduling


def options(**wanted: Unpack[Scheduling]) -> list[Any]:
    """Options for `TrainerClient().train(options=…)` of the package `kubeflow`.

    `TrainerClient().train(runtime="torch", options=kai_ray.kubeflow.options(queue="vision"))`.
    Parts of GPUs belong into the runtime's template. Raises KaiError where the package is missing.

    >>> kai_ray.kubeflow.metadata(queue="vision", min_workers=2)["annotations"]
    {'kai.scheduler/min-member': '2'}
    """
    try:
        from kubeflow.trainer import options as theirs  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise KaiError(
            "the package kubeflow is not installed", command="pip install kubeflow"
        ) from error
    found = metadata(**wanted)
    made: list[Any] = []
    if found["labels"]:
        made.append(theirs.Labels(found["labels"]))
    if found["annotations"]:
        made.append(theirs.Annotations(found["annotations"]))
    return made


def metadata(**wanted: Unpack[Scheduling]) -> dict[str, dict[str, str]]:
    """`labels` and `annotations` as keyword arguments, for `TrainingClient().create_job` of the
    package `kubeflow-training` and for any metadata.

    >>> kai_ray.kubeflow.metadata(queue="vision")
    {'labels': {'kai.scheduler/queue': 'vision'}, 'annotations': {}}
    """
    stated = dict(wanted)
    labels: Any = {k: v for k, v in stated.items() if k in scheduling.LABELS}
    notes: Any = {k: v for k, v in stated.items() if k not in scheduling.LABELS}
    for name in scheduling.ON_PODS:
        if notes.get(name) is not None:
            raise KaiError(
                f"{name} belongs on the pods, not on the job",
                python=f"put kai_ray.annotations({name}=…) on the template of the runtime or job",
            )
    return {
        "labels": scheduling.labels(**labels),
        "annotations": scheduling.annotations(**notes),
    }
