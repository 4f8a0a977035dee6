"""A descriptor, written in any format from any tools, describes the same tools."""

from __future__ import annotations

import json
import keyword
import string
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.definition import ToolDefinition
from toolcrib.errors import DefinitionError
from toolcrib.sources.described import describe
from toolcrib.sources.descriptors import Descriptors, add_document
from toolcrib.validation.formats import decode_text

texts = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf", "Co", "Cn", "Zl", "Zp")), max_size=30)
words = st.one_of(
    texts, st.sampled_from(["yes", "1e5", "null", "a: b", "- x", "a\nb", " a\n b\n", "'", '"', "<<"])
)
numbers = st.one_of(st.integers(-(10**20), 10**20), st.floats(allow_nan=False, allow_infinity=False))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=8,
)
names = st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=20)
property_names = st.text(string.ascii_letters + "$. ", min_size=1, max_size=8).filter(
    lambda name: not keyword.iskeyword(name)
)
properties = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"]),
        "description": words,
        "default": values,
        "enum": st.lists(values, min_size=1, max_size=3),
    },
)


@st.composite
def definitions(draw: st.DrawFn) -> ToolDefinition:
    return ToolDefinition(
        name=draw(names),
        description=draw(words),
        input_schema={
            "type": "object",
            "properties": draw(st.dictionaries(property_names, properties, max_size=3)),
        },
        output_schema=draw(st.none() | st.just({"type": "object", "properties": {"x": {"enum": [None, 1]}}})),
        title=draw(st.none() | words),
        annotations=draw(st.dictionaries(st.sampled_from(["readOnlyHint", "idempotentHint"]), st.booleans())),
        tags=tuple(draw(st.lists(names, max_size=2, unique=True))),
        version=draw(st.none() | st.text(string.digits + ".", min_size=1, max_size=5)),
        metadata=draw(st.dictionaries(names, values, max_size=2)),
        returns=draw(words),
        raises=tuple(draw(st.lists(st.tuples(names, words), max_size=2))),
        meta=draw(st.dictionaries(words, values, max_size=2)),
    )


def is_sound(definition: ToolDefinition) -> bool:
    try:
        describe(definition).check()
    except DefinitionError:
        return False
    return True


@given(st.lists(definitions().filter(is_sound), max_size=3))
@settings(max_examples=30)
def test_a_list_of_mcp_is_read_back_the_same(given_definitions: list[ToolDefinition]) -> None:
    tools = [definition.to_wire() for definition in given_definitions]
    read = Descriptors()
    add_document(json.dumps({"tools": tools}), Path("out.json"), read)
    assert read.findings == []
    assert [tool.to_wire() for tool in read.tools] == tools


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode), st.sampled_from(["json", "yaml"]))
def test_no_bytes_make_reading_fail_but_by_a_refusal_in_words(data: bytes, form: str) -> None:
    refusal = ""
    try:
        path = Path(f"in.{form}")
        add_document(decode_text(data, path), path, Descriptors())
    except DefinitionError as error:
        refusal = str(error)
    assert not refusal or refusal.startswith(f"in.{form} ")
