"""The shortcut and the engine say the same of every schema and every value."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.validation.validator import Validator, build_fast_check

KINDS = st.sampled_from(["string", "integer", "number", "boolean"])
SCALARS = st.fixed_dictionaries({"type": KINDS}, optional={"description": st.just("words")})
NAMES = st.sampled_from("abc")
OBJECTS = st.builds(
    lambda properties, required: {"type": "object", "properties": properties, "required": required},
    st.dictionaries(NAMES, SCALARS, max_size=3),
    st.lists(NAMES, unique=True, max_size=2),
)
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([5.0, 1e20, -0.0, "", "é", "text"])
)
VALUES = PLAIN | st.dictionaries(NAMES, PLAIN | st.lists(PLAIN, max_size=1), max_size=3)


@given(schema=OBJECTS | SCALARS, value=VALUES)
def test_both_say_the_same(schema: dict[str, Any], value: Any) -> None:
    assert Validator(schema, trusted=True).is_valid(value) == Validator(schema).is_valid(value)


@given(schema=OBJECTS | SCALARS, value=VALUES)
def test_where_the_shortcut_does_not_ask_the_engine_would_say_yes(schema: dict[str, Any], value: Any) -> None:
    asked: list[Any] = []
    shortcut = build_fast_check(schema, lambda item: bool(asked.append(item)))
    assert shortcut is not None
    if shortcut(value):
        assert not asked
        assert Validator(schema).is_valid(value)


def test_what_is_not_json_is_left_to_the_engine() -> None:
    for kind, value in (("string", "\ud800"), ("number", float("nan")), ("number", float("inf"))):
        asked: list[Any] = []
        shortcut = build_fast_check({"type": kind}, lambda item, asked=asked: bool(asked.append(item)))  # type: ignore[misc]
        assert shortcut is not None
        assert not shortcut(value)
        assert len(asked) == 1


def test_a_schema_that_says_more_has_no_shortcut() -> None:
    for more in ({"minimum": 1}, {"enum": [1]}, {"type": ["integer", "null"]}, {"$ref": "#/$defs/x"}):
        schema = {"type": "object", "properties": {"a": {"type": "integer", **more}}}
        assert build_fast_check(schema, bool) is None
    assert build_fast_check({"type": "object", "additionalProperties": False}, bool) is None
    assert build_fast_check({"type": "array"}, bool) is None
