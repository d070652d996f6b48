"""Prints what Ray's own head says of its nodes, a line for every change.

    python ray_diary.py HOST:PORT

Runs in Ray's environment, with Ray's own definitions of the messages: nothing of ours is asked.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from typing import Any

grpc: Any = import_module("grpc")
autoscaler_pb2: Any = import_module("ray.core.generated.autoscaler_pb2")
gcs_service_pb2: Any = import_module("ray.core.generated.gcs_service_pb2")


def main(address: str) -> None:
    channel = grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)])
    state = channel.unary_unary(
        "/ray.rpc.autoscaler.AutoscalerStateService/GetClusterResourceState",
        response_deserializer=autoscaler_pb2.GetClusterResourceStateReply.FromString,
    )
    nodes = channel.unary_unary(
        "/ray.rpc.NodeInfoGcsService/GetAllNodeInfo",
        response_deserializer=gcs_service_pb2.GetAllNodeInfoReply.FromString,
    )
    known: dict[bytes, tuple[str, str]] = {}
    while True:
        try:
            deaths = {n.node_id: n.death_info for n in nodes(b"", timeout=10).node_info_list}
            states = state(b"", timeout=10).cluster_resource_state.node_states
        except grpc.RpcError:  # it is not there yet, or busy
            time.sleep(0.5)
            continue
        for node in states:
            death = deaths.get(node.node_id)
            reason = type(death).Reason.Name(death.reason) if death is not None else ""
            seen = autoscaler_pb2.NodeStatus.Name(node.status), reason
            if known.get(node.node_id) != seen:
                known[node.node_id] = seen
                line = {
                    "time": time.time(),
                    "pod": node.instance_id,
                    "status": seen[0],
                    "reason": reason,
                    "message": death.reason_message if death is not None else "",
                }
                print(json.dumps(line), flush=True)
        time.sleep(0.2)


if __name__ == "__main__":
    main(sys.argv[1])
