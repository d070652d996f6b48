"""Random small clusters for properties."""

from __future__ import annotations

from hypothesis import strategies as st

from kai_ray.scheduler.snapshot import Op
from tests.core.world import GIB, Away, Job, Node, Pod, Queue, Skew, TaskState, World, running

_LABELS = ("", "x", "y")
_keys = st.sampled_from(["host", "zone"])
_away = st.builds(Away, st.sampled_from(_LABELS[1:]), _keys)
_few = st.lists(_away, max_size=1).map(tuple)
_needs = st.sampled_from(
    [(), (((("zone", Op.IN, ("a",)),),),), (((("zone", Op.NOT_IN, ("a",)),), (("n", Op.GT, 1),)),)]
)
_spread = st.sampled_from([(), (), (Skew("x"),), (Skew("y", hard=False),)])

nodes = st.lists(
    st.builds(
        lambda gpus, cpu, pods, zone, taints, ready: (gpus, cpu, pods, zone, taints, ready),
        st.integers(0, 8),
        st.integers(1, 16),
        st.integers(1, 12),
        st.sampled_from(["a", "b", ""]),
        st.sampled_from([(), (), ("t",)]),
        st.sampled_from([True, True, True, False]),
    ),
    min_size=1,
    max_size=6,
).map(
    lambda rows: [
        Node(
            f"n{i}",
            gpus=gpus,
            cpu=cpu * 1000,
            memory=64 * GIB,
            pods=pods,
            labels={"zone": zone, "n": str(i)} if zone else {},
            taints=taints,
            ready=ready,
        )
        for i, (gpus, cpu, pods, zone, taints, ready) in enumerate(rows)
    ]
)

plain_pods = st.builds(Pod, gpus=st.integers(0, 4), cpu=st.integers(0, 8).map(lambda c: c * 500))
pods = st.builds(
    Pod,
    gpus=st.integers(0, 4),
    cpu=st.integers(0, 8).map(lambda c: c * 500),
    label=st.sampled_from(_LABELS),
    needs=_needs,
    tolerates=st.sampled_from([(), ("t",)]),
    ports=st.sampled_from([(), (), (1,)]),
    near=st.one_of(st.just(()), _few),
    apart=st.one_of(st.just(()), _few),
    likes=st.lists(st.tuples(st.integers(-5, 5), _away), max_size=1).map(tuple),
    spread=_spread,
)


@st.composite
def jobs(draw: st.DrawFn, shapes: st.SearchStrategy[Pod] = pods, count: int = 6) -> list[Job]:
    """Gangs of one or two shapes; some pods are pending, none of them gated."""
    found: list[Job] = []
    for i in range(draw(st.integers(1, count))):
        kinds = draw(st.lists(shapes, min_size=1, max_size=2))
        members = [draw(st.sampled_from(kinds)) for _ in range(draw(st.integers(1, 6)))]
        found.append(
            Job(
                f"j{i}",
                members,
                minimum=draw(st.integers(0, len(members))),
                queue=draw(st.sampled_from(["qa", "qb", "qc"])),
                priority=draw(st.sampled_from([50, 60])),
                preemptible=draw(st.booleans()),
                created=float(draw(st.integers(0, 3))),
            )
        )
    return found


queues = st.builds(
    lambda a, b, limit: [
        Queue("top", gpu_limit=limit),
        Queue("qa", "top", gpu_quota=a),
        Queue("qb", "top", gpu_quota=b, gpu_limit=8),
        Queue("qc"),
    ],
    st.sampled_from([-1.0, 0.0, 4.0]),
    st.sampled_from([0.0, 2.0]),
    st.sampled_from([-1.0, 6.0]),
)


@st.composite
def worlds(draw: st.DrawFn, shapes: st.SearchStrategy[Pod] = pods) -> World:
    """A cluster, some of it in use, with gangs that wait."""
    cluster = draw(nodes)
    busy: list[Job] = []
    for i, node in enumerate(cluster):
        states = draw(
            st.lists(st.sampled_from([TaskState.RUNNING, TaskState.RELEASING]), max_size=2)
        )
        label = draw(st.sampled_from(_LABELS))
        used = [running(node.name, gpus=1, cpu=500, label=label) for _ in states]
        used = [_in_state(pod, state) for pod, state in zip(used, states, strict=True)]
        if used:
            busy.append(Job(f"busy{i}", used, minimum=0, queue="qc"))
    return World(cluster, [*busy, *draw(jobs(shapes))], draw(queues))


def _in_state(pod: Pod, state: TaskState) -> Pod:
    return Pod(gpus=pod.gpus, cpu=pod.cpu, label=pod.label, state=state, node=pod.node)
