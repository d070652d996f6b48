"""Filters: whether a class may go to a node at all. One rule a file; the order is in `policy.py`."""
