"""Exports of any schema: none fails, none rejects valid arguments, and one without notes is equivalent.

A value that fits the tool's schema goes forward and must fit the exported one. Without notes, a value that
fits the exported schema goes back through the export and must fit the tool's.
"""

from __future__ import annotations

from typing import Any

import jsonschema_rs
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from tests.support.definitions.exported_schemas import forward, is_strict_tool, opened, schema_of
from tests.support.definitions.random_schemas import Dice
from toolcrib import Tool
from toolcrib.catalog.export import EXPORTERS, Export, export
from toolcrib.errors import DefinitionError

FORMS_TO_TRY = [("openai", True), ("openai", False), ("anthropic", False), ("gemini", False)]
FORMS_TO_TRY += [("bedrock", False)]
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def make(schema: dict[str, Any]) -> Tool:
    tool = Tool.from_handler(lambda arguments: None, "any", "Any schema at all.", schema)
    try:
        tool.check()
    except DefinitionError:
        assume(False)
    return tool


@given(st.integers(0, 2**32))
def test_exports_accept_what_the_tool_accepts_and_without_notes_nothing_else(seed: int) -> None:
    dice = Dice(seed)
    tool = make(dice.root())
    values = dice.values(60)
    for to, strict in FORMS_TO_TRY:
        found = export([tool], to, strict=strict)
        notes = [note for note in found.notes.get("any", ()) if not note.startswith("not strict")]
        event(f"{to}: {'skipped' if found.skipped else 'noted' if notes else 'equal'}")
        if found.skipped:
            continue
        if not any("contains itself" in note for note in notes):
            lost = find_lost(found, tool, values)
            assert lost is None, (to, strict, tool.definition.input_schema, lost)
        if not notes:
            won = find_won(found, tool, values)
            assert won is None, (to, strict, tool.definition.input_schema, won)


def find_lost(found: Export, tool: Tool, values: list[dict[str, Any]]) -> Any:
    """Arguments that the tool takes and that no model could send."""
    fits = compiled(dict(tool.definition.input_schema))
    schema = schema_of(found.to, found.tools[0])
    takes = compiled(opened(schema) if is_strict_tool(found.tools[0]) else schema)
    for value in values:
        if fits(value) and not any(map(takes, forward(found, value))):
            return value, forward(found, value), schema
    return None


def find_won(found: Export, tool: Tool, values: list[dict[str, Any]]) -> Any:
    """What a model could send and the tool does not take."""
    fits = compiled(dict(tool.definition.input_schema))
    schema = schema_of(found.to, found.tools[0])
    takes = compiled(schema)
    for value in values:
        for sent in (value, {"arguments": value}, *forward(found, value)):
            if found.to != "openai" and "ü" in str(sent):
                continue  # a name that such a provider could not write
            if takes(sent):
                (call,) = found.read_call({"tool_call": {"name": "any", "args": sent}})
                if not fits(call.arguments):
                    return sent, call.arguments, schema
    return None


def compiled(schema: dict[str, Any]) -> Any:
    return jsonschema_rs.validator_for(schema, validate_formats=True).is_valid


TEXTS = st.text(st.characters(categories=("L", "N", "P", "S")), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def odd_schemas(draw: st.DrawFn) -> dict[str, Any]:
    """A schema at random, with odd names, odd values and odd words somewhere in it."""
    schema = Dice(draw(st.integers(0, 2**32))).root()
    odd: dict[str, Any] = {
        "description": draw(TEXTS),
        "title": draw(TEXTS),
        "default": draw(JSON),
        "examples": draw(st.lists(JSON, max_size=2)),
        "x-odd": draw(JSON),
    }
    if draw(st.booleans()):
        odd["enum"] = draw(st.lists(JSON, min_size=1, max_size=3))
    return {**schema, "properties": {**schema.get("properties", {}), draw(TEXTS): odd}}


@settings(max_examples=50)
@given(odd_schemas())
def test_no_schema_makes_an_export_fail(schema: dict[str, Any]) -> None:
    tool = make(schema)
    for to in EXPORTERS:
        found = export([tool], to)
        assert [*found.names, *found.skipped] == ["any"]
        assert all(found.skipped.values())
        if EXPORTERS[to].maps_names and found.tools:
            written = schema_of(to, found.tools[0])
            jsonschema_rs.meta.validate({**written, "$schema": DIALECT})
            assert written["type"] == "object"
