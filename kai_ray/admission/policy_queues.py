"""Annotations of queues that could not be used, as CEL: the rules of `kai_ray.encode.queue_policy`.

Only what can be seen in the annotation itself: whether a parent exists is the webhook's to say.
"""

from __future__ import annotations

from kai_ray.admission.policy_pods import check, said, text
from kai_ray.api import labels as names
from kai_ray.api import notify
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Object
from kai_ray.encode.traits import SYNONYMS, TYPES

QUEUES = "kai-ray-queue-annotations"

_CLASS = "[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
_LABEL = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DURATION = "^[+]?(0|([0-9]+([.][0-9]*)?(ns|us|µs|ms|s|m|h))+)$"
_MOMENT = (
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?"
    "([Zz]|[-+][0-9]{2}:[0-9]{2})$"
)

_NAMES = "write names, separated by commas, 64 at most"

_TYPE = "(" + "|".join((*TYPES, *SYNONYMS)) + ")"
_SPAN = "([0-9]+([.][0-9]*)?(ms|s|m|h))+"
_PERCENT = "(100|[0-9]{1,2}([.][0-9]{1,3})?)"
_IDLE = (
    f" *({_TYPE}( *[+] *{_TYPE})* *: *)?below +{_PERCENT} *% +for +{_SPAN}"
    f"( *, *(warn|(suspend|evict) +after +{_SPAN}))?( *, *(enforce|dry-run))? *"
)
_DAY = "(Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9]"
_HOURS = (
    f" *({_DAY}(-{_DAY})?(,{_DAY}(-{_DAY})?)* +)?{_CLOCK}-{_CLOCK}"
    "( +[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*)? *"
)

#: Annotations that hold one thing.
_ONE = {
    names.PLACEMENT_STRATEGY: ("^(binpack|spread)$", " is neither binpack nor spread"),
    names.DEFAULT_PRIORITY_CLASS: (f"^ *{_CLASS} *$", " is not a priority class: write one name"),
    names.MAX_RUN_TIME: (_DURATION, " is not a duration of 0s or more, such as 12h"),
    names.RESERVED_GPUS: (
        "^[0-9]{1,7}(x0{0,6}[1-9][0-9]{0,6})?$",
        " is neither a whole number of GPUs from 0 to 1000000 nor places such as 4x2",
    ),
    names.EVICTION_GRACE: (_DURATION, " is not a duration of 0s or more, such as 12h"),
    names.MAX_EVICTION_GRACE: (_DURATION, " is not a duration of 0s or more, such as 12h"),
    names.NOTIFY_AFTER: (_DURATION, " is not a duration of 0s or more, such as 30m"),
    names.IDLE_JOBS: (
        f"^( *off *|{_IDLE}(;{_IDLE})*)$",
        " is no rule for idle jobs: write for example below 5% for 30m, suspend after 10m",
    ),
    names.PROTECTED_HOURS: (
        f"^( *off *|{_HOURS}(;{_HOURS})*)$",
        " are no hours: write for example Mon-Fri 08:00-19:00 Europe/Berlin",
    ),
    names.DRAIN_DEADLINE: (
        _MOMENT,
        " is not a time: write it as 2026-01-31T12:00:00Z (RFC 3339)",
    ),
}
#: Annotations that hold a list.
_MANY = {
    names.ALLOWED_PRIORITY_CLASSES: (_CLASS, f" is not a list of priority classes: {_NAMES}"),
    names.NODE_POOLS: (_LABEL, f" is not a list of label values: {_NAMES}"),
    names.GPU_TYPES: (_LABEL, f" is not a list of label values: {_NAMES}"),
    names.NOTIFY: (
        f"({notify.CHANNEL.pattern}|{notify.URL.pattern})",
        " is not a list of channels and addresses (https://...), separated by commas, 64 at most",
    ),
    names.NOTIFY_ON: (
        f"({'|'.join(notify.KINDS)})",
        f" is not a list of some of {', '.join(notify.KINDS)}",
    ),
}


#: Of those, what a pattern cannot tell; {} is the value.
_BESIDES = {
    names.RESERVED_GPUS: "(size({0}.split('x')) == 1 ? int({0}) "
    ": int({0}.split('x')[0]) * int({0}.split('x')[1])) <= 1000000",
}


def specs() -> dict[str, Object]:
    keys = text([*_ONE, *_MANY])
    kind = kinds.QUEUE
    return {
        QUEUES: {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [kind.group],
                        "apiVersions": [kind.version],
                        "resources": [kind.plural],
                        "operations": ["CREATE", "UPDATE"],
                    }
                ]
            },
            "matchConditions": [
                {
                    "name": "stated",
                    "expression": "object.metadata.?annotations.orValue({})"
                    f".exists(k, k in {keys})",
                }
            ],
            "variables": [
                {"name": "notes", "expression": "object.metadata.?annotations.orValue({})"}
            ],
            "validations": [*_ones(), *_lists()],
        }
    }


def _ones() -> list[Object]:
    found: list[Object] = []
    for key, (pattern, words) in _ONE.items():
        value = f"variables.notes[{text(key)}]"
        besides = f" && {_BESIDES[key].format(value)}" if key in _BESIDES else ""
        good = f"({value}.matches({text(pattern)}){besides})"
        rule = f"!({text(key)} in variables.notes) || {good}"
        found.append(check(rule, expression=said(key, words)))
    return found


def _lists() -> list[Object]:
    """Split first: RE2 repeats a pattern of this length too few times."""
    return [
        check(
            f"!({text(key)} in variables.notes) || (variables.notes[{text(key)}].split(',').all("
            f"p, p.trim().matches({text(f'^{one}$')})) "
            f"&& size(variables.notes[{text(key)}].split(',')) <= 64)",
            expression=said(key, words),
        )
        for key, (one, words) in _MANY.items()
    ]
