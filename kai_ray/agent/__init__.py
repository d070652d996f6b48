"""The node agent: asks the NVIDIA driver what the GPUs of this node do and tells the cluster."""
