"""Pictures, one after the other, in a thread of its own: a slow server freezes no key."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from kai_ray.cli.top.picture import Picture
from kai_ray.cli.top.screens import Key

#: Texts about an object are read again after so many pictures.
_TEXT_EVERY = 3


class Reader:
    """`take` reads a picture and raises where it cannot; `tell` reads the text about an object.

    Attributes are read by the thread that draws, and set by ours. `wake` is called after each.
    """

    def __init__(
        self,
        first: Picture,
        take: Callable[[], Picture],
        tell: Callable[[Key], Sequence[str]],
        wake: Callable[[], None],
        every_s: float,
    ) -> None:
        self.picture = first
        self.problem = ""
        self._take, self._tell, self._wake, self._every_s = take, tell, wake, every_s
        self._about: Key | None = None
        self._text: tuple[Key, Sequence[str]] | None = None
        self._asked = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kai-top", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Does not wait for an answer that is on its way."""
        self._over.set()
        self._asked.set()
        self._thread.join(timeout=0.5)

    def text(self, about: Key) -> Sequence[str]:
        """What is known about an object; asks for it where that is nothing yet."""
        if self._about != about:
            self._about = about
            self._asked.set()
        known = self._text
        return known[1] if known is not None and known[0] == about else ("reading ...",)

    def forget(self) -> None:
        """No text is shown."""
        self._about = None

    def _run(self) -> None:
        count = 0
        while not self._over.is_set():
            asked = self._asked.wait(self._every_s)
            self._asked.clear()
            if self._over.is_set():
                return
            if not asked:
                count += 1
                self._look()
            about = self._about
            if about is not None and (asked or count % _TEXT_EVERY == 0):
                self._text = (about, self._told(about))
            self._wake()

    def _look(self) -> None:
        try:
            self.picture = self._take()
            self.problem = ""
        except Exception as error:  # what was seen last stays there, and this says how old it is
            self.problem = str(error).splitlines()[0] if str(error) else repr(error)

    def _told(self, about: Key) -> Sequence[str]:
        try:
            return list(self._tell(about))
        except Exception as error:
            return str(error).splitlines() or [repr(error)]
