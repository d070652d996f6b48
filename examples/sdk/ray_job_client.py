"""Ray's own job client on a cluster that is running: the cluster has the place in the queue.

    python examples/sdk/ray_job_client.py http://HEAD:8265

The labels belong on the RayCluster; as the job's metadata they only say whose it is.
"""

import sys
import time

from ray.job_submission import JobStatus, JobSubmissionClient

import kai_ray

CLUSTER = kai_ray.RayCluster("notebook", workers=1, gpus=1).manifest()
CLUSTER["metadata"]["labels"] = kai_ray.labels(queue="vision", user="ada")


def main() -> None:
    client = JobSubmissionClient(sys.argv[1])
    job = client.submit_job(
        entrypoint="python -c 'import ray; ray.init(); print(\"hello\")'",
        metadata=kai_ray.labels(queue="vision", user="ada"),
    )
    while client.get_job_status(job) not in (JobStatus.SUCCEEDED, JobStatus.FAILED):
        time.sleep(0.5)
    print(client.get_job_status(job).value, client.get_job_info(job).metadata)


if __name__ == "__main__":
    main()
