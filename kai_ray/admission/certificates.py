"""The webhook's certificates: a bundle of CAs to trust, and one certificate that is served.

Rotation makes the next generation, has both CAs trusted for a while, and then serves the new
certificate: no request meets a certificate that its API server does not know yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from kai_ray.cluster import authority
from kai_ray.cluster.authority import Generation, begins, ends, names

VALID = timedelta(days=365)

__all__ = ["VALID", "Generation", "begins", "ends", "generate", "moment", "names", "unexpired"]


def generate(hosts: Sequence[str], now: datetime, valid: timedelta = VALID) -> Generation:
    """A new generation for these DNS names and addresses."""
    return authority.generate(hosts, now, valid, "kai-ray-webhook-ca")


def split(bundle: str) -> list[str]:
    """The certificates of a bundle, one by one."""
    end = "-----END CERTIFICATE-----"
    return [part.strip() + f"\n{end}\n" for part in bundle.split(end) if "BEGIN" in part]


def unexpired(bundle: str, now: datetime) -> str:
    """The bundle without what has ended or is no certificate."""
    kept: list[str] = []
    for one in split(bundle):
        try:
            if ends(one) > now:
                kept.append(one)
        except ValueError:
            continue
    return "".join(kept)


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
