"""What users read about giving way: on the victim, on the beneficiary, and in `kai explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kai_ray.api import labels as names
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.informer import Informer
from kai_ray.cluster.port import Object, key_of
from kai_ray.cluster.wrappers import Known
from kai_ray.controllers.conditions import find
from kai_ray.controllers.events import Events
from kai_ray.controllers.owners import called
from kai_ray.encode.eviction_facts import read_hold

if TYPE_CHECKING:
    from kai_ray.controllers.notice_record import Notice
    from kai_ray.controllers.victims import Victim

#: The condition of a PodGroup that had to go; it goes when the gang starts again.
EVICTED = "Evicted"
#: The condition of one that has to go at a set time, while it may still save its work.
NOTICED = "EvictionNotice"


def tell_evicted(
    events: Events,
    groups: Informer,
    workloads: Known,
    victim: Victim | Notice,
    count: int,
    group: Object,
) -> None:
    """Events on both sides: the gang and the user's own object."""
    pods = f"{count} pod" + ("s" if count > 1 else "")
    key, rule = victim.beneficiary, victim.reason.word
    events.tell(group, rule, f"{victim.message} ({pods})", warning=True)
    events.departed(key_of(group), rule, victim.message, key, count, victim.whole)
    other = groups.get(key.name, key.namespace) if key is not None else None
    if other is not None:
        leave = "leaves" if count == 1 else "leave"
        whose = called(group, workloads)
        text = f"{pods} of {whose} {leave} for it ({rule}); their room is kept for it"
        events.tell(other, "VictimsEvicted", text)


def evicted_sentence(group: Object) -> str:
    """Why a gang that waits is not running any more; "" if it was never sent away."""
    said = find(group, EVICTED)
    if said.get("status") != "True":
        return ""
    return f"{said.get('message')}, at {said.get('lastTransitionTime')}"


def hold_sentence(group: Object, now_s: float) -> str:
    """Whose pods a gang waits for and until when their room is kept; "" without a hold."""
    hold = read_hold((group["metadata"].get("annotations") or {}).get(names.HOLD))
    if hold is None or hold.until_s <= now_s:
        return ""
    whom = ", ".join(hold.victims) or "others"
    until = rfc3339(hold.until_s)
    return f"waits for pods of {whom} to leave; their room is kept for it until {until}"


def notice_message(notice: Notice, count: int) -> str:
    """Why, what goes, until when, and what the workload can do about it."""
    when = rfc3339(notice.deadline_s)
    if notice.announced:
        return f"{notice.message}, at {when}"
    what = "all of it goes" if notice.whole else f"{count} pod{'s' if count > 1 else ''} of it go"
    how = f"or as soon as annotation {names.CHECKPOINT_TIME} says that its work is saved"
    return f"{notice.message}; {what} at {when}{', ' + how if notice.asked else ''}"


def notice_sentence(group: Object) -> str:
    """What a gang was told that runs but has to leave; "" if nothing."""
    said = find(group, NOTICED)
    return str(said.get("message")) if said.get("status") == "True" else ""
