"""The words of a message, in the form that Slack's incoming webhooks take, and those like them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

#: Messages that go out as one.
MOST_AT_ONCE = 10
_LONGEST = 1000

_HEADS = {
    "started": ("▶", "started"),
    "waiting": ("⏳", "still waits"),
    "evicted": ("⏏", "had to leave"),
    "idle": ("💤", "leaves its GPUs idle"),
    "failed": ("❌", "failed"),
    "ended": ("✅", "has ended"),
}


@dataclass(frozen=True, slots=True)
class Message:
    """One thing that happened to one job. `kind`: one of `kai_ray.api.notify.KINDS`."""

    kind: str
    namespace: str
    name: str
    workload: str  # its kind: RayJob
    queue: str
    gpus: float
    text: str
    user: str = ""


def body(messages: Sequence[Message], console: str = "") -> bytes:
    """JSON with `text` (for notifications and plain readers) and `blocks`."""
    blocks = [
        {"type": "section", "text": {"type": "mrkdwn", "text": _block(m, console)}}
        for m in messages
    ]
    text = "\n".join(escaped(line(m)) for m in messages)
    return json.dumps({"text": text, "blocks": blocks}, ensure_ascii=False).encode()


def line(message: Message) -> str:
    """The message as one line of plain text."""
    sign, verb = _HEADS[message.kind]
    text = " ".join(message.text.split())[:_LONGEST]
    said = f": {text}" if text else ""
    return f"{sign} {message.workload} {message.namespace}/{message.name} {verb}{said}"


def escaped(text: str) -> str:
    """So that no name or reason can call a channel or pose as a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _block(message: Message, console: str) -> str:
    sign, verb = _HEADS[message.kind]
    name = escaped(f"{message.namespace}/{message.name}")
    if console:
        place = (message.namespace, message.workload, message.name)
        name = f"<{console}/jobs/{'/'.join(quote(p, safe='') for p in place)}|{name}>"
    about = [f"queue {message.queue}"] if message.queue else []
    about += [f"{message.gpus:g} GPU{'' if message.gpus == 1 else 's'}"] if message.gpus else []
    about += [f"by {message.user}"] if message.user else []
    rows = [f"{sign} *{escaped(message.workload)} {name}* {verb}"]
    text = " ".join(message.text.split())[:_LONGEST]
    rows += [escaped(text)] if text else []
    rows += [f"_{escaped(' · '.join(about))}_"] if about else []
    return "\n".join(rows)
