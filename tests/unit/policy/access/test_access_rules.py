"""Parts of a policy without an effect are found at the start."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from toolcrib import Tool
from toolcrib.policy import Policy, Rule
from toolcrib.policy.access import Access


def refund(order: str, amount: float = 5, kind: Literal["a", "b"] = "a") -> None: ...


def find(q: str) -> None: ...


def look(q: str) -> None: ...


TOOLS = [
    Tool.from_function(refund, tags=["money"], aliases=["give_back"]),
    Tool.from_function(find),
    Tool.from_function(look),
]
TOOLS[1].namespace = "shop"


def check(*rules: Rule, **demands: Any) -> list[tuple[str | None, str, str | None]]:
    found = Access(Policy(rules=rules, **demands)).check(TOOLS)
    return [(error.key, error.message, error.hint) for error in found]


def test_a_policy_that_means_something_is_in_order() -> None:
    rules = [
        Rule(allow=["re*", "tag:money", "namespace:shop", "hint:not-read-only", "give_back"]),
        Rule(deny=["refund"], when={"amount": {"above": 3}, "order": {"matches": "[a-z]+"}}),
        Rule(confirm=["*"], when={"amount": {"exists": False}}),
        Rule(deny=["re:f.*"], when={"q": "x"}),
    ]
    assert check(*rules, scopes={"mail": ["find"]}) == []
    assert check() == []


@pytest.mark.parametrize(
    ("selector", "hint"),
    [
        ("refnud", "did you mean 'refund' or 'find'?"),
        ("x*", "available: refund, give_back, find, look"),
        ("tag:mony", "did you mean 'money'?"),
        ("namespace:shops", "did you mean 'shop'?"),
        ("re:x+", None),
        ("hint:destructive", None),
    ],
)
def test_a_selector_that_means_no_tool_is_named(selector: str, hint: str | None) -> None:
    found = check(Rule(deny=["find"]), Rule(deny=["find", selector]))
    assert found == [("rules[2].deny", f"{selector!r} matches no tool", hint)]
    assert check(scopes={"mail": [selector]}) == [("scopes.mail", f"{selector!r} matches no tool", hint)]


def test_where_there_are_no_tools_there_is_nothing_to_suggest() -> None:
    found = Access(Policy(rules=[Rule(deny=["find"], when={"q": 1})])).check([])
    assert [(error.key, error.hint) for error in found] == [("rules[1].deny", None)]


def test_where_there_are_many_tools_some_are_named() -> None:
    def run() -> None: ...

    tools = [Tool.from_function(run, name=f"tool_{number}") for number in range(10)]
    (error,) = Access(Policy(rules=[Rule(deny=["xyz"])])).check(tools)
    names = ", ".join(f"tool_{number}" for number in range(8))
    assert error.hint == f"available: {names} and 2 more"
    (error,) = Access(Policy(rules=[Rule(deny=["xyz"])])).check(tools[:8])
    assert error.hint == f"available: {names}"


def test_everything_that_is_wrong_is_said_and_not_the_first_only() -> None:
    found = check(
        Rule(deny=["nothing", "never"]),
        Rule(deny=["find"], when={"qq": 1, "q": {"above": 3}}),
        Rule(allow=["refund"], when={"amount": {"prefix": "x"}}),
        scopes={"mail": ["nothing"]},
    )
    assert [key for key, _, _ in found] == [
        "rules[1].deny",
        "rules[1].deny",
        "rules[2].when.qq",
        "rules[2].when.q",
        "rules[3].when.amount",
        "scopes.mail",
    ]


def test_a_condition_on_an_argument_that_no_tool_has_is_named() -> None:
    assert check(Rule(deny=["refund"], when={"amuont": 3})) == [
        ("rules[1].when.amuont", "'refund' has no such argument", "did you mean 'amount'?")
    ]
    assert check(Rule(deny=["*"], when={"x": 3})) == [
        (
            "rules[1].when.x",
            "the 3 tools of this rule have no such argument",
            "available: amount, kind, order, q",
        )
    ]
    assert check(Rule(deny=["*"], when={"amount": 3})) == []  # one of them has it


@pytest.mark.parametrize(
    ("effect", "when", "words"),
    [
        ("deny", {"amount": {"prefix": "x"}}, 'amount prefix "x"'),
        ("allow", {"amount": {"max_length": 3, "above": 3}}, "amount max_length 3 and above 3"),
        ("deny", {"amount": "100"}, 'amount equals "100"'),
        ("deny", {"order": {"above": 3}}, "order above 3"),
        ("confirm", {"kind": "c"}, 'kind equals "c"'),
        ("allow", {"kind": ["A", 5]}, 'kind one_of ["A", 5]'),
    ],
)
def test_a_condition_on_values_that_the_tool_does_not_accept_is_named(
    effect: str, when: dict[str, Any], words: str
) -> None:
    path = next(iter(when))
    assert check(Rule(**{effect: ["refund"], "when": when})) == [  # type: ignore[arg-type]
        (
            f"rules[1].when.{path}",
            "can never hold: 'refund' accepts no such value",
            f"the condition is: {words}",
        )
    ]


def test_a_condition_that_can_hold_for_one_of_several_tools_is_in_order() -> None:
    def count(q: int) -> None: ...

    tools = [*TOOLS, Tool.from_function(count)]
    assert not Access(Policy(rules=[Rule(deny=["find", "count"], when={"q": 3})])).check(tools)
    (error,) = Access(Policy(rules=[Rule(deny=["find", "look"], when={"q": 3})])).check(tools)
    assert error.message == "can never hold: the 2 tools of this rule accept no such value"


def test_what_may_hold_but_is_not_known_to_is_left_alone() -> None:
    assert check(Rule(deny=["find"], when={"q": {"matches": "[0-9]{3}x"}})) == []
    assert check(Rule(allow=["find"], when={"q": {"glob": "a*", "prefix": "b"}})) == []
    assert check(Rule(deny=["refund"], when={"amount": {"above": 3, "below": 2}})) == []
    assert check(Rule(deny=["refund"], when={"order": {"exists": False}, "kind": {"not": ["a", "b"]}})) == []
    assert check(Rule(deny=["refund"], when={"amount": {"one_of": [3, "x"]}})) == []


def test_the_types_of_items_and_alternatives_are_compared() -> None:
    def act(
        numbers: list[int] | None, either: int | str, table: dict[str, int], others: list[Any]
    ) -> None: ...

    tool = Tool.from_function(act)

    def is_in_order(path: str, when: Any) -> bool:
        return not Access(Policy(rules=[Rule(deny=["act"], when={path: when})])).check([tool])

    assert is_in_order("numbers", 3)
    assert is_in_order("numbers", None)
    assert not is_in_order("numbers", "3")
    assert is_in_order("either", "x")
    assert not is_in_order("either", True)
    assert is_in_order("table.x", {"above": 3})
    assert not is_in_order("table", {"above": 3})
    assert is_in_order("others", {"above": 3})


def test_an_error_has_its_place_in_the_file() -> None:
    lines = {"rules[1]": 3, "rules[1].deny": 4, "scopes.mail": 9}
    policy = Policy(
        rules=[Rule(deny=["no"], when={"a": 1})], scopes={"mail": ["no"]}, file="a.toml", lines=lines
    )
    assert [str(error) for error in Access(policy).check(TOOLS)] == [
        "a.toml:4: rules[1].deny: 'no' matches no tool",
        "a.toml:9: scopes.mail: 'no' matches no tool",
    ]
