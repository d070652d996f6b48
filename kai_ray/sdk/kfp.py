"""A step of a Kubeflow Pipeline that runs a job in a queue and waits for it."""

from collections.abc import Sequence
from typing import Any

from kai_ray.sdk.errors import KaiError

IMAGE = "python:3.12-slim"


def job_component(image: str = IMAGE, packages: Sequence[str] = ("kai-ray",)) -> Any:
    """The component, for `@kfp.dsl.pipeline` functions.

    Its inputs are those of `run_job` (kai_ray/sdk/kfp_step.py): `manifest` (a dict), `queue`,
    `priority`, `options` (further options of `Scheduling`), `namespace`, `until`, `timeout_s`; its
    outputs `name`, `namespace`, `status`. `packages` are installed in `image` when the step runs;
    give none where the image has kai-ray. The step's service account needs to read and write the
    job.
    Raises KaiError where the package kfp is missing.

    >>> try:
    ...     component = kai_ray.kfp.job_component()
    ... except kai_ray.KaiError as error:  # where kfp is not installed
    ...     print(error.command)
    pip install kfp
    """
    try:
        from kfp import dsl  # type: ignore
    except ImportError as error:
        raise KaiError("the package kfp is not installed", command="pip install kfp") from error
    from kai_ray.sdk.kfp_step import run_job

    return dsl.component(base_image=image, packages_to_install=list(packages))(run_job)
