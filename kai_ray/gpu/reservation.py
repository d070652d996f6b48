"""What runs in a pod that keeps a shared card: `python -m kai_ray.gpu.reservation`.

It finds the one device that the pod was given, says its UUID in an annotation of the pod, and waits
until it is told to end. As long as it lives, the device plugin gives the card to nobody else.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import ApiError, Port
from kai_ray.gpu import nvml

log = logging.getLogger("reservation")

_AGAIN_S = 2.0


def device() -> str:
    """The UUID of the one device of this container. Raises LookupError."""
    try:
        found = nvml.uuids()
    except nvml.NoDriver as error:
        found = nvml.named_by_environment()
        if not found:
            raise LookupError(str(error)) from None
    if len(found) != 1:
        raise LookupError(f"{len(found)} devices are visible, exactly 1 is expected: {found}")
    return found[0]


def report(port: Port, namespace: str, pod: str, uuid: str) -> None:
    """Raises ApiError."""
    patch = {"metadata": {"annotations": {names.RESERVED_GPU: uuid}}}
    port.patch(kinds.POD, pod, patch, namespace)


def run(port: Port, stop: threading.Event) -> int:
    """The exit code: 0 after `stop`, 1 where there is no such device."""
    namespace, pod = os.environ.get("POD_NAMESPACE"), os.environ.get("POD_NAME")
    if not namespace or not pod:
        log.error("POD_NAME and POD_NAMESPACE are not set: this runs in a reservation pod")
        return 2
    try:
        found = device()
    except LookupError as error:
        log.error("no device to keep: %s", error)
        return 1
    while not stop.is_set():
        try:
            report(port, namespace, pod, found)
            log.info("keeping %s", found)
            break
        except ApiError as error:
            log.warning("cannot say which device this is: %s", error)
            stop.wait(_AGAIN_S)
    stop.wait()
    return 0


def main() -> int:
    from kai_ray.cluster.kube import connect
    from kai_ray.cluster.kubeconfig import KubeconfigError

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        port = connect()
    except KubeconfigError as error:
        log.error("no API server to report to: %s", error)
        return 2
    return run(port, stop)


if __name__ == "__main__":
    sys.exit(main())
