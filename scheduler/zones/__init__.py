"""Topology in the node: NUMA cells and GPU link groups, known before the node is chosen."""
