"""A port that fails on purpose: before a write, after it (the reply is lost), or for good."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import ApiError, Conflict, Port, Unavailable, Watch, Write

Mode = Literal["before", "after", "conflict", "crash before", "crash after"]


class Crash(BaseException):
    """The process dies here."""


class FaultyPort:
    """Counts writes; the `at`-th one fails in the given way. `reject` refuses binds for ever.

    Reads and watches pass. `batch` runs one write after the other, so that every point between two
    writes of a gang is reached.
    """

    def __init__(
        self,
        inner: Port,
        at: int = -1,
        mode: Mode = "before",
        reject: Callable[[str], ApiError | None] = lambda pod: None,
    ) -> None:
        self._inner = inner
        self.at = at
        self.mode = mode
        self.writes = 0
        self.binds: list[str] = []
        self.dark = False  # binds happen but no reply comes, and nothing can be read
        self.slow_s = 0.0  # every write takes so long of the virtual clock
        self.clock: VirtualClock | None = None
        self.broken = False  # watches break and lists fail
        self._reject = reject

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _write(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]):
        if self.slow_s and self.clock is not None:
            self.clock.advance_to(self.clock.now() + self.slow_s)
        mine = self.writes
        self.writes += 1
        if mine != self.at:
            return call(*args, **kwargs)
        if self.mode == "before":
            raise Unavailable("connection refused")
        if self.mode == "conflict":
            raise Conflict("the object has been modified")
        if self.mode == "crash before":
            raise Crash
        result = call(*args, **kwargs)
        if self.mode == "crash after":
            raise Crash
        if self.mode == "after":
            raise Unavailable("the connection was lost before the reply")
        return result

    def create(self, *args: Any, **kwargs: Any) -> Any:
        return self._write(self._inner.create, args, kwargs)

    def patch(self, *args: Any, **kwargs: Any) -> Any:
        return self._write(self._inner.patch, args, kwargs)

    def update(self, *args: Any, **kwargs: Any) -> Any:
        return self._write(self._inner.update, args, kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> Any:
        return self._write(self._inner.delete, args, kwargs)

    def evict(self, *args: Any, **kwargs: Any) -> Any:
        return self._write(self._inner.evict, args, kwargs)

    def bind(self, namespace: str, pod: str, node: str, **kwargs: Any) -> Any:
        self.binds.append(pod)
        refused = self._reject(pod)
        if refused is not None:
            raise refused
        result = self._write(self._inner.bind, (namespace, pod, node), kwargs)
        if self.dark:
            raise Unavailable("time-out")
        return result

    def get(self, *args: Any, **kwargs: Any) -> Any:
        if self.dark:
            raise Unavailable("time-out")
        return self._inner.get(*args, **kwargs)

    def list(self, *args: Any, **kwargs: Any) -> Any:
        if self.dark or self.broken:
            raise Unavailable("time-out")
        return self._inner.list(*args, **kwargs)

    def watch(self, *args: Any, **kwargs: Any) -> Any:
        return _Watch(self, self._inner.watch(*args, **kwargs))

    def batch(self, writes: Sequence[Write]) -> list[Any]:
        results: list[Any] = []
        for write in writes:
            try:
                results.append(write.call(*write.args, **(write.kwargs or {})))
            except ApiError as error:
                results.append(error)
        return results


class _Watch:
    def __init__(self, port: FaultyPort, inner: Watch) -> None:
        self._port = port
        self._inner = inner

    def next(self, timeout_s: float = 0.0) -> Any:
        if self._port.broken:
            raise Unavailable("connection lost")
        if self._port.dark:
            return None
        return self._inner.next(timeout_s)

    def silent_s(self) -> float:
        return self._inner.silent_s()

    def close(self) -> None:
        self._inner.close()
