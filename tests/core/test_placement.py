"""Which nodes suit, and which of them is taken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kai_ray.scheduler import DEFAULT, Placement, Reason
from kai_ray.scheduler.policy import policy
from kai_ray.scheduler.snapshot import Op
from tests.core.world import GIB, Away, Job, Node, Pod, Skew, World, X, running


def place(
    nodes: list[Node],
    *jobs: Job,
    gpu: Placement = Placement.BINPACK,
    cpu: Placement = Placement.BINPACK,
) -> dict[str, str]:
    return World(nodes, list(jobs)).decide(policy(gpu, cpu)).bound


def where(nodes: list[Node], pod: Pod, *others: Job) -> str:
    """The node that a single pod goes to, "" if it stays."""
    return place(nodes, Job("pod", [pod]), *others).get("pod-0", "")


def refused(nodes: list[Node], pod: Pod, *others: Job) -> dict[Reason, int]:
    wait = World(nodes, [Job("pod", [pod]), *others]).decide().waits["pod"]
    return dict(wait.counts)


LABELLED = [
    Node("none"),
    Node("x1", labels={"k": "x", "n": "1"}),
    Node("y2", labels={"k": "y", "n": "2"}),
    Node("z", labels={"k": "z", "n": "three"}),
]


@pytest.mark.parametrize(
    ("need", "suits"),
    [
        (("k", Op.IN, ("x", "y")), {"x1", "y2"}),
        (("k", Op.IN, ("nowhere",)), set()),
        (("k", Op.IN, ()), set()),
        (("k", Op.NOT_IN, ("x", "y")), {"none", "z"}),
        (("k", Op.EXISTS, ()), {"x1", "y2", "z"}),
        (("k", Op.DOES_NOT_EXIST, ()), {"none"}),
        (("n", Op.GT, 1), {"y2"}),
        (("n", Op.LT, 2), {"x1"}),
        (("n", Op.GT, -9), {"x1", "y2"}),
    ],
)
def test_a_requirement_picks_its_nodes(need: tuple, suits: set[str]) -> None:
    pods = [Pod(gpus=8, needs=(((need,),),))] * 4
    assert set(place(LABELLED, Job("j", pods)).values()) == suits


def test_terms_are_alternatives_and_selectors_add_up() -> None:
    is_x, is_y = ("k", Op.IN, ("x",)), ("k", Op.IN, ("y",))
    either = Pod(gpus=8, needs=(((is_x,), (is_y,)),))
    assert set(place(LABELLED, Job("j", [either] * 4)).values()) == {"x1", "y2"}
    both = Pod(needs=(((is_x,), (is_y,)), ((is_y,),)))
    assert where(LABELLED, both) == "y2"
    assert where(LABELLED, Pod(needs=(((),),))) == "", "a term without requirements matches nothing"
    assert where(LABELLED, Pod(needs=((),))) == "", "nor does a selector without terms"
    assert refused(LABELLED, Pod(needs=((),))) == {Reason.NODE_SELECTOR_MISMATCH: 4}


def test_taints_cordons_and_readiness_keep_pods_away() -> None:
    nodes = [
        Node("cordoned", cordoned=True),
        Node("down", ready=False),
        Node("tainted", taints=("t", "u")),
    ]
    assert where(nodes, Pod(tolerates=("t",))) == ""
    assert where(nodes, Pod(tolerates=("t", "u"))) == "tainted"
    assert refused(nodes, Pod()) == {
        Reason.NODE_NOT_READY: 1,
        Reason.NODE_CORDONED: 1,
        Reason.UNTOLERATED_TAINT: 1,
    }


def test_a_host_port_is_held_once_a_node() -> None:
    pods = [Pod(ports=(3,))] * 3
    assert set(place([Node("a"), Node("b")], Job("j", pods)).values()) == {"a", "b"}
    other = Job("there", [running("a", ports=(3,))])
    assert where([Node("a")], Pod(ports=(3,)), other) == ""
    assert where([Node("a")], Pod(ports=(4,)), other) == "a"
    assert refused([Node("a")], Pod(ports=(3,)), other) == {Reason.HOST_PORT_IN_USE: 1}


ZONES = [Node(f"{zone}{i}", labels={"zone": zone}) for zone in "ab" for i in range(2)]


def test_affinity_follows_and_anti_affinity_flees() -> None:
    db = Job("db", [running("b0", label="db")])
    near = Pod(near=(Away("db", "zone"),))
    assert where(ZONES, near, db).startswith("b")
    assert where(ZONES, near) == "", "nobody to be near"
    assert where(ZONES, Pod(apart=(Away("db", "zone"),)), db).startswith("a")


def test_a_pod_that_is_there_refuses_those_it_avoids() -> None:
    hermit = Job("hermit", [running("a0", apart=(Away("noisy", "zone"),))])
    assert where(ZONES, Pod(label="noisy"), hermit).startswith("b")
    assert where(ZONES[:2], Pod(label="noisy"), hermit) == ""
    assert refused(ZONES[:2], Pod(label="noisy"), hermit) == {Reason.POD_ANTI_AFFINITY_CONFLICT: 2}


def test_the_first_of_a_set_that_wants_company_may_start() -> None:
    flock = Job("flock", [Pod(gpus=5, label="f", near=(Away("f", "zone"),))] * 3, minimum=2)
    bound = World(ZONES, [flock]).decide().bound
    assert len(bound) == 2
    assert len({node[0] for node in bound.values()}) == 1


def test_all_terms_of_an_affinity_must_be_met_by_the_same_pods() -> None:
    terms = (Away("x", "zone"), Away("y", "zone"))
    others = Job("o", [running("a0", label="x"), running("a0", label="y")])
    assert where(ZONES, Pod(near=terms), others) == ""


def test_members_that_avoid_each_other_take_one_domain_each() -> None:
    job = Job("j", [Pod(label="j", apart=(Away("j", "zone"),))] * 3)
    bound = place(ZONES, job)
    assert sorted(node[0] for node in bound.values()) == ["a", "b"]
    whole = replace(job, minimum=3)
    assert place(ZONES, whole) == {}


def test_nodes_without_the_label_refuse_affinity_and_accept_anti_affinity() -> None:
    nodes = [Node("bare")]
    me = Pod(label="m", near=(Away("m", "zone"),))
    assert where(nodes, me) == ""
    assert len(place(nodes, Job("j", [Pod(label="m", apart=(Away("m", "zone"),))] * 2))) == 2


def test_preferred_company_outweighs_packing() -> None:
    half = Job("half", [running("a0", gpus=4)])
    friend = Job("friend", [running("b1", gpus=0, label="f")])
    assert where(ZONES, Pod(), half, friend) == "a0"
    assert where(ZONES, Pod(likes=((10, Away("f", "host")),)), half, friend) == "b1"
    assert where(ZONES, Pod(likes=((-10, Away("f", "zone")),)), friend).startswith("a")
    fan = Job("fan", [running("b1", gpus=0, likes=((5, Away("star", "host")),))])
    assert where(ZONES, Pod(label="star"), half, fan) == "b1"


def test_spread_keeps_the_skew() -> None:
    pods = [Pod(label="s", spread=(Skew("s"),))] * 7
    bound = place(ZONES, Job("j", pods))
    zones = [node[0] for node in bound.values()]
    assert abs(zones.count("a") - zones.count("b")) <= 1 and len(zones) == 7
    tight = [Node("a", labels={"zone": "a"}), Node("b", gpus=1, labels={"zone": "b"})]
    assert len(place(tight, Job("j", pods))) == 3
    out = World(tight, [Job("j", pods)]).decide()
    assert dict(out.waits["j"].counts)[Reason.TOPOLOGY_SPREAD_UNSATISFIED] == 1


def test_spread_counts_only_the_nodes_it_may_use() -> None:
    nodes = [
        Node("a", labels={"zone": "a"}),
        Node("b", labels={"zone": "b"}, taints=("t",)),
        Node("bare"),
    ]
    rule = Skew("s")
    pods = [Pod(label="s", spread=(rule,))] * 3
    assert len(place(nodes, Job("j", pods))) == 1, "zone b stays empty and counts"
    fair = [Pod(label="s", spread=(replace(rule, honor_taints=True),))] * 3
    assert set(place(nodes, Job("j", fair)).values()) == {"a"}
    assert len(place(nodes, Job("j", fair))) == 3
    in_a = ((("zone", Op.IN, ("a",)),),)
    chosen = [Pod(label="s", needs=(in_a,), spread=(rule,))] * 3
    assert len(place(nodes, Job("j", chosen))) == 3
    several = [Pod(label="s", needs=(in_a,), spread=(replace(rule, domains=2),))] * 3
    assert len(place(nodes, Job("j", several))) == 1, "fewer domains than asked: the minimum is 0"


def test_a_soft_spread_prefers_and_does_not_forbid() -> None:
    pods = [Pod(label="s", spread=(Skew("s", hard=False),))] * 20
    bound = place(ZONES, Job("j", pods))
    assert len(bound) == 20
    assert [n[0] for n in bound.values()].count("a") == 10


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (Pod(gpus=9), Reason.INSUFFICIENT_GPU),
        (Pod(cpu=65_000), Reason.INSUFFICIENT_CPU),
        (Pod(memory=600 * GIB), Reason.INSUFFICIENT_MEMORY),
        (Pod(extra=1), Reason.INSUFFICIENT_RESOURCE),
    ],
)
def test_what_no_node_has_is_named(pod: Pod, reason: Reason) -> None:
    assert refused([Node("a"), Node("b")], pod) == {reason: 2}
    wait = World([Node("a")], [Job("pod", [pod])]).decide().waits["pod"]
    assert wait.reason is Reason.LARGER_THAN_ANY_NODE


def test_extended_resources_and_pod_slots_run_out() -> None:
    assert len(place([Node("a", extra=2)], Job("j", [Pod(extra=1)] * 3))) == 2
    assert len(place([Node("a", pods=2)], Job("j", [Pod(gpus=0)] * 3))) == 2
    assert refused([Node("a", pods=1)], Pod(gpus=0), Job("o", [running("a", gpus=0)])) == {
        Reason.NO_POD_SLOT: 1
    }


def test_a_node_that_is_overdrawn_takes_nothing_more() -> None:
    over = Job("over", [running("a", gpus=0, cpu=5000)])
    nodes = [Node("a", cpu=4000)]
    assert where(nodes, Pod(cpu=0), over) == "", "as in KAI: also a pod that asks for no CPU"


def test_a_resource_that_a_node_has_none_of_is_not_charged() -> None:
    odd = Job("odd", [running("a", extra=3)])
    assert where([Node("a")], Pod(), odd) == "a"


def test_blocked_classes_wait_with_their_own_reason() -> None:
    out = World([Node("a")], [Job("j", [Pod(blocked=Reason.VOLUME_CLAIM_NOT_FOUND)])]).decide()
    assert out.waits["j"].reason is Reason.VOLUME_CLAIM_NOT_FOUND


def test_binpack_fills_the_fullest_node_and_spread_the_emptiest() -> None:
    nodes = [Node("a"), Node("b"), Node("c", gpus=16)]
    busy = Job("busy", [running("b", gpus=5)])
    assert where(nodes, Pod(), busy) == "b"
    assert place(nodes, Job("j", [Pod()]), busy, gpu=Placement.SPREAD) == {"j-0": "a"}
    three = place(nodes, Job("j", [Pod()] * 3), busy, gpu=Placement.SPREAD)
    assert sorted(three.values()) == ["a", "c", "c"], "by the free part, not by the number"


def test_pods_without_gpus_are_laid_out_by_cpu_and_kept_off_gpu_nodes() -> None:
    nodes = [Node("gpu"), Node("plain1", gpus=0), Node("plain2", gpus=0)]
    busy = Job("busy", [running("plain2", gpus=0, cpu=9000)])
    assert where(nodes, Pod(gpus=0), busy) == "plain2"
    assert place(nodes, Job("j", [Pod(gpus=0)]), busy, cpu=Placement.SPREAD) == {"j-0": "plain1"}


def test_room_now_beats_a_tighter_node_that_is_still_being_freed() -> None:
    nodes = [Node("a", gpus=2), Node("b")]
    leaving = Job("old", [Pod(gpus=2, state=X, node="a")])
    assert where(nodes, Pod(gpus=2), leaving) == "b"


def test_wishes_decide_between_nodes_that_have_room() -> None:
    nodes = [Node("a"), Node("b", labels={"k": "x"}), Node("c", soft_taints=("s",))]
    busy = Job("busy", [running("a", gpus=4), running("c", gpus=6)])
    assert where(nodes, Pod(), busy) == "a", "a soft taint outweighs packing"
    assert where(nodes, Pod(tolerates=("s",)), busy) == "c"
    assert where(nodes, Pod(wishes=((1, (("k", Op.IN, ("x",)),)),)), busy) == "b"


def test_equal_nodes_are_taken_in_the_order_of_their_names() -> None:
    nodes = [Node(name) for name in ("n3", "n1", "n2")]
    assert where(nodes, Pod()) == "n1"


def test_a_policy_of_one_s_own_is_a_tuple_with_one_more_function() -> None:
    from kai_ray.scheduler.rules import Score

    def last_by_name(fit, at):
        return fit.ledger.nodes.rank[at].astype(float)

    mine = replace(DEFAULT, scores=(*DEFAULT.scores, Score(last_by_name, 50.0)))
    out = World([Node("a"), Node("b"), Node("c")], [Job("j")]).decide(mine)
    assert out.bound == {"j-0": "c"}
