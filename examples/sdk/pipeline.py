"""A small pipeline with nothing but kai-ray: prepare, train, evaluate, and react to what happens.

    python examples/sdk/pipeline.py

It talks to the cluster that `kai` finds: the running `kai up`, or a kubeconfig.
"""

import kai_ray

QUEUE = "vision"


def main() -> None:
    with kai_ray.connect() as kai:
        prepare = kai_ray.BatchJob("prepare", image="python:3.12-slim", pods=2, cpus=2)
        kai.submit(prepare, queue=QUEUE).wait(timeout=600)

        train = kai_ray.PyTorchJob(
            "train", image="pytorch/pytorch", command="torchrun train.py", workers=2, gpus=8
        )
        job = kai.submit(train, queue=QUEUE, priority="train").wait(until="decided")
        if job.status.queued:
            print(job.explain())
            print(f"starts by {job.eta.at:%H:%M}" if job.eta else "nobody knows when it starts")
        for change in job.changes(timeout=3600):
            print(f"train: {change.status} {change.reason}".rstrip())

        seeds = [
            kai_ray.BatchJob(f"evaluate-{seed}", image="python:3.12-slim", gpus=1)
            for seed in range(3)
        ]
        for done in kai.as_ended(kai.submit_all(seeds, queue=QUEUE, gpu_fraction=0.5)):
            print(f"{done.name}: {done.status}")

        for job in kai.jobs(queue=QUEUE, status="Succeeded"):
            job.delete()


if __name__ == "__main__":
    main()
