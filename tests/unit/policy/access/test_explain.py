"""An explanation says what would happen, and every rule's part in it."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from toolcrib import Principal, Tool
from toolcrib.context import LOCAL
from toolcrib.errors import InvalidArgumentsError
from toolcrib.policy import Limit, Policy, Rule
from toolcrib.policy.access import Access
from toolcrib.policy.access.explain import Explanation, Step, decided_by, explain


def refuse(number: int) -> int:
    if number != 1:
        raise ValueError("never")
    return number


ANA = Principal("key:ana", frozenset({"mail", "files"}), frozenset({"lead"}))


def refund(order: str, amount: float = 1000, tags: list[str] | None = None) -> None: ...


REFUND = Tool.from_function(refund, scopes=["mail"])


def ask(
    *rules: Rule, who: Principal = ANA, arguments: dict[str, Any] | None = None, **demands: Any
) -> Explanation:
    return explain(Access(Policy(rules=rules, **demands)), who, REFUND, arguments)


def test_an_explanation_names_caller_tool_roles_and_scopes() -> None:
    found = ask(roles={"support": ["key:*"], "boss": ["key:bob"]}, scopes={"files": ["refund"]})
    assert (found.tool, found.principal) == ("refund", "key:ana")
    assert found.roles == ("lead", "support")
    assert (found.scopes, found.needed, found.missing) == (("files", "mail"), ("files", "mail"), ())
    assert (found.verdict, found.rule, found.default, found.steps) == ("allowed", "default", "allow", ())
    assert (found.because, found.confirm, found.limits) == (None, None, ())
    assert not found.is_refused
    assert decided_by(found) == "the default, allow"


def test_what_is_denied_is_hidden_by_a_rule() -> None:
    found = ask(Rule(deny=["refund"], because="no more", name="stop"))
    assert (found.verdict, found.rule, found.because) == ("hidden", 'rule 1 "stop"', "no more")
    assert found.steps == (Step("deny", 'rule 1 "stop"', True, "whatever the arguments"),)
    assert found.is_refused
    assert decided_by(found) == 'rule 1 "stop"'


def test_rules_for_others_are_said_to_be_for_others() -> None:
    found = ask(
        Rule(allow=["refund"], who=["role:boss", "local"]), Rule(allow=["other"]), roles={"boss": ["x"]}
    )
    assert (found.verdict, found.rule, found.default) == ("hidden", "default", "deny")
    assert found.steps == (Step("allow", "rule 1", False, "it is for role:boss, local"),)
    assert decided_by(found) == "the default, deny"


def test_a_missing_scope_is_named_after_the_rules_were_asked() -> None:
    found = ask(Rule(allow=["refund"]), who=Principal("key:bob"), arguments={"order": "1"})
    assert (found.verdict, found.missing, found.rule) == ("scope", ("mail",), "scope mail")
    assert found.is_refused
    denied = ask(Rule(deny=["refund"]), who=Principal("key:bob"))
    assert denied.verdict == "hidden"


def test_without_arguments_it_depends_on_them() -> None:
    found = ask(
        Rule(allow=["refund"], when={"amount": {"at_most": 5}, "order": {"prefix": "x"}}),
        Rule(deny=["refund"], when={"order": "xx"}),
        Rule(confirm=["refund"]),
    )
    assert (found.verdict, found.rule, found.because, found.confirm) == ("depends", "rule 2", None, None)
    assert found.steps == (
        Step("allow", "rule 1", None, 'where amount at_most 5 and order prefix "x"'),
        Step("deny", "rule 2", None, 'where order equals "xx"'),
        Step("confirm", "rule 3", True, "whatever the arguments"),
    )
    assert not found.is_refused


def test_with_arguments_each_rule_says_what_it_found() -> None:
    rules = [
        Rule(allow=["refund"], when={"amount": {"at_most": 5}, "order": {"prefix": "x"}}),
        Rule(deny=["refund"], when={"order": "xx"}),
    ]
    found = ask(*rules, arguments={"order": "y"})
    assert found.verdict == "denied"
    assert found.is_refused
    assert found.rule == "rule 1"
    assert found.steps == (
        Step(
            "allow",
            "rule 1",
            False,
            'requires amount at_most 5 (by default it is 1000), order prefix "x" (it is "y")',
        ),
        Step("deny", "rule 2", False, 'requires order equals "xx" (it is "y")'),
    )
    found = ask(*rules, arguments={"order": "x1", "amount": 2})
    assert (found.verdict, found.rule) == ("allowed", "rule 1")
    assert found.steps[0].counts is True
    assert found.steps[0].why == 'amount at_most 5 (it is 2) and order prefix "x" (it is "x1")'
    found = ask(*rules, arguments={"order": "xx", "amount": 9})
    assert (found.verdict, found.rule) == ("denied", "rule 2")
    assert found.steps[0].why == "requires amount at_most 5 (it is 9)"
    assert found.steps[1] == Step("deny", "rule 2", True, 'order equals "xx" (it is "xx")')


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        (None, "not given"),
        (["a", "b"], 'it is "a", it is "b"'),
        (["a", "a"], 'it is "a"'),
        (list("abc"), 'it is "a", it is "b", it is "c"'),
        (list("abcde"), 'it is "a", it is "b", it is "c", and 2 more'),
        (["a" * 100], f'it is "{"a" * 79}...'),
        (["a" * 78], f'it is "{"a" * 78}"'),
    ],
)
def test_what_was_found_is_said_and_not_all_of_it(tags: list[str] | None, words: str) -> None:
    arguments = {"order": "1"} if tags is None else {"order": "1", "tags": tags}
    found = ask(Rule(confirm=["refund"], when={"tags": "z"}), arguments=arguments)
    assert found.steps[0].why == f'requires tags equals "z" ({words})'


def strip(
    text: Annotated[str, AfterValidator(str.strip)], odd: Annotated[int, AfterValidator(refuse)] = 1
) -> None:
    """Strip."""


def test_what_the_tool_gets_is_said_where_it_is_something_else() -> None:
    access = Access(Policy(rules=[Rule(deny=["strip"], when={"text": "root"})]))
    tool = Tool.from_function(strip)
    found = explain(access, LOCAL, tool, {"text": " root"})
    assert (found.verdict, found.rule) == ("denied", "rule 1")
    assert found.steps[0].why == 'text equals "root" (it is " root", the tool gets "root")'
    found = explain(access, LOCAL, tool, {"text": "ana"})
    assert (found.verdict, found.steps[0].why) == ("allowed", 'requires text equals "root" (it is "ana")')
    with pytest.raises(InvalidArgumentsError, match="'odd': never"):
        explain(access, LOCAL, tool, {"text": "ana", "odd": 2})
    assert (
        explain(access, LOCAL, tool, {"text": "root", "odd": 2}).verdict == "denied"
    )  # before it is converted


def test_a_value_that_cannot_be_compared_is_said_to_be_one() -> None:
    def pack(thing: Annotated[str, AfterValidator(lambda _: object())]) -> None: ...

    access = Access(Policy(rules=[Rule(deny=["pack"], when={"thing": "a"})]))
    found = explain(access, LOCAL, Tool.from_function(pack), {"thing": "b"})
    assert found.steps[0].why == 'thing equals "a" (it is "b", the tool gets a value that cannot be compared)'


def test_who_has_to_be_asked_is_said_with_the_reason() -> None:
    found = ask(Rule(confirm=["refund"], because="Money."), arguments={"order": "1"})
    assert (found.verdict, found.rule, found.confirm) == ("confirm", "rule 1", "rule 1: Money.")
    both = ask(Rule(allow=["refund"]), Rule(confirm=["refund"]), arguments={"order": "1"})
    assert (both.verdict, both.rule) == ("confirm", "rule 2")
    assert not found.is_refused
    assert ask(Rule(confirm=["refund"])).confirm == "rule 1"
    assert ask(Rule(confirm=["refund"])).verdict == "confirm"


def test_the_limits_that_would_apply_are_named() -> None:
    limits = [
        Limit(rate="60/min", name="calm"),
        Limit(tools=["other"], rate="1/s"),
        Limit(who=["key:bob"], rate="2/s"),
        Limit(concurrency=2, daily=9, per="principal+tool", timeout_s=1.5),
        Limit(max_arguments_bytes=10, max_result_bytes=20),
        Limit(daily=3, per="all"),
    ]
    assert ask(limits=limits).limits == (
        'limit 1 "calm": rate 60 in 60 s, per principal',
        "limit 4: concurrency 2, daily 9, timeout_s 1.5, per principal+tool",
        "limit 5: max_arguments_bytes 10, max_result_bytes 20, per principal",
        "limit 6: daily 3, per all",
    )


def test_an_explanation_is_plain_data() -> None:
    found = ask(Rule(deny=["refund"], when={"amount": {"above": 3}}), who=LOCAL)
    data = json.loads(json.dumps(found.to_json()))
    assert data["verdict"] == "depends"
    assert data["steps"] == [
        {"effect": "deny", "rule": "rule 1", "counts": None, "why": "where amount above 3"}
    ]
