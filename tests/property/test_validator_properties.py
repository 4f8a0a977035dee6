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
def test_anything_that_is_surely_valid_is_valid_for_the_engine(schema: dict[str, Any], value: Any) -> None:
    is_surely_valid = build_fast_check(schema)
    assert is_surely_valid is not None
    if is_surely_valid(value):
        assert Validator(schema).is_valid(value)


def test_anything_that_is_not_json_is_left_to_the_engine() -> None:
    for kind, value in (("string", "\ud800"), ("number", float("nan")), ("number", float("inf"))):
        is_surely_valid = build_fast_check({"type": kind})
        assert is_surely_valid is not None
        assert not is_surely_valid(value)


def test_a_schema_that_says_more_has_no_shortcut() -> None:
    for more in ({"minimum": 1}, {"enum": [1]}, {"type": ["integer", "null"]}, {"$ref": "#/$defs/x"}):
        schema = {"type": "object", "properties": {"a": {"type": "integer", **more}}}
        assert build_fast_check(schema) is None
    assert build_fast_check({"type": "object", "additionalProperties": False}) is None
    assert build_fast_check({"type": "array"}) is None
