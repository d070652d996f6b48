"""The same workload script on the embedded cluster and on a real API server."""
