"""Binds every pod of one schedulerName to the next node: what the client and the server allow.

    python -m benchmarks.e2e_binder NAME

Fills nodes one after the other, eight pods each, and starts again at the first.
"""

from __future__ import annotations

import itertools
import sys
from concurrent.futures import ThreadPoolExecutor

from kai_ray.cluster import resources as r
from kai_ray.cluster.kube import CONNECTIONS, connect
from kai_ray.cluster.port import Object

PER_NODE = 8


def main(scheduler_name: str) -> None:
    port = connect()
    nodes = sorted(node["metadata"]["name"] for node in port.list(r.NODE).items)
    places = itertools.cycle(node for node in nodes for _ in range(PER_NODE))
    waiting = port.list(r.POD)
    watch = port.watch(r.POD, resource_version=waiting.resource_version)
    with ThreadPoolExecutor(CONNECTIONS) as binders:

        def take(pod: Object) -> None:
            about, spec = pod["metadata"], pod["spec"]
            if spec.get("schedulerName") == scheduler_name and not spec.get("nodeName"):
                binders.submit(port.bind, about["namespace"], about["name"], next(places))

        for pod in waiting.items:
            take(pod)
        while True:
            event = watch.next(60.0)
            if event is not None and event.type == "ADDED":
                take(event.object)


if __name__ == "__main__":
    main(sys.argv[1])
