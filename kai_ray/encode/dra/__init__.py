"""Devices that drivers offer and pods claim (Dynamic Resource Allocation), as rows of the core.

Slices make an inventory, claims make asks, and both meet in `rows`: what can be given away on each
node becomes resource rows, so that the core plans with devices as with any other resource.
`assign` names the devices once a node is chosen.
"""
