"""Which controllers make up the scheduler: one composition for every kind of cluster.

The embedded cluster and the process on a real API server run exactly this; they differ in the port
below it and in who plays the nodes and the operators.
"""

from __future__ import annotations

import dataclasses

from kai_ray.cluster.runtime import Controller
from kai_ray.controllers import ControlConfig
from kai_ray.controllers.compose import compose
from kai_ray.controllers.shards import Shards
from kai_ray.encode.shard_usage import history_name
from kai_ray.history.journal import HistorySettings
from kai_ray.manager.config import ManagerConfig
from kai_ray.metrics.tally import Tally
from kai_ray.podgrouper.controller import Podgrouper
from kai_ray.sight.notify import Delivery, Notifier, Outbox
from kai_ray.sight.recorder import Recorder
from kai_ray.sight.sight import Sight


class Composition:
    """The parts by name, and the controllers of the chosen components in order."""

    def __init__(self, config: ManagerConfig) -> None:
        self.config = config
        chosen = config.components
        self.tally = Tally(decides="scheduler" in chosen)
        """What Prometheus is told and no state shows."""
        control = dataclasses.replace(
            _control(config), on_bound=self.tally.bound, on_usage_query=self.tally.usage_asked
        )
        # Where it does not run, its index still tells which gang a pod belongs to.
        self.podgrouper = Podgrouper(config.podgrouper, writes="podgrouper" in chosen)
        self.control = compose(control, self.podgrouper.member_of)
        self.sight = Sight()
        """What can be seen of it, for who shows it to others."""
        self.tally.watch(self.sight)
        self.recorder = _recorder(config, self.sight)
        """Who writes the history; None where no file was named."""
        self.shards = Shards(
            control,
            self.control,
            self.podgrouper.member_of,
            config.state,
            only=config.only_shard,
            watcher=self.sight,
        )
        self.delivery = Delivery(config.notify, outbox=_outbox(config))
        if "scheduler" in chosen:
            self.delivery.resume()
        self.notifier = Notifier(self.sight, self.delivery, config.only_shard)

    def controllers(self) -> list[Controller]:
        chosen, control = self.config.components, self.control
        if "scheduler" in chosen:
            ours = control.controllers()
            if "binder" not in chosen:
                ours.remove(control.reservations)
            watching = [self.sight, self.notifier, self.tally]
            watching += [self.recorder] if self.recorder is not None else []
            return [self.podgrouper, *ours, self.shards, *watching]
        if "binder" in chosen:
            binding = (control.events, control.reservations, control.binder, control.requests)
            return [self.podgrouper, *binding, self.tally]
        return [self.podgrouper, self.tally]

    def close(self) -> None:
        """Writes what is kept in files and lets them go."""
        self.shards.close()
        if self.recorder is not None:
            self.recorder.close()
        self.delivery.stop()


def _outbox(config: ManagerConfig) -> Outbox | None:
    shard = f"-{config.only_shard}" if config.only_shard else ""
    return Outbox(config.state / f"notifications{shard}.json") if config.state else None


def _recorder(config: ManagerConfig, sight: Sight) -> Recorder | None:
    path = config.history
    if path is None and config.state is not None:
        path = config.state / history_name(config.only_shard or "")
    return Recorder(sight, HistorySettings(path)) if path is not None else None


def _control(config: ManagerConfig) -> ControlConfig:
    """What the components leave of the settings."""
    control, chosen = config.control, config.components
    if config.only_shard is not None:
        encode = dataclasses.replace(control.encode, node_pool=config.only_shard)
        control = dataclasses.replace(control, encode=encode)
    if "scheduler" in chosen and "binder" not in chosen:
        return dataclasses.replace(control, bind_requests="always", bind_role="decide")
    if "binder" in chosen and "scheduler" not in chosen:
        every = config.only_shard is None
        return dataclasses.replace(control, bind_role="carry out", bind_every_pool=every)
    return control
