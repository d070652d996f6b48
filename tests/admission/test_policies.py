"""The policies in CEL refuse what the code refuses, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import cel
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kai_ray.admission import gpu_env
from kai_ray.admission.policies import mutating_version, policies, routing
from kai_ray.api import notify
from kai_ray.cluster.celfunctions import FUNCTIONS
from kai_ray.cluster.port import ApiError, NotFound, Object, Unavailable
from kai_ray.encode import gpu_asks, queue_policy, requests
from kai_ray.encode.problems import Malformed
from tests.control import objects

_OPTIONAL = re.compile(r"\.\?(\w+)")


def test_each_policy_has_a_binding_of_its_name() -> None:
    made = policies()
    for policy, binding in zip(made[::2], made[1::2], strict=True):
        assert binding["kind"] == f"{policy['kind']}Binding"
        assert binding["spec"]["policyName"] == policy["metadata"]["name"]
        assert policy["metadata"]["labels"] == {"app.kubernetes.io/part-of": "kai-ray"}


def test_only_pods_that_are_ours_or_may_become_so_are_matched() -> None:
    for policy in policies(("mine", "kai-scheduler")):
        rules = (policy["spec"].get("matchConstraints") or {}).get("resourceRules") or ()
        if any("pods" in rule["resources"] for rule in rules):
            conditions = " ".join(c["expression"] for c in policy["spec"]["matchConditions"])
            ours = 'object.spec.schedulerName in ["mine", "kai-scheduler"]' in conditions
            assert ours or policy["metadata"]["name"] == "kai-ray-routing"


def test_a_name_of_any_form_stays_inside_its_quotes() -> None:
    policy, _ = routing('a"b\\c')
    (mutation,) = policy["spec"]["mutations"]
    assert 'value: "a\\"b\\\\c"' in mutation["jsonPatch"]["expression"]


def test_the_version_is_what_the_server_has_on() -> None:
    class Server:
        def __init__(self, **served: list[str]) -> None:
            self.served = served

        def raw(self, method: str, path: str) -> Object:
            version = path.rpartition("/")[2]
            if version not in self.served:
                raise NotFound(path)
            return {"resources": [{"name": name} for name in self.served[version]]}

    ours = "mutatingadmissionpolicies"
    assert mutating_version(Server(v1=["others", ours])) == "v1"
    assert mutating_version(Server(v1=["others"], v1beta1=[ours])) == "v1beta1"
    assert mutating_version(Server(v1=["others"])) == ""

    class Down:
        def raw(self, method: str, path: str) -> Object:
            raise Unavailable("no answer")

    with pytest.raises(ApiError):
        mutating_version(Down())


# Against the code, by an engine for CEL; what the engine lacks is written out first.


def _plain(expression: str, variables: dict[str, str]) -> str:
    for name, value in variables.items():
        expression = expression.replace(f"variables.{name}", f"({value})")
    notes = "object.metadata.annotations"
    expression = expression.replace("object.metadata.?annotations.orValue({})", notes)
    expression = re.sub(
        r"\((object\.metadata\.annotations)\)\[\?('[^']+')\]\.orValue\(''\)",
        r"(\2 in \1 ? \1[\2] : '')",
        expression,
    )
    expression = expression.replace(
        "object.spec.?initContainers.orValue([])",
        "(has(object.spec.initContainers) ? object.spec.initContainers : [])",
    )
    for kind in ("requests", "limits"):
        expression = expression.replace(
            f"c.?resources.?{kind}.orValue({{}})",
            f"(has(c.resources) && has(c.resources.{kind}) ? c.resources.{kind} : {{}})",
        )
    assert ".?" not in expression and "[?" not in expression, expression
    return expression


@cache
def _judge(name: str) -> Callable[[Object], bool]:
    """Whether the policy of that name takes an object."""
    (policy,) = (
        p for p in policies() if p["metadata"]["name"] == name and p["spec"].get("variables")
    )
    spec = policy["spec"]
    known: dict[str, str] = {}
    for variable in spec["variables"]:
        known[variable["name"]] = _plain(variable["expression"], known)
    conditions = [cel.compile(_plain(c["expression"], known)) for c in spec["matchConditions"]]
    rules = [cel.compile(_plain(v["expression"], known)) for v in spec["validations"]]

    def takes(obj: Object) -> bool:
        context = cel.Context({"object": obj}, FUNCTIONS)
        if not all(c.execute(context) for c in conditions):
            return True
        return all(rule.execute(context) for rule in rules)

    return takes


def _pod(notes: dict[str, str], amount: str) -> Object:
    pod = objects.pod("p", gpus=0, annotations=notes)
    if amount:
        resources = pod["spec"]["containers"][0]["resources"]
        resources["limits"] = {**(resources.get("limits") or {}), "nvidia.com/gpu": amount}
    return pod


def _taken(pod: Object) -> bool:
    try:
        gpu_asks.read(pod["metadata"]["annotations"], requests.effective(pod["spec"]))
    except Malformed:
        return False
    return not gpu_env.causes(pod)


_NUMBERS = st.one_of(
    st.sampled_from(["0.5", "1", "0", "-1", "1e-1", ".5", "5.", "+0.5", "NaN", "inf", "", " "]),
    st.sampled_from(["0x1p-2", "1_0", "0.5 ", "8000", "008000", "1024", "1025", "1e400", "0.000"]),
    st.floats().map(str),
    st.integers(-5, 2000).map(str),
    st.text("0123456789.eE+-_ x", max_size=6),
)
_NOTES = st.dictionaries(
    st.sampled_from(["gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"]), _NUMBERS
)
_MORE = st.dictionaries(
    st.sampled_from(["mps", "gpu-fraction-container-name"]),
    st.sampled_from(["true", "TRUE", "false", "", "other", "main"]),
)


@given(notes=_NOTES, more=_MORE, amount=st.sampled_from(["", "", "0", "1"]))
@example(notes={"gpu-fraction": "0.5"}, more={}, amount="0")
@example(notes={"gpu-fraction": "0.5 "}, more={}, amount="")
@example(notes={"gpu-memory": "0" * 15 + "1"}, more={}, amount="")
@example(notes={"gpu-memory": "0" * 14 + "1"}, more={}, amount="")
@example(notes={"gpu-memory": "0" * 15}, more={}, amount="")
def test_shares_are_taken_and_refused_alike(
    notes: dict[str, str], more: dict[str, str], amount: str
) -> None:
    pod = _pod(notes | more, amount)
    assert _judge("kai-ray-gpu-shares")(pod) == _taken(pod)


_QUEUE_NOTES = {
    "placement-strategy": st.sampled_from(["binpack", "spread", "Binpack", "", "spread "]),
    "default-priority-class": st.text("aB-. ,1", max_size=5),
    "allowed-priority-classes": st.text("aB-. ,1", max_size=8),
    "node-pools": st.text("aB-_. ,", max_size=8),
    "gpu-types": st.text("aB-_. ,", max_size=8),
    "max-run-time": st.text("0159hms.+- ", max_size=5),
    "reserved-gpus": st.one_of(
        st.from_regex("[0-9]{1,8}(x[0-9]{1,8})?", fullmatch=True), st.text("019.ex+- ", max_size=4)
    ),
    "eviction-grace": st.text("0159hms.+- ", max_size=5),
    "notify": st.one_of(
        st.text("aB-_. ,:/", max_size=8),
        st.from_regex(r"(https?|ftp)://[a-zA-Z0-9@:/. \[]{0,8}(, ?[a-z]{1,3})?", fullmatch=True),
    ),
    "notify-on": st.lists(
        st.sampled_from(["started", "ended", "idle", " failed", "Ended", ""]), max_size=3
    ).map(",".join),
    "notify-after": st.text("0159hms.+- ", max_size=5),
    "drain-deadline": st.sampled_from(
        ["2026-01-31T12:00:00Z", "2026-01-31", "soon", "", "2026-01-31T12:00:00+01:00"]
    ),
}


@given(
    st.sampled_from(sorted(_QUEUE_NOTES)).flatmap(
        lambda key: st.tuples(st.just(f"kai.scheduler/{key}"), _QUEUE_NOTES[key])
    )
)
def test_annotations_of_queues_are_taken_and_refused_alike(note: tuple[str, str]) -> None:
    queue: dict[str, Any] = objects.queue("q")
    queue["metadata"]["annotations"] = dict([note])
    notes = queue["metadata"]["annotations"]
    taken = not queue_policy.problems(notes) and not list(notify.problems(notes))
    assert _judge("kai-ray-queue-annotations")(queue) == taken
