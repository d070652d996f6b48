"""Which layout rates a class: the policy's, or the one that the queue of its pods asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..snapshot import Floats, Layout

if TYPE_CHECKING:
    from ..fit import Fit
    from ..rules import At

    Rate = Callable[[Fit, At], Floats | None]


def laid_out(rate: Rate, layout: Layout, by_policy: bool) -> Rate:
    """`rate` for classes whose queue asks for `layout`, and, if `by_policy`, for the silent."""

    def rated(fit: Fit, at: At) -> Floats | None:
        wanted = fit.rules.layout
        concerned = wanted is layout or (by_policy and wanted is Layout.POLICY)
        return rate(fit, at) if concerned else None

    return rated
