"""Runs the sweep on a Ray of two workers, of which one goes in the middle of it.

Run by the Python of Ray's environment: `shrinking_sweep.py SWEEP TRIALS`.
"""

import importlib
import runpy
import sys
import threading
import time
from typing import Any

# Type checkers do not know them: they are in that environment alone.
ray: Any = importlib.import_module("ray")
Cluster: Any = importlib.import_module("ray.cluster_utils").Cluster


def main() -> None:
    sweep, trials = sys.argv[1], sys.argv[2]
    store: dict[str, Any] = {"object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **store})
    cluster.add_node(num_cpus=1, num_gpus=1, **store)
    second = cluster.add_node(num_cpus=1, num_gpus=1, **store)
    ray.init(address=cluster.address, log_to_driver=False)

    def shrink() -> None:
        while ray.available_resources().get("GPU", 0) > 0.5:  # both workers have a trial
            time.sleep(0.05)
        time.sleep(0.6)  # and a checkpoint
        cluster.remove_node(second, allow_graceful=False)
        print("one worker has gone", flush=True)

    threading.Thread(target=shrink, daemon=True).start()
    sys.argv = [sweep, trials]
    runpy.run_path(sweep, run_name="__main__")
    end = time.monotonic() + 60
    while ray.cluster_resources().get("GPU") != 1 and time.monotonic() < end:
        time.sleep(0.2)  # Ray's books follow the node's end
    print("GPUs at the end:", ray.cluster_resources().get("GPU"))
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main()
