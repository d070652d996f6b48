"""The status of a training job: conditions and counts as the training operator writes them."""

from __future__ import annotations

from kai_ray.cluster.port import Object, Resource
from kai_ray.sim import pod_facts

from .world import World, own_copy


class JobStatus:
    """The status under construction; `value` is what gets written."""

    def __init__(self, world: World, kind: str, job: Object, restarts: dict[str, int]) -> None:
        self._world = world
        self._restarts = restarts
        self._kind = kind
        self.job = job
        self._name = job["metadata"]["name"]
        self.value: Object = own_copy(job.get("status") or {})

    def is_finished(self) -> bool:
        return self.has("Succeeded") or self.has("Failed")

    def has(self, kind: str) -> bool:
        return any(
            c["type"] == kind and c["status"] == "True" for c in self.value.get("conditions") or ()
        )

    def created(self) -> None:
        if not self.value.get("conditions"):
            self._put("Created", "True", "Created", f"{self._kind} {self._name} is created.")

    def suspended(self) -> None:
        for counts in (self.value.get("replicaStatuses") or {}).values():
            counts.pop("active", None)
        text = f"{self._kind} {self._name} is suspended."
        if self.has("Running"):
            self._put("Running", "False", "Suspended", text)
        self._put("Suspended", "True", "Suspended", text)

    def resumed(self) -> None:
        if self.has("Suspended"):
            text = f"{self._kind} {self._name} is resumed."
            self._put("Suspended", "False", "Resumed", text)
            self.value["startTime"] = self._world.stamp()
        self.value.setdefault("startTime", self._world.stamp())

    def running(self) -> None:
        self._put("Running", "True", "Running", f"{self._kind} {self._name} is running.")

    def restarting(self, replica: str) -> None:
        self._restarts[self.job["metadata"]["uid"]] = self.restart_count() + 1
        text = f"{self._kind} {self._name} is restarting because {replica} replica(s) failed."
        self._put("Restarting", "True", "Restarting", text)

    def restart_count(self) -> int:
        """Pods that were replaced after a failure, as far as this process has seen."""
        return self._restarts.get(self.job["metadata"]["uid"], 0)

    def succeeded(self) -> None:
        text = f"{self._kind} {self._name} is successfully completed."
        self.value.setdefault("completionTime", self._world.stamp())
        self._put("Succeeded", "True", "Succeeded", text)

    def failed(self, text: str) -> None:
        self.value.setdefault("completionTime", self._world.stamp())
        self._put("Failed", "True", "Failed", text)

    def expire(self, resource: Resource, ttl_s: float | None) -> float | None:
        """Deletes the job when it has been over for its time to live; answers how long it has."""
        if ttl_s is None:
            return None
        left = ttl_s - self._world.age_s(self.value.get("completionTime"))
        if left <= 0:
            self._world.delete(resource, self.job)
            return None
        return left

    def replicas_failed(self, replica: str, count: int) -> None:
        self.failed(
            f"{self._kind} {self._name} is failed because {count} {replica} replica(s) failed."
        )

    def count(self, replica: str, pods: list[Object], selector: str = "") -> None:
        """Counts the pods of one replica type; zero counts are left out."""
        counts: Object = {}
        for field, phase in (
            ("active", "Running"),
            ("succeeded", "Succeeded"),
            ("failed", "Failed"),
        ):
            number = sum(pod_facts.phase(p) == phase for p in pods)
            if number:
                counts[field] = number
        if selector:
            counts["selector"] = selector
        self.value.setdefault("replicaStatuses", {})[replica] = counts

    def counts(self, replica: str) -> tuple[int, int, int]:
        """(active, succeeded, failed)."""
        found = (self.value.get("replicaStatuses") or {}).get(replica) or {}
        return found.get("active", 0), found.get("succeeded", 0), found.get("failed", 0)

    def settle(self) -> None:
        """After success nothing is active any more."""
        if not self.has("Succeeded"):
            return
        for counts in (self.value.get("replicaStatuses") or {}).values():
            active = counts.pop("active", 0)
            if active:
                counts["succeeded"] = counts.get("succeeded", 0) + active

    def _put(self, kind: str, status: str, reason: str, message: str) -> None:
        if self.has("Failed"):
            return
        reason = f"{self._kind}{reason}"
        conditions = self.value.setdefault("conditions", [])
        stamp = self._world.stamp()
        for found in conditions:
            if found["type"] == kind and found["status"] == status and found["reason"] == reason:
                return
        kept = [c for c in conditions if c["type"] != kind]
        # Running and Restarting exclude each other, and the end switches Running off.
        if status == "True":
            if kind in ("Running", "Restarting"):
                other = "Restarting" if kind == "Running" else "Running"
                kept = [c for c in kept if c["type"] != other]
            if kind in ("Succeeded", "Failed"):
                for c in kept:
                    if c["type"] == "Running":
                        c["status"] = "False"
        old = next((c for c in conditions if c["type"] == kind and c["status"] == status), None)
        kept.append(
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastTransitionTime": old["lastTransitionTime"] if old else stamp,
                "lastUpdateTime": stamp,
            }
        )
        self.value["conditions"] = kept
