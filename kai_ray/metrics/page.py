"""The text that answers a scrape."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector


class MetricsPage:
    """The collectors' families and those of this process, in the format that the caller asks."""

    def __init__(self, *collectors: Collector) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        for collector in collectors:
            self._registry.register(collector)

    def __call__(self, accept: str) -> tuple[str, bytes]:
        """Content type and body; `accept` is the request's header."""
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self._registry)
