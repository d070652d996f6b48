"""Filters: whether a class may go to a node at all. One rule a file; order in `policy.py`."""
