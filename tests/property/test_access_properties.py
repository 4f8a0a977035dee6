"""Access against a plain reading of the rules: whatever the policy, both say the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from toolcrib import Principal, Tool
from toolcrib.policy import Policy, Rule
from toolcrib.policy.access import Access

TEXTS = ("", "a", "ab", "abc", "b", "ba", "c")
SMALL = {"type": "integer", "minimum": 0, "maximum": 5}
WORD = {"type": "string", "enum": list(TEXTS)}
SCHEMAS: dict[str, Mapping[str, Any]] = {
    "plain": {"n": SMALL, "t": WORD},
    "optional": {"n": {**SMALL, "default": 3}, "t": WORD},
    "listed": {"n": {"type": "array", "items": SMALL}, "t": {"anyOf": [WORD, SMALL]}},
}
REQUIRED = {"plain": ["n", "t"], "optional": [], "listed": ["n"]}


async def run(arguments: dict[str, Any]) -> None: ...


TOOLS = {
    name: Tool.from_handler(
        run,
        name,
        "A tool.",
        {"type": "object", "properties": properties, "required": REQUIRED[name]},
        tags=["even"] if name != "plain" else [],
    )
    for name, properties in SCHEMAS.items()
}
CALLERS = [Principal("key:a"), Principal("key:b", roles=frozenset({"lead"})), Principal("local")]

numbers = st.integers(-1, 6) | st.sampled_from([2.5, 3.0])
texts = st.sampled_from(["a", "b", "ab", "c", "x"])
operators = st.one_of(
    st.fixed_dictionaries({}, optional={"above": numbers, "at_least": numbers, "below": numbers}),
    st.fixed_dictionaries(
        {}, optional={"at_most": numbers, "equals": numbers, "one_of": st.lists(numbers, min_size=1)}
    ),
    st.fixed_dictionaries({}, optional={"prefix": texts, "suffix": texts, "max_length": st.integers(0, 3)}),
    st.fixed_dictionaries({}, optional={"glob": st.sampled_from(["a*", "*b", "?", "*"]), "equals": texts}),
).filter(bool)
demands = st.one_of(
    operators,
    st.builds(lambda inner: {"not": inner}, operators),
    st.builds(lambda inner, exists: {**inner, "exists": exists}, operators, st.booleans()),
    st.builds(lambda exists: {"exists": exists}, st.booleans()),
    numbers,
    texts,
    st.lists(texts | numbers, min_size=1, max_size=4),
)
selectors = st.sampled_from(["*", "plain", "optional", "listed", "tag:even", "re:.*l.*"])
callers = st.lists(st.sampled_from(["key:*", "key:a", "local", "role:lead"]), max_size=2)


@st.composite
def rules(draw: st.DrawFn, effects: tuple[str, ...] = ("allow", "deny", "confirm")) -> Rule:
    effect = draw(st.sampled_from(effects))
    when = draw(st.dictionaries(st.sampled_from(["n", "t"]), demands, max_size=2))
    given_ = {effect: [draw(selectors)], "who": draw(callers), "when": when}
    return Rule(**given_)


def make(written: list[Rule], default: str | None = None) -> Access:
    is_open = default == "allow" and any(rule.allow for rule in written)
    return Access(Policy(rules=written, default=None if is_open else default, roles={"lead": ["nobody"]}))  # type: ignore[arg-type]


many = st.lists(rules(), max_size=5)
defaults = st.sampled_from([None, "allow", "deny"])


def list_calls(name: str) -> Iterator[dict[str, Any]]:
    """Every call that a tool takes, but for longer lists."""
    values: dict[str, list[Any]] = {"plain": list(range(6)), "optional": [..., *range(6)]}
    values["listed"] = [[], *([number] for number in range(6)), [0, 5], [2, 3]]
    others = [*TEXTS, *range(6), ...] if name == "listed" else [*TEXTS, ...] if name == "optional" else TEXTS
    for n, t in product(values[name], others):
        yield {key: value for key, value in (("n", n), ("t", t)) if value is not ...}


# --- a plain reading of the rules -----------------------------------------------------------------------


def is_about(rule: Rule, caller: Principal, name: str) -> bool:
    (selector,) = rule.tools
    tools = {
        "*": list(TOOLS),
        "tag:even": ["optional", "listed"],
        "re:.*l.*": ["plain", "optional", "listed"],
    }
    who = {"key:*": ["key:a", "key:b"], "role:lead": ["key:b"]}
    is_caller = not rule.who or any(caller.name in who.get(item, [item]) for item in rule.who)
    return name in tools.get(selector, [selector]) and is_caller


def compare(value: Any, operator: str, constant: Any) -> bool | None:
    if operator in ("equals", "one_of"):
        return value in (constant if operator == "one_of" else [constant])
    if operator == "not":
        found = [compare(value, *pair) for pair in constant.items()]
        return True if False in found else None if None in found else False
    if value is ... or value == []:
        return False
    if operator in ("above", "at_least", "below", "at_most"):
        if isinstance(value, str):
            return None
        return {
            "above": value > constant,
            "at_least": value >= constant,
            "below": value < constant,
            "at_most": value <= constant,
        }[operator]
    if not isinstance(value, str):
        return None
    match operator:
        case "prefix":
            return value[: len(constant)] == constant
        case "suffix":
            return value[-len(constant) :] == constant
        case "max_length":
            return len(value) <= constant
        case _:
            return {
                "a*": value[:1] == "a",
                "*b": value[-1:] == "b",
                "?": len(value) == 1,
                "*": True,
            }[constant]


def holds(demand: Any, key: str, name: str, arguments: dict[str, Any], *, allows: bool) -> bool:
    if not isinstance(demand, dict):
        demand = {"one_of": demand} if isinstance(demand, list) else {"equals": demand}
    there = arguments.get(key, SCHEMAS[name][key].get("default", ...))
    items = there if isinstance(there, list) and there else [there]
    pairs = [(item, key in arguments) for item in items] + ([(..., False)] if there == [] else [])
    answers = []
    for value, is_given in pairs:
        found = [
            is_given is constant if operator == "exists" else compare(value, operator, constant)
            for operator, constant in demand.items()
        ]
        answer = False if False in found else None if None in found else True
        if allows and value is ... and demand.get("exists") is not False:
            answer = False
        answers.append(answer)
    return all(answer is True for answer in answers) if allows else any(a is not False for a in answers)


def read(written: list[Rule], default: str, caller: Principal, name: str, arguments: dict[str, Any]) -> Any:
    """Whether it is allowed, and whether somebody is asked."""
    counting = [
        rule.effect
        for rule in written
        if is_about(rule, caller, name)
        and all(
            holds(demand, key, name, arguments, allows=rule.effect == "allow")
            for key, demand in rule.when.items()
        )
    ]
    is_allowed = "deny" not in counting and (default == "allow" or "allow" in counting)
    return is_allowed, is_allowed and "confirm" in counting


# --- what holds ---------------------------------------------------------------------------------------


@given(many, defaults, st.sampled_from(CALLERS), st.sampled_from(list(TOOLS)))
def test_every_call_is_judged_as_the_rules_read(
    written: list[Rule], default: str | None, caller: Principal, name: str
) -> None:
    access = make(written, default)
    decision = access.decide(caller, TOOLS[name])
    said = "deny" if access.policy.denies_by_default else "allow"
    passing = False
    for arguments in list_calls(name):
        expected = read(written, said, caller, name, arguments)
        judged = decision.judge(arguments)
        if decision.is_visible:
            assert (judged.is_allowed, judged.confirm is not None) == expected, arguments
        assert judged.is_allowed is expected[0]
        passing |= expected[0]
    if passing:
        assert decision.is_visible
    if decision.is_final:
        assert all(read(written, said, caller, name, call) == (True, False) for call in list_calls(name))


@given(many, defaults, st.sampled_from(CALLERS), st.sampled_from(list(TOOLS)))
def test_a_tool_is_hidden_by_rules_without_conditions_alone(
    written: list[Rule], default: str | None, caller: Principal, name: str
) -> None:
    access = make(written, default)
    about = [rule for rule in written if is_about(rule, caller, name)]
    is_denied = any(rule.deny and not rule.when for rule in about)
    may_be_allowed = not access.policy.denies_by_default or any(rule.allow for rule in about)
    assert access.decide(caller, TOOLS[name]).is_visible is (may_be_allowed and not is_denied)


@given(many, defaults, st.randoms(use_true_random=False), st.sampled_from(CALLERS))
def test_the_order_of_rules_changes_nothing(
    written: list[Rule], default: str | None, chance: Any, caller: Principal
) -> None:
    turned = list(written)
    chance.shuffle(turned)
    one, other = make(written, default), make(turned, default)
    tools = tuple(TOOLS.values())
    assert one.view(caller, tools) == other.view(caller, tools)
    for name, tool in TOOLS.items():
        first, second = one.decide(caller, tool), other.decide(caller, tool)
        assert (first.is_final, first.missing) == (second.is_final, second.missing)
        for arguments in list_calls(name):
            judged, again = first.judge(arguments), second.judge(arguments)
            assert judged.is_allowed is again.is_allowed
            assert (judged.confirm is None) is (again.confirm is None)


@given(many, defaults, rules(effects=("deny",)), st.integers(0, 5), st.sampled_from(CALLERS))
def test_one_more_denial_never_shows_or_allows_more(
    written: list[Rule], default: str | None, denial: Rule, place: int, caller: Principal
) -> None:
    more = [*written[:place], denial, *written[place:]]
    before, after = make(written, default), make(more, default)
    tools = tuple(TOOLS.values())
    assert set(after.view(caller, tools)) <= set(before.view(caller, tools))
    for name, tool in TOOLS.items():
        for arguments in list_calls(name):
            if after.decide(caller, tool).judge(arguments).is_allowed:
                assert before.decide(caller, tool).judge(arguments).is_allowed


@given(many, defaults)
def test_callers_differ_only_where_that_was_announced(written: list[Rule], default: str | None) -> None:
    access = make(written, default)
    tools = tuple(TOOLS.values())
    views = {id(access.view(caller, tools)) for caller in CALLERS}
    seen = {access.view(caller, tools) for caller in CALLERS}
    assert len(views) == len(seen)
    assert access.depends_on_principal or len(views) == 1
    for caller in CALLERS:
        listed = access.view(caller, tools)
        assert listed == tuple(tool for tool in tools if access.is_visible(caller, tool))
