"""Writes that nobody waits for: carried out beside the loop, answered inside it.

Decisions must not wait until statuses and events are written; but what is done with the answers
happens in the loop, one after the other like everything else there.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .port import ApiError, Write

#: Answers in the order of the writes: results, and ApiErrors where a write was refused.
Then = Callable[[list[Any]], None]


class Ahead:
    """Up to `writers` writes at a time; `wake` is called whenever answers have come."""

    def __init__(self, writers: int, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._threads = ThreadPoolExecutor(writers, "write-ahead")
        self._answered: deque[tuple[Then, list[Any]]] = deque()

    def send(self, writes: Sequence[Write], then: Then) -> None:
        answers: list[Any] = [None] * len(writes)
        left = len(writes)
        counting = threading.Lock()

        def one(i: int) -> None:
            nonlocal left
            answers[i] = _outcome(writes[i])
            with counting:
                left -= 1
                last = not left
            if last:
                self._answered.append((then, answers))
                self._wake()

        for i in range(len(writes)):
            self._threads.submit(one, i)

    def take(self) -> int:
        """Hands over the answers that are there, in the caller's thread; how many sendings."""
        taken = 0
        while self._answered:
            then, answers = self._answered.popleft()
            then(answers)
            taken += 1
        return taken

    def close(self) -> None:
        """Gives up what has not begun; nobody is told of answers any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._answered.clear()


def _outcome(write: Write) -> Any:
    try:
        return write.call(*write.args, **(write.kwargs or {}))
    except ApiError as error:
        return error
    except Exception as error:  # nobody else would ever hear of it
        return ApiError(f"a write failed: {error!r}")
