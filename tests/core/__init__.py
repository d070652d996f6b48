"""The core on small clusters: stories and properties."""
