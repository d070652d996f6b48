"""Runs the agent for a while beside the driver of this machine; prints what it told, as JSON.

In a process of its own: a stand-in that was loaded before would answer in the driver's place.
"""

from __future__ import annotations

import json
import threading
import time

from kai_ray.agent.agent import Agent, AgentConfig
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.memory import MemoryStore, install_defaults

LOOKS_S, TOLD_EVERY_S, RUNS_S = 1.0, 5.0, 12.0


def main() -> None:
    store = MemoryStore()
    install_defaults(store)
    store.create(kinds.NODE, {"metadata": {"name": "here"}, "spec": {}})
    config = AgentConfig("here", period_s=TOLD_EVERY_S, look_s=LOOKS_S)
    agent, stop = Agent(config, store), threading.Event()
    running = threading.Thread(target=agent.run, args=(stop,))
    before, began = time.process_time(), time.monotonic()
    running.start()
    time.sleep(RUNS_S)
    cost = (time.process_time() - before) / (time.monotonic() - began)
    stop.set()
    running.join(10)
    status = store.get(kinds.GPU_NODE_STATE, "here")["status"]
    print(json.dumps({"status": status, "cost": cost}))


if __name__ == "__main__":
    main()
