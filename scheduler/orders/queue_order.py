"""Which of two sibling queues goes first. Eight rules, the first decisive one wins.

Source: KAI 0.17, queue order of the proportion plugin (rules 1 to 8 in its order). Rules 1 to 6
compare one value per queue, so they form a sortable tuple, `standing`, that changes only with the
queue's books and its next gang. Rule 7 is a partial order and rule 8 breaks what is still equal.
"""

from __future__ import annotations

from ..shares.row import NOTHING, Amounts, QueueRow
from ..snapshot import UNLIMITED

#: over-utilised, not starved, -priority, zero-share penalty, dominant share with job and without.
Standing = tuple[bool, bool, int, bool, float, float]

#: A share of zero makes a queue's dominant share its amount times this.
NO_SHARE_FACTOR = 1000.0


def over_utilised(row: QueueRow) -> bool:
    """Rule 1: a queue above its fair share in all three resources goes last."""
    a, f = row.allocated, row.fair_share
    return f[0] < a[0] and f[1] < a[1] and f[2] < a[2]


def starved(row: QueueRow, need: Amounts) -> bool:
    """Rule 2: a queue that stays within its quota with the next gang goes first."""
    a, q = row.allocated, row.quota
    return (
        (q[0] == UNLIMITED or a[0] + need[0] <= q[0])
        and (q[1] == UNLIMITED or a[1] + need[1] <= q[1])
        and (q[2] == UNLIMITED or a[2] + need[2] <= q[2])
    )


def without_share(row: QueueRow, need: Amounts) -> bool:
    """Rule 4: a queue that would hold a resource of which its share is zero goes last."""
    a, s = row.allocated, row.allocatable
    return (
        (s[0] == 0 and a[0] + need[0] > 0)
        or (s[1] == 0 and a[1] + need[1] > 0)
        or (s[2] == 0 and a[2] + need[2] > 0)
    )


def dominant_share(row: QueueRow, extra: Amounts, total: Amounts) -> float:
    """Rules 5 and 6: the largest part of its allocatable share that a queue holds with `extra`."""
    a, s = row.allocated, row.allocatable
    worst = 0.0
    for r in (0, 1, 2):
        amount, share = a[r] + extra[r], s[r]
        if share == UNLIMITED:
            share = total[r]
        part = amount / share if share != 0 else amount * NO_SHARE_FACTOR
        if part > worst:
            worst = part
    return worst


def smaller_share(left: QueueRow, right: QueueRow) -> int:
    """Rule 7: the smaller allocatable share first; 0 where neither is smaller throughout."""
    if left.allocatable == right.allocatable:
        return 0
    if _within(left.allocatable, right.allocatable):
        return -1
    return 1 if _within(right.allocatable, left.allocatable) else 0


def standing(row: QueueRow, need: Amounts, total: Amounts, victims: Amounts = NOTHING) -> Standing:
    """The queue's value for rules 1 to 6; smaller goes first.

    `need` is what the next gang of the queue would take, zero where victims are ordered. `victims`
    is what has been taken from the queue already and counts as given back. `total` [3] stands for
    an unlimited share.
    """
    with_job = (need[0] - victims[0], need[1] - victims[1], need[2] - victims[2])
    return (
        over_utilised(row),
        not starved(row, need),
        -row.priority,  # rule 3
        without_share(row, need),
        dominant_share(row, with_job, total),
        dominant_share(row, NOTHING, total),
    )


def compare_standing(
    left: QueueRow, left_standing: Standing, right: QueueRow, right_standing: Standing
) -> int:
    """-1 if `left` goes first, 1 if `right` does: rules 1 to 6, then 7, then 8 and the name."""
    if left_standing != right_standing:
        return -1 if left_standing < right_standing else 1
    decided = smaller_share(left, right)
    if decided:
        return decided
    return -1 if (left.created_s, left.rank) < (right.created_s, right.rank) else 1  # rule 8


def compare(
    left: QueueRow,
    right: QueueRow,
    left_need: Amounts,
    right_need: Amounts,
    total: Amounts,
    left_victims: Amounts = NOTHING,
    right_victims: Amounts = NOTHING,
) -> int:
    """-1 if `left` goes first, 1 if `right` does. See `standing` for the arguments."""
    return compare_standing(
        left,
        standing(left, left_need, total, left_victims),
        right,
        standing(right, right_need, total, right_victims),
    )


def _within(a: Amounts, b: Amounts) -> bool:
    """Every amount of `a` at most that of `b`, -1 counting as infinite."""
    for x, y in zip(a, b, strict=True):
        if y != UNLIMITED and (x == UNLIMITED or x > y):
            return False
    return True
