"""Scores: how gladly a class goes to a node. One rule a file; weights stand in `policy.py`."""
