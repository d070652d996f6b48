"""What Prometheus reads of a running scheduler: KAI's metric names and ours (docs/metrics.md).

State is read once per scrape, from columns; what is counted is counted by the gang, the queue or
the cycle. No metric has a label per pod.
"""

from kai_ray.metrics.histogram import Histogram

__all__ = ["Histogram"]
