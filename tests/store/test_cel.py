"""CEL rules beyond the plain ones: Kubernetes' functions, escaped names, messages."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kai_ray.cluster.memory.celrules import compile_rule, run_rules

VALUE: dict[str, Any] = {
    "n": 3,
    "half": 0.5,
    "list": [1, 2, 3],
    "words": ["a", "b", "a"],
    "text": "Team-Red",
    "cpu": "1500m",
    "dash-ed": 1,
    "namespace": "x",
    "a.b/c": 2,
}


def _holds(rule: str, value: Any = VALUE, old: Any = None) -> bool:
    return not run_rules([compile_rule({"rule": rule}, "")], value, old, "spec")


@pytest.mark.parametrize(
    "rule",
    [
        "self.n >= 2.5 && self.half < 1",
        "self.list.sum() == 6 && self.list.isSorted()",
        "self.list.min() == 1 && self.list.max() == self.n",
        "self.words.indexOf('b') == 1 && self.words.lastIndexOf('a') == 2",
        "self.words.join('-') == 'a-b-a'",
        "self.text.split('-') == ['Team', 'Red']",
        "self.text.lowerAscii().startsWith('team')",
        "self.text.replace('Team', 'T').substring(2) == 'Red'",
        "self.text.find('[A-Z]ed') == 'Red'",
        "self.text.matches('^[A-Za-z-]+$')",
        "quantity(self.cpu).isGreaterThan(quantity('1'))",
        "isQuantity(self.cpu) && !isQuantity('lots')",
        "quantity('1Gi').compareTo(quantity('1G')) == 1",
        "isURL('https://example.com/a') && !isURL('example')",
        "self.dash__dash__ed == 1",
        "self.__namespace__ == 'x'",
        "self.a__dot__b__slash__c == 2",
        "!has(self.absent) || self.absent > 1",
        "duration('90m') > duration('1h')",
    ],
)
def test_rules_that_hold(rule: str) -> None:
    assert _holds(rule)


@pytest.mark.parametrize("rule", ["self.n > 3", "self.list.sum() == 7", "self.words.isSorted()"])
def test_rules_that_do_not_hold(rule: str) -> None:
    assert not _holds(rule)


def test_a_rule_that_fails_to_run_refuses() -> None:
    (found,) = run_rules([compile_rule({"rule": "self.absent > 1"}, "")], VALUE, None, "spec")
    assert found["field"] == "spec"
    assert "absent" in found["message"]


def test_a_transition_needs_something_before() -> None:
    rule = "self.n >= oldSelf.n"
    assert _holds(rule)
    assert _holds(rule, old={"n": 3})
    assert not _holds(rule, old={"n": 4})


def test_the_message_may_be_an_expression() -> None:
    rule = {
        "rule": "self.n < 2",
        "messageExpression": "'n is ' + string(self.n)",
        "fieldPath": ".n",
        "reason": "FieldValueForbidden",
    }
    (found,) = run_rules([compile_rule(rule, "")], VALUE, None, "spec")
    assert found == {"field": "spec.n", "message": "n is 3", "reason": "FieldValueForbidden"}


def test_a_function_nobody_knows_is_left_out_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rules = [compile_rule({"rule": "ip('1.2.3.4').family() == 4"}, "")]
    with caplog.at_level(logging.WARNING):
        assert run_rules(rules, VALUE, None, "spec") == []
        assert run_rules(rules, VALUE, None, "spec") == []
    assert len(caplog.records) == 1


@pytest.mark.parametrize("rule", ["self ==", "", "self.n >", "a b"])
def test_what_is_no_cel_does_not_compile(rule: str) -> None:
    with pytest.raises(ValueError, match="does not compile"):
        compile_rule({"rule": rule}, "spec")
