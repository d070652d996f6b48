"""A Kubeflow Pipeline with a step that runs a job in a queue.

python examples/sdk/kfp_pipeline.py compile pipeline.yaml   # for a KFP server
python examples/sdk/kfp_pipeline.py local                   # here, against the cluster in use
"""

import sys

from kfp import compiler, dsl, local

import kai_ray

LOCAL = "local" in sys.argv[1:]

#: Where the pipeline runs locally, kai-ray is installed already.
run_job = kai_ray.kfp.job_component(packages=() if LOCAL else ("kai-ray",))


@dsl.component(base_image="python:3.12-slim")
def report(name: str, status: str) -> str:
    return f"{name} has {status}"


@dsl.pipeline(name="train-and-report")
def train_and_report(queue: str = "vision") -> str:
    train = kai_ray.RayJob("kfp-train", "python train.py", workers=2, gpus=2).manifest()
    step = run_job(manifest=train, queue=queue, options={"min_workers": 1}, timeout_s=600.0)
    return report(name=step.outputs["name"], status=step.outputs["status"]).output


def main() -> None:
    if LOCAL:
        local.init(runner=local.SubprocessRunner(use_venv=False), raise_on_error=True)
        print(train_and_report().output)
    else:
        compiler.Compiler().compile(train_and_report, sys.argv[2])


if __name__ == "__main__":
    main()
