"""`kai top`: queues, jobs and nodes, live in a terminal.

`screens.py` knows what keys do and nothing of terminals, `draw.py` makes lines of a picture,
`reader.py` reads pictures in a thread of its own, `terminal.py` joins them.
"""
