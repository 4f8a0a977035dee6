"""Tables of definitions, in every form people write them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from toolcrib.sources.tables import find_unused, is_definition, read_table

SCHEMA = {"type": "object", "properties": {}}


async def handle(arguments: dict[str, Any]) -> str:
    return "done"


@pytest.mark.parametrize("key", ["schema", "input_schema", "inputSchema", "parameters"])
def test_a_definition_is_known_by_its_name_and_schema(key: str) -> None:
    assert is_definition({"name": "x", key: SCHEMA})
    read = read_table({"name": "x", key: SCHEMA, "handler": handle}, {})
    assert read.entries[0].options["input_schema"] == SCHEMA
    assert "metadata" not in (read.entries[0].options["metadata"])


def test_anything_that_runs_by_itself_or_says_too_little_is_not_a_definition() -> None:
    tool = SimpleNamespace(name="x", description="d", input_schema=SCHEMA, execute=handle)
    for thing in (
        tool,
        type("C", (), {"name": "x", "input_schema": SCHEMA}),
        {"name": "x"},
        {"schema": {}},
        5,
    ):
        assert not is_definition(thing)
    assert is_definition(SimpleNamespace(name="x", inputSchema=SCHEMA))


def test_a_table_by_name_a_list_and_one_definition_say_the_same() -> None:
    facts = {"description": "Do it.", "schema": SCHEMA, "handler": handle}
    for table in (
        {"x": facts},
        [{"name": "x", **facts}],
        {"name": "x", **facts},
        iter([{"name": "x", **facts}]),
    ):
        read = read_table(table, {})
        assert [(entry.name, entry.handler) for entry in read.entries] == [("x", handle)]
        assert read.entries[0].options["description"] == "Do it."
        assert read.findings == []


@pytest.mark.requirement("T-10")
def test_options_are_options_and_the_rest_is_metadata() -> None:
    entry = {
        "name": "x",
        "schema": SCHEMA,
        "handler": handle,
        "version": 2,
        "tags": ["a"],
        "timeout_s": 5,
        "category": "basic",
        "author": "me",
        "metadata": {"team": "us", "author": "you"},
    }
    options = read_table(entry, {}).entries[0].options
    assert (options["version"], options["tags"], options["timeout_s"]) == ("2", ["a"], 5)
    assert options["metadata"] == {"category": "basic", "author": "you", "team": "us"}


def test_metadata_that_is_not_a_mapping_is_left_out() -> None:
    options = (
        read_table({"name": "x", "handler": handle, "schema": SCHEMA, "metadata": 5}, {}).entries[0].options
    )
    assert options["metadata"] == {}


def test_an_object_gives_its_facts_and_the_metadata_hung_on_it() -> None:
    definition = SimpleNamespace(
        name="x",
        title="X",
        description="Do it.",
        inputSchema=SCHEMA,
        outputSchema={"type": "object"},
        _metadata={"category": "basic", "version": "1.0", "author": "me"},
    )
    read = read_table(
        [definition, SimpleNamespace(name="y", input_schema=SCHEMA)], {"x": handle, "y": handle}
    )
    options = read.entries[0].options
    assert (options["title"], options["version"], options["output_schema"]) == (
        "X",
        "1.0",
        {"type": "object"},
    )
    assert options["metadata"] == {"category": "basic", "author": "me"}
    assert read.entries[1].options["metadata"] == {}


def test_a_handler_is_taken_from_the_entry_first() -> None:
    async def other(arguments: dict[str, Any]) -> str:
        return "other"

    read = read_table(
        {"x": {"schema": SCHEMA, "handler": handle}, "y": {"schema": SCHEMA}}, {"x": other, "y": other}
    )
    assert [entry.handler for entry in read.entries] == [handle, other]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"x": {"schema": SCHEMA}}, "Tool 'x' is defined but has no handler"),
        ({"x": {"schema": SCHEMA, "handler": "handle_x"}}, "Tool 'x' is defined but has no handler"),
        ({"x": handle}, "Entry 'x' of the table is not a definition"),
        (["x"], "A str in the table is not a definition"),
        ([{"schema": SCHEMA, "handler": handle}], "Tool name must be string, got <class 'NoneType'>"),
        ([{"name": ["x"], "schema": SCHEMA}], "Tool name must be string, got <class 'list'>"),
        ("TOOLS", "A table of tools cannot be a str"),
        (5, "A table of tools cannot be a int"),
    ],
)
def test_anything_that_is_wrong_in_a_table_is_a_finding_and_hides_no_other(table: Any, message: str) -> None:
    read = read_table(table, {})
    assert read.entries == []
    (finding,) = read.findings
    assert finding.message.startswith(message)
    assert (finding.code, finding.level) == ("table-mismatch", "error")
    assert finding.hint
    if isinstance(table, dict):
        assert len(read_table({**table, "good": {"schema": SCHEMA, "handler": handle}}, {}).entries) == 1


def test_a_handler_that_no_definition_uses_is_told() -> None:
    (finding,) = find_unused({"x": handle, "y": handle}, {"x"})
    assert (finding.tool, finding.level) == ("y", "error")
    assert finding.message == "Handler 'y' has no definition: it cannot be listed"
