"""The one reason why a gang waits: from the Plan, from malformed objects, from failed binds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kai_ray.api import labels as names
from kai_ray.cluster.port import Key, Object
from kai_ray.controllers.words import Called, by_name, sentence, word
from kai_ray.encode import Encoded, Problem
from kai_ray.scheduler.plan import QueueCause, Wait
from kai_ray.scheduler.reason import Reason


@dataclass(frozen=True, slots=True)
class Verdict:
    """`blocks_start` False: the gang runs, only its growth waits."""

    reason: Reason
    message: str
    blocks_start: bool = True
    queue_cause: QueueCause | None = None

    @property
    def word(self) -> str:
        return word(self.reason)


#: The message of a gang's failed bind that is backed off from; None if there is none.
Failing = Callable[[Key], str | None]
_QUEUE_REFUSALS = (Reason.QUEUE_NOT_FOUND, Reason.QUEUE_PAUSED)


class Verdicts:
    """Reads one cycle. `failing` says why members of a gang are held back, if they are."""

    def __init__(
        self,
        encoded: Encoded,
        waits: tuple[Wait, ...],
        queue_of: Callable[[Key], str],
        failing: Failing = lambda group: None,
        called: Called = by_name,
    ) -> None:
        self._encoded = encoded
        self.waits = {encoded.names.gang(w.gang): w for w in waits}
        self._queue_of = queue_of
        self._failing = failing
        self._called = called
        self._problems = {(p.kind, p.namespace, p.name): p for p in encoded.problems}
        self._of_pods = _by_group(encoded)

    def of(self, group: Key) -> Verdict | None:
        """None: nothing of this gang waits for a decision."""
        wait = self.waits.get(group)
        blocks = wait.blocks_start if wait is not None else True
        broken = self._problems.get(("PodGroup", group.namespace, group.name))
        if broken is not None:
            return Verdict(Reason.MISCONFIGURED, f"PodGroup {group.name}: {broken.message}", blocks)
        pod = self._of_pods.get(group)
        if pod is not None:
            return Verdict(Reason.MISCONFIGURED, f"pod {pod.name}: {pod.message}", blocks)
        failing = self._failing(group)
        if wait is None:
            return None if failing is None else Verdict(Reason.BACKING_OFF, failing, blocks)
        if wait.reason in _QUEUE_REFUSALS:
            found = self._queue(wait, group)
            if found is not None:
                return found
        if failing is not None:
            return Verdict(Reason.BACKING_OFF, failing, blocks)
        return Verdict(
            wait.reason, sentence(wait, self._encoded, self._called), blocks, wait.queue_cause
        )

    def _queue(self, wait: Wait, group: Key) -> Verdict | None:
        """A queue that is there but broken says what to mend; one that is not is named."""
        name = self._queue_of(group)
        problem = self._problems.get(("Queue", "", name))
        if problem is not None:
            message = f"queue {name}: {problem.message}"
            return Verdict(Reason.MISCONFIGURED, message, wait.blocks_start)
        if wait.reason is not Reason.QUEUE_NOT_FOUND:
            return None
        if not name:
            message = "the PodGroup names no queue: set spec.queue"
        else:
            mend = "create it or name another in the job's label kai.scheduler/queue"
            message = f"queue {name} does not exist: {mend}"
        return Verdict(Reason.QUEUE_NOT_FOUND, message, wait.blocks_start)


def _by_group(encoded: Encoded) -> dict[Key, Problem]:
    """The first malformed pod of each gang."""
    found: dict[Key, Problem] = {}
    for problem in encoded.problems:
        if problem.kind != "Pod":
            continue
        pod: Object | None = encoded.names.pod_objects.get(Key(problem.namespace, problem.name))
        meta = (pod or {}).get("metadata") or {}
        annotations = meta.get("annotations")
        group = annotations.get(names.POD_GROUP) if isinstance(annotations, dict) else None
        if isinstance(group, str) and group:
            found.setdefault(Key(problem.namespace, group), problem)
    return found
