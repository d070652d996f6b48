"""Usage from a Prometheus server, as KAI reads it: `sum_over_time` of allocation and capacity.

Only an option: the metrics must be there already. Queues are keyed by the label `queue_name`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import msgspec
import urllib3

from kai_ray.history.usage import Amounts, Usage
from kai_ray.history.window import UsageSettings, WindowType

_LABEL = "queue_name"
#: KAI's defaults of usageDBConfig.usageParams.extraParams.
METRICS = {
    "cpuAllocationMetric": "kai_queue_allocated_cpu_cores",
    "memoryAllocationMetric": "kai_queue_allocated_memory_bytes",
    "gpuAllocationMetric": "kai_queue_allocated_gpus",
    "cpuCapacityMetric": 'sum(kube_node_status_capacity{resource="cpu"})',
    "memoryCapacityMetric": 'sum(kube_node_status_capacity{resource="memory"})',
    "gpuCapacityMetric": 'sum(kube_node_status_capacity{resource="nvidia_com_gpu"})',
}
_RESOURCES = ("cpu", "memory", "gpu")


class PrometheusError(Exception):
    """The server cannot be asked, or answers something else; the text says which."""


@dataclass(slots=True)
class PrometheusUsage:
    """Asks `url`. Raises PrometheusError; who asks keeps the last answer meanwhile."""

    url: str
    settings: UsageSettings
    metrics: dict[str, str] = field(default_factory=lambda: dict(METRICS))
    resolution_s: float = 60.0
    timeout_s: float = 10.0
    _http: urllib3.PoolManager = field(default_factory=lambda: urllib3.PoolManager(retries=False))

    def usage(self, now_s: float) -> Usage:
        """Of queues; Prometheus knows no users."""
        sums: list[dict[str, float]] = []
        for name in _RESOURCES:
            capacity = self._sums(self.metrics[f"{name}CapacityMetric"], now_s).get("", 0.0)
            allocated = self._sums(self.metrics[f"{name}AllocationMetric"], now_s)
            whole = capacity if capacity > 0 else math.inf
            sums.append({queue: value / whole for queue, value in allocated.items() if queue})
        queues = sorted({queue for found in sums for queue in found})
        cpu, memory, gpu = sums
        found: dict[str, Amounts] = {
            q: (cpu.get(q, 0.0), memory.get(q, 0.0), gpu.get(q, 0.0)) for q in queues
        }
        return Usage(found, {})

    def expression(self, metric: str, now_s: float) -> str:
        """PromQL of one weighted sum over the window."""
        s = self.settings
        span = max(now_s - s.begin_s(now_s), self.resolution_s)
        inner = f"({metric})"
        if s.half_life_s is not None:
            # In a subquery, time() is the time of the sample.
            inner += f" * 0.5 ^ (({now_s:.0f} - time()) / {s.half_life_s:.0f})"
        step = f"{self.resolution_s:.0f}s"
        return f"sum_over_time(({inner})[{span:.0f}s:{step}])"

    def _sums(self, metric: str, now_s: float) -> dict[str, float]:
        query = {"query": self.expression(metric, now_s), "time": f"{now_s:.3f}"}
        try:
            answer = self._http.request(
                "GET",
                f"{self.url.rstrip('/')}/api/v1/query",
                fields=query,
                timeout=urllib3.Timeout(total=self.timeout_s),
                redirect=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise PrometheusError(f"{self.url}: cannot be reached ({error})") from error
        if answer.status != 200:
            raise PrometheusError(f"{self.url}: answers {answer.status}: {answer.data[:200]!r}")
        return _read(answer.data, self.url)


def _read(body: bytes, url: str) -> dict[str, float]:
    try:
        data: Any = msgspec.json.decode(body)["data"]
        if data["resultType"] != "vector":
            raise PrometheusError(f"{url}: answers a {data['resultType']}, not a vector")
        found: dict[str, float] = {}
        for sample in data["result"]:
            value = float(sample["value"][1])
            if math.isfinite(value):
                found[sample["metric"].get(_LABEL, "")] = max(value, 0.0)
        return found
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, IndexError, AttributeError) as e:
        raise PrometheusError(f"{url}: the answer is not one of Prometheus ({e!r})") from e


def window_words(settings: UsageSettings) -> str:
    """For people: "the last 7 days"."""
    days = settings.window_s / 86_400
    span = f"{days:g} days" if days >= 1 else f"{settings.window_s / 3600:g} hours"
    return f"the last {span}" if settings.window is WindowType.SLIDING else f"a window of {span}"
