"""Benchmarks: each measures one thing in fresh processes and prints one JSON object a line."""
