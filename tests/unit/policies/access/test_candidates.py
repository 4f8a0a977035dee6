"""What is tried before a tool is hidden: of everything that rules and schemas can tell apart, one."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib import Tool
from toolcrib.context import LOCAL
from toolcrib.policy import Policy, Rule
from toolcrib.policy.access import Access, Decision

TEXT = {"type": "string"}
NUMBER = {"type": "number"}
WHOLE = {"type": "integer"}
LONGEST = 4_096


def decide(schema: Any, *rules: Rule, **root: Any) -> Decision:
    async def run(arguments: dict[str, Any]) -> None: ...

    whole = {"type": "object", "properties": {"x": schema}, "required": ["x"], **root}
    return Access(Policy(rules=rules)).decide(LOCAL, Tool.from_handler(run, "run", "Run.", whole))


def allow(x: Any) -> Rule:
    return Rule(allow=["run"], when={"x": x})


def deny(x: Any) -> Rule:
    return Rule(deny=["run"], when={"x": x})


def texts(**bounds: int) -> dict[str, Any]:
    return {**TEXT, **bounds}


def long(length: int) -> dict[str, Any]:
    """What asks for a text of just this length."""
    return {"max_length": length, "not": {"max_length": length - 1}}


@pytest.mark.parametrize(
    ("schema", "demand", "value"),
    [
        (WHOLE, {"not": {"at_least": 0}}, -1),
        (WHOLE, {"below": 0, "above": -2}, -1),
        ({**WHOLE, "multipleOf": 10}, {"above": 113, "below": 129}, 120),
        ({**WHOLE, "minimum": 1000}, {"not": 5}, 1000),
        ({**WHOLE, "exclusiveMinimum": 1000}, {"not": 5}, 1001),
        ({**WHOLE, "maximum": -1000}, {"not": 5}, -1000),
        ({**WHOLE, "exclusiveMaximum": -1000}, {"not": 5}, -1001),
        ({"type": "boolean"}, {"not": False}, True),
        ({"const": "abc"}, {"prefix": "ab"}, "abc"),
        (texts(minLength=7), {"prefix": "a"}, "azzzzzz"),
        (texts(maxLength=1), {"glob": "a*"}, "a"),
        (texts(maxLength=2), {"glob": "a?*"}, "az"),
        (texts(minLength=3), {"glob": "a*", "max_length": 3}, "azz"),
        (texts(minLength=4), {"glob": "a?*", "max_length": 4}, "azzz"),
        (TEXT, {"prefix": "ab", "suffix": "cd", **long(10)}, "abzzzzzzcd"),
        (TEXT, {"glob": "a*", **long(10)}, "azzzzzzzzz"),
        (TEXT, {"glob": "a?", "not": "az"}, "aq"),
        (TEXT, {"glob": "[!a]x[b]"}, "zxb"),
        (TEXT, {"below_path": "/a", "max_length": 2}, "/a"),
        (TEXT, {"below_path": "/X", "max_length": 3, "not": "/X"}, "/X/"),
        (TEXT, {"below_path": "/X", "not": ["/X", "/X/"]}, "/X/z"),
        (TEXT, {"below_path": "/a", "suffix": ".txt"}, "/a/.txt"),
        (TEXT, {"below_path": "/a", **long(10)}, "/a/zzzzzzz"),
        (TEXT, {"matches": "abc"}, "abc"),
        ({"type": "array", "items": TEXT, "maxItems": 1}, "a", ["a"]),
    ],
)
def test_a_value_that_passes_is_found(schema: Any, demand: Any, value: Any) -> None:
    assert decide(schema, allow(demand)).witness == {"x": value}


@pytest.mark.parametrize(
    ("demand", "value"),
    [
        ({"below_path": "/a"}, "/z"),
        ({"below_path": "/z"}, "/q"),
        ({"below_path": "a"}, "z"),
        ({"not": {"below_path": "/a"}}, "/a"),
    ],
)
def test_a_folder_that_is_denied_leaves_the_others(demand: Any, value: Any) -> None:
    decision = decide(TEXT, deny(demand))
    assert decision.witness == {"x": value}
    assert decision.judge({"x": value}).is_allowed


def test_outside_of_a_folder_there_are_paths_of_any_length() -> None:
    rules = deny({"below_path": "/a"}), deny({"max_length": 5}), deny({"not": {"max_length": 6}})
    assert decide(TEXT, *rules).witness == {"x": "/zzzzz"}
    assert not decide(TEXT, deny({"below_path": "/"})).is_visible


def test_texts_are_tried_up_to_some_length() -> None:
    longer = decide(TEXT, allow({"not": {"max_length": LONGEST}}))
    assert longer.witness == {"x": "z" * (LONGEST + 1)}
    assert not decide(TEXT, allow({"prefix": "a", "max_length": 0}), deny({"max_length": LONGEST})).is_visible
    endless = decide(TEXT, allow({"not": {"max_length": LONGEST + 1}}))
    assert (endless.is_visible, endless.witness) == (True, None)


@pytest.mark.parametrize(
    ("schema", "rule"),
    [
        ({"type": "array", "items": TEXT, "minItems": 1, "uniqueItems": True}, deny({"glob": "*"})),
        (TEXT, allow({"glob": "a*", "max_length": 0})),
        (texts(maxLength=10_000), allow({"prefix": "a", "max_length": 0})),
        ({"enum": [["a"], {"b": 1}, ["a"]]}, deny({"exists": True})),
    ],
)
def test_what_certainly_never_passes_is_hidden(schema: Any, rule: Rule) -> None:
    assert not decide(schema, rule).is_visible


@pytest.mark.parametrize(
    ("schema", "rule"),
    [
        ({"oneOf": [WHOLE, NUMBER]}, deny("q")),  # a fraction is of one kind only
        ({"type": "array", "items": texts(pattern="^[A-Z]{3}$"), "minItems": 1}, deny({"prefix": "a"})),  # type: ignore[arg-type]
        ({**TEXT, "pattern": "^(b|[A-Z]{3})$"}, deny("b")),
        ({**TEXT, "format": "date"}, deny("2026-01-01")),
        ({**TEXT, "not": {"maxLength": 3}}, deny("abcd")),
        ({**TEXT, "if": {"maxLength": 3}, "then": False}, deny("abcd")),
        ({"type": "array", "prefixItems": [TEXT], "items": {"const": "a"}, "minItems": 1}, deny("a")),
        (TEXT, allow({"prefix": "a", "glob": "*b"})),
        (TEXT, allow({"suffix": "b", "glob": "a*"})),
        (TEXT, allow({"below_path": "/a", "glob": "*.txt"})),
        (TEXT, allow({"glob": "a*", "not": {"glob": "?*"}})),
        (TEXT, allow({"glob": "[!a-z]"})),
    ],
)
def test_where_nothing_that_was_tried_passes_something_else_may(schema: Any, rule: Rule) -> None:
    decision = decide(schema, rule)
    assert (decision.is_visible, decision.witness) == (True, None)


def test_a_list_among_the_values_of_a_schema_is_one_value() -> None:
    assert decide({"enum": [["a"], ["b"], {"c": 1}]}, deny("a")).witness == {"x": ["b"]}


@pytest.mark.parametrize("place", ["$defs", "definitions"])
def test_what_a_schema_keeps_elsewhere_counts(place: str) -> None:
    schema, shared = {"$ref": f"#/{place}/short"}, {"short": texts(maxLength=1)}
    assert not decide(schema, allow({"prefix": "ab"}), **{place: shared}).is_visible
    assert decide(schema, allow({"prefix": "a"}), **{place: shared}).witness == {"x": "a"}


def test_a_schema_of_an_older_draft_is_read_as_that_draft_says() -> None:
    schema, root = {"$ref": "#/definitions/text", "maxLength": 1}, {"definitions": {"text": TEXT}}
    assert not decide(schema, allow({"prefix": "ab"}), **root).is_visible
    older = {
        **root,
        "$schema": "http://json-schema.org/draft-07/schema#",
    }  # nothing beside a reference counts
    assert decide(schema, allow({"prefix": "ab"}), **older).is_visible


def test_a_table_that_may_be_something_else_may_have_other_values() -> None:
    table = {"type": "object", "additionalProperties": {"enum": ["a"]}}
    rules = [Rule(deny=["run"], when={"x.k": demand}) for demand in ("a", {"exists": False})]
    assert not decide(table, *rules).is_visible
    assert decide(table, rules[0]).witness == {"x": {}}
    assert decide({"anyOf": [table, {"type": "object"}]}, *rules).is_visible


def test_an_object_of_which_nothing_is_known_has_a_name_or_not() -> None:
    rules = [Rule(deny=["run"], when={"x.k": {"exists": exists}}) for exists in (True, False)]
    assert not decide({"type": "object"}, *rules).is_visible
    assert decide({"type": "object"}, rules[0]).witness == {"x": {}}
