"""Puts the controllers together."""

from __future__ import annotations

from dataclasses import dataclass

from kai_ray.cluster.port import Key
from kai_ray.cluster.runtime import Controller
from kai_ray.controllers.announcements import Announcements
from kai_ray.controllers.attempts import Attempts
from kai_ray.controllers.bad_devices import BadDevices
from kai_ray.controllers.bind_failures import BindFailures
from kai_ray.controllers.bind_requests import BindRequests
from kai_ray.controllers.binder import Binder
from kai_ray.controllers.card_claims import CardClaims
from kai_ray.controllers.card_devices import CardDevices
from kai_ray.controllers.claim_returns import ClaimReturns
from kai_ray.controllers.config import ControlConfig
from kai_ray.controllers.departures import Departures
from kai_ray.controllers.drains import Drains
from kai_ray.controllers.elastic.actor import Elasticity
from kai_ray.controllers.events import Events
from kai_ray.controllers.evictor import Evictor
from kai_ray.controllers.gates import Gates
from kai_ray.controllers.holds import Holds
from kai_ray.controllers.idle.jobs import IdleJobs
from kai_ray.controllers.notices import Notices
from kai_ray.controllers.quarantine import Quarantine
from kai_ray.controllers.queue_deadlines import QueueDeadlines
from kai_ray.controllers.reservations import Reservations
from kai_ray.controllers.scheduling import SchedulingLoop
from kai_ray.controllers.stale import StaleGangs
from kai_ray.controllers.status import StatusWriter
from kai_ray.controllers.suspensions import Suspensions
from kai_ray.controllers.told_zones import ToldZones
from kai_ray.controllers.usage import UsageController
from kai_ray.encode import Encoder, MemberOf
from kai_ray.scheduler import DEFAULT, Policy


@dataclass(frozen=True, slots=True)
class Control:
    """The parts by name, for who wants to look into them."""

    encoder: Encoder
    loop: SchedulingLoop
    binder: Binder
    requests: BindRequests
    reservations: Reservations
    card_devices: CardDevices
    status: StatusWriter
    stale: StaleGangs
    evictor: Evictor
    attempts: Attempts
    suspensions: Suspensions
    notices: Notices
    holds: Holds
    quarantine: Quarantine
    bad_devices: BadDevices
    gates: Gates
    deadlines: QueueDeadlines
    announcements: Announcements
    idle: IdleJobs
    told_zones: ToldZones
    events: Events
    claim_returns: ClaimReturns
    elasticity: Elasticity
    usage: UsageController | None = None  # where usage over time counts

    def controllers(self) -> list[Controller]:
        return [
            self.events,
            self.reservations,
            self.card_devices,
            self.binder,
            self.requests,
            self.status,
            self.stale,
            self.attempts,
            self.suspensions,
            self.notices,
            self.holds,
            self.quarantine,
            self.bad_devices,
            self.gates,
            self.deadlines,
            self.announcements,
            self.idle,
            self.told_zones,
            self.claim_returns,
            self.elasticity,
            *([self.usage] if self.usage else []),
            self.loop,
        ]

    def close(self) -> None:
        """Writes what is kept in files and lets them go."""
        if self.usage is not None:
            self.usage.close()


def compose(
    config: ControlConfig | None = None,
    member_of: MemberOf | None = None,
    policy: Policy = DEFAULT,
) -> Control:
    config = config or ControlConfig()
    encoder = Encoder(config.encode, member_of)
    events = Events()
    failures = BindFailures(encoder)
    cards = CardClaims(config, encoder.claimed_cards)
    binder = Binder(config, encoder, failures, events, cards)
    requests = BindRequests(config, encoder, binder, failures, events, cards, member_of)
    stale = StaleGangs(encoder)
    attempts = Attempts(encoder, events)
    suspensions = Suspensions(encoder, attempts)
    departures = Departures(suspensions, attempts)
    drains = Drains(events, config.drainer)
    notices = Notices(config.encode, encoder, departures, events, drains)
    evictor = Evictor(config, departures, drains, events)
    holds = Holds(encoder, events)
    quarantine = Quarantine(config, events)
    deadlines = QueueDeadlines(events)
    idle = IdleJobs(config.encode, suspensions, events)
    announcements = Announcements(config, notices, idle.ends)
    usage = None
    if config.usage is not None:
        usage = UsageController(config.usage, encoder, asked=config.on_usage_query)

    def held_back(group: Key) -> str | None:
        if encoder.gave_up(group):
            return "it did not fit, and schedulingBackoff 1 asks for one try in a node pool"
        return stale.why_held(group) or failures.of_group(group)

    status = StatusWriter(config, events, held_back)
    if config.bind_role != "carry out":  # there, neither runs
        failures.on_change = status.touch
        failures.on_fail = quarantine.bind_failed
    observers = [status.observe, stale.observe, holds.observe, deadlines.observe]
    observers += [idle.observe, announcements.observe]
    if usage is not None:
        observers.append(usage.observe)
    elasticity = Elasticity(config, encoder, departures, binder, events)
    loop = SchedulingLoop(
        config, encoder, binder, evictor, suspensions, elasticity, observers, policy
    )
    return Control(
        encoder,
        loop,
        binder,
        requests,
        Reservations(config, cards, events),
        CardDevices(config, encoder, cards, events),
        status,
        stale,
        evictor,
        attempts,
        suspensions,
        notices,
        holds,
        quarantine,
        BadDevices(config, events),
        Gates(config.encode, member_of),
        deadlines,
        announcements,
        idle,
        ToldZones(config.encode),
        events,
        ClaimReturns(encoder),
        elasticity,
        usage,
    )


def build(
    config: ControlConfig | None = None,
    member_of: MemberOf | None = None,
    policy: Policy = DEFAULT,
) -> list[Controller]:
    """All controllers of this package, to be added to one runtime in this order.

    `member_of` tells the gang of a pod that carries no annotation (the podgrouper's membership).
    """
    return compose(config, member_of, policy).controllers()
