"""How a command that runs on is told to end."""

from __future__ import annotations

import signal
import threading


def stop_signals() -> threading.Event:
    """Set by Ctrl-C or SIGTERM. Only the main thread of a process gets signals."""
    stopped = threading.Event()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stopped.set())
    return stopped
