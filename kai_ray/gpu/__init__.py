"""Devices on a cluster: which card pods share, who keeps it for them, what they are told of it."""
