"""What happens to a job, as it is told and as history keeps it."""

from __future__ import annotations

from kai_ray.history.job_event import JobEvent, What

__all__ = ["JobEvent", "What"]
