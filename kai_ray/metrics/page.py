"""The text that answers a scrape."""

from __future__ import annotations

import threading

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from kai_ray.cluster.clock import steady_s

#: Who asks again sooner gets the same page: nobody slows the loop by asking all the time.
LEAST_S = 0.5


class MetricsPage:
    """The collectors' families and those of this process, in the format that the caller asks.

    One page is made at a time, and not before `least_s` after the one before.
    """

    def __init__(self, *collectors: Collector, least_s: float = LEAST_S) -> None:
        self._least_s = least_s
        self._lock = threading.Lock()
        self._made: dict[str, tuple[float, bytes]] = {}  # by content type
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        for collector in collectors:
            self._registry.register(collector)

    def __call__(self, accept: str) -> tuple[str, bytes]:
        """Content type and body; `accept` is the request's header."""
        encode, content_type = choose_encoder(accept)
        with self._lock:
            made_s, body = self._made.get(content_type, (float("-inf"), b""))
            if steady_s() - made_s >= self._least_s:
                body = encode(self._registry)
                self._made = {content_type: (steady_s(), body)}
        return content_type, body
