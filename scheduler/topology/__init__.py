"""Topology between nodes: keep a gang inside one domain (rack, zone), or in as few as can be."""
