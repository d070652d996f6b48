"""Several node pools side by side: one scheduling loop for each SchedulingShard object.

A shard sees the nodes, queues and PodGroups that carry its value of the node pool label, and no
others, so two shards never touch each other's nodes. The shard without a value is there from the
start, with or without an object; its object only changes its settings. What an object says that
cannot be used is named in its condition, and the shard goes on with what it had.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.ahead import Then
from kai_ray.cluster.clock import Clock, rfc3339
from kai_ray.cluster.informer import Handler, Informer
from kai_ray.cluster.port import ApiError, Key, NotFound, Object, Port, Resource, Write
from kai_ray.cluster.runtime import Controller, Runtime
from kai_ray.controllers.compose import Control, compose
from kai_ray.controllers.conditions import condition, merged
from kai_ray.controllers.config import ControlConfig
from kai_ray.controllers.merge_patch import difference
from kai_ray.controllers.usage import UsageController
from kai_ray.encode import MemberOf
from kai_ray.encode.problems import Malformed
from kai_ray.encode.shard_spec import ShardSettings, read
from kai_ray.history.config import UsageConfig
from kai_ray.scheduler import DEFAULT

_TELL_EVERY_S = 60.0


class Watcher(Protocol):
    """Who looks at the parts that serve each node pool."""

    def watch(self, pool: str, control: Control) -> None: ...
    def forget(self, pool: str) -> None: ...


class Shards:
    """Keys: names of SchedulingShard objects; "look" for what objects say together."""

    name = "shards"

    def __init__(
        self,
        config: ControlConfig,
        default: Control,
        member_of: MemberOf | None = None,
        state: Path | None = None,
        *,
        only: str | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        """`default` serves what has no node pool label; `state` is the folder of history files.

        With `only`, the value of one node pool, `default` serves that one and nothing else runs.
        `watcher` is shown the parts of every node pool.
        """
        self._config = config
        self._only = only
        self._member_of = member_of
        self._state = state
        self._home = only or ""
        self._watcher = watcher
        if watcher is not None:
            watcher.watch(self._home, default)
        self._running: dict[str, _Running] = {
            self._home: _Running(default, config.usage, config.on_usage_query)
        }
        self._count = 0

    def close(self) -> None:
        """Writes what is kept in files."""
        for running in self._running.values():
            running.close()

    def control(self, pool: str) -> Control | None:
        """The parts that serve a node pool."""
        running = self._running.get(pool)
        return running.control if running else None

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._objects = runtime.informer(kinds.SCHEDULING_SHARD)
        self._objects.on_change(lambda old, new: runtime.enqueue(self.name, "look"))

    def reconcile(self, key: str) -> float | None:
        served: dict[str, str] = {}
        for shard in sorted(self._objects, key=lambda s: s["metadata"]["name"]):
            if shard["metadata"].get("deletionTimestamp"):
                continue
            self._serve(shard, served)
        for pool in self._running.keys() - served.keys():
            if pool != self._home:
                self._running.pop(pool).retire()
                if self._watcher is not None:
                    self._watcher.forget(pool)
            else:
                self._apply(self._running[pool], ShardSettings(pool, DEFAULT, self._config.usage))
        return _TELL_EVERY_S if served else None

    def _serve(self, shard: Object, served: dict[str, str]) -> None:
        """Brings what runs in line with one object, and says on it what became of that."""
        name = shard["metadata"]["name"]
        if self._only is not None and _pool(shard) != self._only:
            return
        try:
            settings = read(shard, self._config.usage, self._state)
            if settings.pool in served:
                mend = f"{settings.pool!r} is served by {served[settings.pool]}: name another pool"
                raise Malformed("spec.partitionLabelValue", mend)
        except Malformed as error:
            pool = _pool(shard)
            if pool in self._running:
                served.setdefault(pool, name)
            self._say(shard, False, "Misconfigured", str(error))
            return
        served[settings.pool] = name
        running = self._running.get(settings.pool)
        if running is None:
            running = self._running[settings.pool] = self._start(settings)
        self._apply(running, settings)
        problem = running.usage_problem
        self._say(shard, True, "UsageDegraded" if problem else "Serving", problem or "serving")

    def _start(self, settings: ShardSettings) -> _Running:
        encode = dataclasses.replace(self._config.encode, node_pool=settings.pool)
        config = dataclasses.replace(self._config, encode=encode, usage=None)
        control = compose(config, self._member_of, settings.policy)
        view = _View(self._runtime, self._number())
        running = _Running(control, None, config.on_usage_query, view)
        if self._watcher is not None:
            self._watcher.watch(settings.pool, control)
        for controller in control.controllers():
            self._runtime.add(running.placed(controller))
        return running

    def _apply(self, running: _Running, settings: ShardSettings) -> None:
        running.control.loop.use(settings.policy)
        if running.control.encoder.use_zones(settings.zones):
            running.control.loop.kick()
        if settings.usage != running.usage_config:
            running.set_usage(settings.usage, self._runtime, self._number())

    def _number(self) -> int:
        self._count += 1
        return self._count

    def _say(self, shard: Object, ready: bool, reason: str, message: str) -> None:
        now = rfc3339(self._runtime.clock.now())
        old = shard.get("status") or {}
        made = condition("Ready", ready, reason, message, now=now)
        patch = difference(old, {**old, "conditions": merged(old.get("conditions") or (), [made])})
        if not patch:
            return
        key = Key("", shard["metadata"]["name"])
        try:
            answer = self._runtime.port.patch(
                kinds.SCHEDULING_SHARD, key.name, {"status": patch}, subresource="status"
            )
        except NotFound:
            return
        except ApiError:
            self._runtime.enqueue(self.name, "look", 1.0)
            return
        self._objects.remember(answer)


def _pool(shard: Object) -> str:
    return str((shard.get("spec") or {}).get("partitionLabelValue") or "")


class _Running:
    """A shard at work."""

    def __init__(
        self,
        control: Control,
        usage: UsageConfig | None,
        asked: Callable[[float], None] | None,
        view: _View | None = None,
    ) -> None:
        self.control = control
        self._asked = asked
        self.usage_config = usage
        self._view = view
        self._usage = control.usage

    @property
    def usage_problem(self) -> str:
        return self._usage.problem if self._usage is not None else ""

    def placed(self, controller: Controller) -> Controller:
        assert self._view is not None
        return _Placed(controller, self._view)

    def set_usage(self, config: UsageConfig | None, runtime: Runtime, number: int) -> None:
        """Another way to count: the file of the old one is let go first."""
        if self._usage is not None:
            self._usage.retire()
        self._usage = None
        self.usage_config = config
        if config is None:
            return
        scheduler = self._view.named("scheduler") if self._view else "scheduler"
        encoder, name = self.control.encoder, f"usage-{number}"
        self._usage = UsageController(config, encoder, name, scheduler, self._asked)
        runtime.add(self._usage)
        self.control.loop.tell(self._usage.observe)

    def retire(self) -> None:
        if self._usage is not None:
            self._usage.retire()
        if self._view is not None:
            self._view.retired = True

    def close(self) -> None:
        if self._usage is not None:
            self._usage.close()


class _View:
    """The runtime as the controllers of one shard see it: their names are their own."""

    def __init__(self, runtime: Runtime, number: int) -> None:
        self._runtime = runtime
        self._suffix = f"@{number}"
        self.retired = False

    @property
    def port(self) -> Port:
        return self._runtime.port

    @property
    def clock(self) -> Clock:
        return self._runtime.clock

    def named(self, controller: str) -> str:
        return controller + self._suffix

    def enqueue(self, controller: str, key: str, after_s: float = 0.0) -> None:
        self._runtime.enqueue(self.named(controller), key, after_s)

    def informer(self, resource: Resource) -> _InformerView:
        return _InformerView(self._runtime.informer(resource), self)

    def need(self, *resources: Resource) -> None:
        self._runtime.need(*resources)

    def post(self, writes: Sequence[Write], then: Then, *, urgent: bool = False) -> None:
        self._runtime.post(writes, then, urgent=urgent)

    def wake(self) -> None:
        self._runtime.wake()


class _InformerView:
    """An informer whose news end when the shard does."""

    def __init__(self, informer: Informer, view: _View) -> None:
        self._informer, self._view = informer, view

    def on_change(self, handler: Handler) -> None:
        view = self._view

        def while_it_runs(old: Object | None, new: Object | None) -> None:
            if not view.retired:
                handler(old, new)

        self._informer.on_change(while_it_runs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._informer, name)

    def __iter__(self) -> Any:
        return iter(self._informer)

    def __len__(self) -> int:
        return len(self._informer)


class _Placed:
    """A controller of one shard under a name of its own."""

    def __init__(self, controller: Controller, view: _View) -> None:
        self._controller, self._view = controller, view
        self.name = view.named(controller.name)

    def setup(self, runtime: Runtime) -> None:
        setup: Any = self._controller.setup
        setup(self._view)

    def reconcile(self, key: str) -> float | None:
        return None if self._view.retired else self._controller.reconcile(key)
