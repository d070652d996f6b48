"""What the step of a pipeline does. KFP copies the function's text, so it stands by itself here."""

from typing import NamedTuple


def run_job(
    manifest: dict,
    queue: str = "",
    priority: str = "",
    options: dict = {},  # noqa: B006 (KFP reads the default)
    namespace: str = "",
    until: str = "ended",
    timeout_s: float = 0.0,
) -> NamedTuple("Outcome", [("name", str), ("namespace", str), ("status", str)]):  # type: ignore
    """Submits a job and waits for it; fails if the job does. Tried again, it finds the same job.

    manifest: the job as a dict. options: further options of kai_ray.Scheduling. until: decided,
    started or ended. timeout_s: 0 waits for ever.
    """
    from typing import NamedTuple

    import kai_ray

    with kai_ray.connect(namespace=namespace or None) as kai:
        job = kai.submit(manifest, queue=queue or None, priority=priority or None, **options)
        print(f"{job.ref} in namespace {job.namespace}")
        try:
            job.wait(timeout_s or None, until, progress=False)  # type: ignore
        except kai_ray.KaiError:
            print(job.events())
            raise
        status = job.status.value
    print(status)
    Outcome = NamedTuple(  # noqa: UP014 (a class would not be copied)
        "Outcome", [("name", str), ("namespace", str), ("status", str)]
    )
    return Outcome(job.name, job.namespace, status)
