"""How many pods of each PodDisruptionBudget may still go.

A set of victims stays within every budget, but where a queue claims its own quota: there the budget
gives way, and only if no set within the budgets serves.
"""

from __future__ import annotations

from .books import VictimBooks
from .steps import Step


class Budgets:
    """The budgets of one search; steps are admitted in the order in which they would go."""

    def __init__(self, books: VictimBooks, respected: bool = True) -> None:
        tasks = books.session.snapshot.tasks
        self.used: bool = respected and tasks.budget is not None
        self._books = books
        self._left = [
            n - books.disrupted[i] for i, n in enumerate(books.session.snapshot.disruptions)
        ]

    def admits(self, step: Step) -> bool:
        """Whether the step's pods may go after those admitted so far; if so, they count."""
        if not self.used:
            return True
        wanted = self._books.budgets_of(step.positions)
        if any(pods > self._left[budget] for budget, pods in wanted.items()):
            return False
        for budget, pods in wanted.items():
            self._left[budget] -= pods
        return True
