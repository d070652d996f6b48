"""Runs a recorded scheduler case and judges the outcome.

A *session* is one `decide` on a fresh snapshot. A unit case is one session, judged as it ends. An
integration case runs rounds: a session, then the world moves on; it is judged after the rounds in
which the expectation must be reached, and in every later round before the world moves on, because
the expectation must be a fixed point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kai_ray.scheduler.plan import Plan
from tests.conformance import scenario, zones
from tests.conformance.scenario import TaskNow, World
from tests.conformance.verdict import Case

State = dict[str, TaskNow]
Decide = Callable[[World], Plan]

#: Words for a task that takes room on its node and gives none back.
_HOLDING = ("Allocated", "Binding", "Bound", "Running", "StuckInReleasing")
#: A reversed order of node names moves this case's pods in KAI itself: any node will do.
_ANY_NODE = "depends_on_node_name_order"


@dataclass(frozen=True, slots=True)
class Session:
    """What one session made of the state, and how often it called the world."""

    state: State
    calls: dict[str, int]


def run(case: Case, decide: Decide) -> list[str]:
    """The differences from the recorded expectation; none = passed."""
    state, plan = scenario.start(case), case["run"]
    if case["kind"] == "unit":
        session = hold_session(case, state, decide)
        return [*_problems(case, session.state), *_call_problems(case, session, 1)]
    bad: list[str] = []
    for number in range(1, plan["rounds_until_match"] + 1):
        session = hold_session(case, state, decide)
        bad += _call_problems(case, session, number)
        state = move_on(case, session.state)
    bad += _problems(case, state)
    for number in range(1, plan["rounds_after_match"] + 1):
        session = hold_session(case, state, decide)
        number += plan["rounds_until_match"]
        bad += [f"round {number}: {problem}" for problem in _problems(case, session.state)]
        bad += _call_problems(case, session, number)
        state = move_on(case, session.state)
    return bad


def hold_session(case: Case, state: Mapping[str, TaskNow], decide: Decide) -> Session:
    """One session on the given state."""
    world = scenario.build(case, state)
    plan = decide(world)
    after = dict(state)
    for task in plan.evict_task.tolist():
        name = world.tasks[task]
        after[name] = replace(after[name], status="Releasing")
    slots: dict[int, list[int]] = {}
    for task, slot in zip(plan.grant_task.tolist(), plan.grant_slot.tolist(), strict=True):
        slots.setdefault(task, []).append(slot)
    cells = zones.predicted(plan, world.snapshot.resources)
    rows = [("Binding", *row) for row in zip(plan.bind_task, plan.bind_node, strict=True)]
    rows += [
        ("Pipelined", *row) for row in zip(plan.nominate_task, plan.nominate_node, strict=True)
    ]
    for status, task, at in rows:
        node = world.nodes[at]
        devices = tuple(world.slots.label(node, slot) for slot in slots.get(int(task), ()))
        held = cells.get(int(task), ())
        after[world.tasks[task]] = TaskNow(status, node, devices, held)
    calls = {
        "binds": len(plan.bind_task),
        "evictions": len(plan.evict_task),
        "pipelines": len(plan.nominate_task),
    }
    return Session(after, calls)


def move_on(case: Case, state: State) -> State:
    """Binds and evictions finish, nominations are forgotten, evicted pods are made again."""
    after: State = {}
    for job in case["cluster"]["jobs"]:
        for task in job["tasks"]:
            now = state[task["name"]]
            gone = now.status == "Releasing" and not job["stays_deleted"]
            if now.status == "Binding":
                now = replace(now, status="Running")
            elif now.status == "Pipelined" or gone:
                now = TaskNow("Pending", None)
            after[task["name"]] = now
    return after


def _problems(case: Case, state: State) -> list[str]:
    """Where the state differs from what is expected of tasks and nodes."""
    held = {name: (now.status, now.node, now.zones) for name, now in state.items()}
    return [
        *_task_problems(case, state),
        *_node_problems(case, state),
        *zones.problems(case, held),
    ]


def _task_problems(case: Case, state: State) -> Iterator[str]:
    expect = case["expect"]
    any_node = _ANY_NODE in case.get("caveats", ())
    for job in case["cluster"]["jobs"]:
        for task in job["tasks"]:
            now = state[task["name"]]
            for want in (expect["jobs"].get(job["name"]), expect["tasks"].get(task["name"])):
                if want is None:
                    continue
                if now.status != want["status"]:
                    yield f"{task['name']}: {now.status}, wanted {want['status']}"
                elif want["node"] and now.node != want["node"] and not any_node:
                    yield f"{task['name']}: on {now.node}, wanted {want['node']}"


def _node_problems(case: Case, state: State) -> Iterator[str]:
    for node in case["cluster"]["nodes"]:
        want = case["expect"]["nodes"].get(node["name"])
        if want is None:
            continue
        idle, releasing = _gpus(case, node, state)
        for word, got in (("idle_gpus", idle), ("releasing_gpus", releasing)):
            if want.get(word) is not None and got != want[word]:
                yield f"{node['name']}: {word} {got}, wanted {want[word]}"


def _gpus(case: Case, node: dict[str, Any], state: State) -> tuple[float, float]:
    """Idle and releasing whole GPUs of a node. A pod that waits there took releasing ones.

    A shared device is not idle; it is releasing once all that hold it leave.
    """
    idle, releasing = float(node["allocatable"]["gpus"]), 0.0
    held = [now for now in state.values() if now.node == node["name"]]
    for device in {device for now in held for device in now.devices}:
        states = {now.status for now in held if device in now.devices}
        taken = bool(states & {*_HOLDING, "Releasing"})
        kept = bool(states & {*_HOLDING, "Pipelined"})
        idle, releasing = idle - taken, releasing + taken - kept
    for job in case["cluster"]["jobs"]:
        for task in job["tasks"]:
            now, gpus = state[task["name"]], float(task["request"]["gpus"] or 0)
            if now.node != node["name"]:
                continue
            if now.status in _HOLDING:
                idle -= gpus
            elif now.status == "Releasing":
                idle, releasing = idle - gpus, releasing + gpus
            elif now.status == "Pipelined":
                releasing -= gpus
    return idle, releasing


def _call_problems(case: Case, session: Session, number: int) -> list[str]:
    """Calls beyond the recorded upper bounds of a round."""
    bounds = case["expect"]["max_calls_per_round"] or {}
    return [
        f"round {number}: {session.calls[word]} {word}, at most {bound} allowed"
        for word, bound in bounds.items()
        if bound is not None and session.calls.get(word, 0) > bound
    ]
