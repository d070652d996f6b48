"""How long the work in a pod runs and how it ends: by annotation, else by its pool's model."""

from __future__ import annotations

import logging

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from kai_ray.cluster.runtime import Runtime

from . import pod_facts
from .cluster_file import NodePool

log = logging.getLogger(__name__)
#: No chain of owners is longer: CronJob, Job, pod; AppWrapper, TrainJob, JobSet, Job, pod.
_MOST_OWNERS = 8


class Work:
    """Annotations count on the pod and, for work that ends by itself, on any of its owners."""

    def __init__(self, seed: int, factor: float = 1.0) -> None:
        self._seed = seed
        self._factor = factor

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def life_s(self, pod: Object, pool: NodePool, *, ends: bool) -> float | None:
        """Seconds that the work runs, or None for ever."""
        texts = self._annotated(pod, L.RUN_TIME, chain=ends)
        if texts is not None:
            try:
                return pod_facts.duration_s(texts) * self._factor
            except ValueError as error:
                log.warning("%s: annotation %s: %s", pod["metadata"]["name"], L.RUN_TIME, error)
        if not ends:
            return None
        meta = pod["metadata"]
        drawn = pool.run_time.model().seconds(
            self._seed, meta["namespace"], meta["name"], pod_facts.restarts(pod)
        )
        return drawn * self._factor

    def code(self, pod: Object) -> int:
        """The exit code. A RayJob's own annotation is its entrypoint's, not its submitter's."""
        text = self._annotated(pod, L.EXIT_CODE, chain=True, but="RayJob")
        if text is None:
            return 0
        attempt = pod_facts.restarts(pod) + sum(
            (o.get("status") or {}).get("failed") or 0 for o in self._owners(pod)
        )
        try:
            return pod_facts.codes(text)(attempt)
        except ValueError:
            log.warning("%s: annotation %s: %r: write numbers such as 1 or 1,0",
                        pod["metadata"]["name"], L.EXIT_CODE, text)  # fmt: skip
            return 0

    def annotated(self, pod: Object, key: str) -> str | None:
        """What the pod or the nearest of its owners says."""
        return self._annotated(pod, key, chain=True)

    def _annotated(self, pod: Object, key: str, *, chain: bool, but: str = "") -> str | None:
        """The annotation on the pod or, with `chain`, on the nearest owner that has it."""
        for obj in [pod, *(self._owners(pod) if chain else ())]:
            if obj["kind"] == but or (but and obj["kind"] == "RayCluster"):
                continue  # a RayCluster carries its RayJob's annotations
            text = (obj["metadata"].get("annotations") or {}).get(key)
            if text is not None:
                return text
        return None

    def _owners(self, pod: Object) -> list[Object]:
        """The chain of controllers, nearest first, as far as this process watches their kinds."""
        found: list[Object] = []
        obj: Object | None = pod
        while obj is not None and len(found) < _MOST_OWNERS:
            refs = obj["metadata"].get("ownerReferences") or ()
            ref = next((r for r in refs if r.get("controller")), None)
            resource = R.BY_KIND.get((ref["apiVersion"], ref["kind"])) if ref else None
            if ref is None or resource is None:
                break
            obj = self._runtime.informer(resource).get(
                ref["name"], pod["metadata"]["namespace"] if resource.namespaced else ""
            )
            if obj is not None:
                found.append(obj)
        return found
