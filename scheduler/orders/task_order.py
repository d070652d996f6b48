"""Which pod of a gang's leaf goes first.

Source: KAI 0.17: the kubeflow, ray and taskorder plugins, then creation, then UID.
"""

from __future__ import annotations

import numpy as np

from ..snapshot import Codes, Tasks

_NONE = np.iinfo(np.int64).min


def task_order(tasks: Tasks, rows: Codes) -> Codes:
    """`rows` sorted by leaf and, inside a leaf, by who goes first.

    Masters, launchers and Ray heads; then pods with a task priority, the higher first; then the
    older; then the name.
    """
    priority = tasks.task_priority[rows]
    keys = (
        tasks.rank[rows],
        tasks.created_s[rows],
        np.where(priority == _NONE, 0, ~priority),  # ~p falls as p rises and cannot overflow
        priority == _NONE,
        tasks.role[rows],
        tasks.leaf[rows],
    )
    return rows[np.lexsort(keys)]
