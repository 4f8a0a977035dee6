"""Descriptors: all forms, findings about wrong entries, and a round trip."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.system.source_folders import write
from toolcrib import MCPServer, Tool, collect, tool
from toolcrib.errors import SourceError
from toolcrib.sources.described import is_described
from toolcrib.sources.descriptors import is_descriptor, read_descriptors

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def save(folder: Path, value: Any, name: str = "tools.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(value, indent=2))
    return path


# --- forms --------------------------------------------------------------------------------------------

FORMS: dict[str, Any] = {
    "mcp": {"tools": [{"name": "forecast", "description": "Tell the weather", "inputSchema": SCHEMA}]},
    "mcp answer": {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {"tools": [{"name": "forecast", "description": "Tell the weather", "inputSchema": SCHEMA}]},
    },
    "list": [{"name": "forecast", "description": "Tell the weather", "input_schema": SCHEMA}],
    "openai chat": [
        {
            "type": "function",
            "function": {
                "name": "forecast",
                "description": "Tell the weather",
                "parameters": SCHEMA,
                "strict": True,
            },
        }
    ],
    "openai responses": {
        "tools": [
            {
                "type": "function",
                "name": "forecast",
                "description": "Tell the weather",
                "parameters": SCHEMA,
                "strict": False,
            }
        ]
    },
    "catalog": {
        "version": "0" * 12,
        "hash": "0" * 40,
        "count": 1,
        "promptList": "- forecast: Tell the weather",
        "functionSchema": [{"name": "forecast", "description": "Tell the weather", "parameters": SCHEMA}],
    },
    "table": {"tools": {"forecast": {"description": "Tell the weather", "schema": SCHEMA}}},
    "registry": {"id": "forecast", "description": "Tell the weather", "schema": SCHEMA},
    "server card": {
        "name": "weather",
        "description": "A server",
        "tools": [{"name": "forecast", "description": "Tell the weather", "inputSchema": SCHEMA}],
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_definition(form: str, tmp_path: Path) -> None:
    read = read_descriptors(save(tmp_path, FORMS[form]))
    assert read.findings == []
    (found,) = read.tools
    assert is_described(found)
    assert found.definition.to_wire() == {
        "name": "forecast",
        "description": "Tell the weather",
        "inputSchema": SCHEMA,
    }
    assert found.definition.metadata == {}


def test_a_registry_file_may_give_a_title_as_its_name(tmp_path: Path) -> None:
    entry = {
        "id": "get_forecast",
        "name": "Weather forecast",
        "category": "weather",
        "description": "Tell the weather",
        "schema": SCHEMA,
        "owner": "team-sky",
    }
    (found,) = read_descriptors(save(tmp_path, entry)).tools
    definition = found.definition
    assert (definition.name, definition.title) == ("get_forecast", "Weather forecast")
    assert definition.tags == ("weather",)
    assert definition.metadata == {"category": "weather", "owner": "team-sky"}


def test_an_id_beside_a_good_name_is_metadata(tmp_path: Path) -> None:
    entry = {"id": "7c1", "name": "forecast", "description": "Tell the weather", "schema": SCHEMA}
    (found,) = read_descriptors(save(tmp_path, entry)).tools
    assert found.name == "forecast"
    assert found.definition.metadata == {"id": "7c1"}


def test_everything_mcp_says_of_a_tool_is_kept(tmp_path: Path) -> None:
    entry = {
        "name": "erase",
        "title": "Erase",
        "description": "Erase a disk",
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object", "properties": {"ok": {"type": "boolean"}}},
        "annotations": {"destructiveHint": True, "title": "Really"},
        "icons": [{"src": "data:,"}],
        "_meta": {"example.org/a": 1},
        "version": 2,
        "tags": ["disk"],
        "group": "danger",
        "enabled": False,
        "aliases": ["wipe"],
    }
    (found,) = read_descriptors(save(tmp_path, entry)).tools
    wire = {key: value for key, value in entry.items() if key in found.definition.to_wire()}
    assert found.definition.to_wire() == wire
    assert len(wire) == 8
    assert (found.version, found.definition.tags) == ("2", ("disk",))
    assert (found.options.group, found.options.enabled) == ("danger", False)
    assert found.options.aliases == ["wipe"]


def test_a_tool_without_a_schema_takes_no_arguments(tmp_path: Path) -> None:
    (found,) = read_descriptors(save(tmp_path, [{"name": "now", "description": "Tell the time"}])).tools
    assert found.definition.input_schema == {"type": "object", "properties": {}}


# --- what is wrong ------------------------------------------------------------------------------------

WRONG: list[tuple[Any, str, str]] = [
    (5, "invalid-tool", "must be an object"),
    ({"description": "Nameless", "schema": SCHEMA}, "invalid-tool", "A tool has no name"),
    ({"name": 5, "schema": SCHEMA}, "invalid-tool", "must be string"),
    ({"name": "alone"}, "invalid-tool", "neither a description nor a schema"),
    ({"name": "two words", "schema": SCHEMA}, "invalid-name", "invalid"),
    ({"name": "bad", "description": ["no"], "schema": SCHEMA}, "invalid-tool", "must be a string"),
    ({"name": "bad", "schema": [1]}, "invalid-schema", "must be an object"),
    ({"name": "bad", "schema": {"type": "string"}}, "invalid-schema", "type='object'"),
    (
        {"name": "bad", "schema": {"type": "object", "properties": {"a": {"type": "strang"}}}},
        "invalid-schema",
        "",
    ),
    ({"name": "bad", "schema": "{}"}, "invalid-schema", "must be an object, got str"),
    ({"name": "bad", "schema": SCHEMA, "tags": "x"}, "invalid-tool", "list of strings"),
    ({"name": "bad", "schema": SCHEMA, "raises": [1]}, "invalid-tool", "'raises'"),
    ({"name": "bad", "schema": SCHEMA, "annotations": 1}, "invalid-schema", "'annotations'"),
    ({"name": "bad", "schema": SCHEMA, "enabled": "no"}, "invalid-tool", "'enabled'"),
    ({"name": "bad", "description": "hid\u200bden", "schema": SCHEMA}, "invalid-definition", "invisible"),
]


@pytest.mark.parametrize(("entry", "code", "words"), WRONG, ids=lambda value: str(value)[:40])
def test_a_wrong_entry_is_a_finding_with_its_line_and_hides_no_other(
    entry: Any, code: str, words: str, tmp_path: Path
) -> None:
    good = {"name": "good", "description": "Do good", "schema": SCHEMA}
    path = save(tmp_path, {"tools": [good, entry, {**good, "name": "better"}]})
    read = read_descriptors(path)
    assert [found.name for found in read.tools] == ["good", "better"]
    (finding,) = read.findings
    assert finding.code == code
    assert words in finding.message
    assert finding.file == str(path)
    if isinstance(entry, dict) and isinstance(entry.get("name"), str):
        line = path.read_text().splitlines()[(finding.line or 0) - 1]
        assert f'"name": "{entry["name"]}"' in line


def test_a_document_of_something_else_says_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="OpenAPI document, which is not supported yet"):
        collect(str(save(tmp_path, {"openapi": "3.1.0", "paths": {}}, "api.json")))
    with pytest.raises(SourceError, match="describes no tools") as refusal:
        collect(str(save(tmp_path, {"mcpServers": {}}, "config.json")))
    assert refusal.value.hint is not None
    with pytest.raises(SourceError, match="describes no tools"):
        read_descriptors(save(tmp_path, "text"))
    with pytest.raises(SourceError, match="is not a descriptor"):
        read_descriptors(save(tmp_path, {}, "tools.txt"))


@pytest.mark.parametrize(
    ("name", "data", "words", "line"),
    [
        ("a.json", b'{"tools": [\n{"name": }\n]}', "is not valid JSON", 2),
        ("a.json", b'{"tools": [], "tools": []}', "a key twice", None),
        ("a.json", b"[" * 100 + b"]" * 100, "nested", None),
        ("a.json", b'[\n"\xff"]', "is not UTF-8", 2),
        ("a.yaml", b"tools:\n  - a: [\n", "is not valid YAML", 3),
    ],
)
def test_a_file_that_cannot_be_read_says_why_and_where(
    name: str, data: bytes, words: str, line: int | None, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(SourceError) as refusal:
        read_descriptors(tmp_path / name)
    assert words in str(refusal.value)
    assert refusal.value.source.line == line


def test_anything_that_is_not_a_plain_file_of_some_size_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(SourceError, match="is not a file"):
        read_descriptors(tmp_path / "pipe.json")
    with open(tmp_path / "huge.yaml", "wb") as file:
        file.truncate(100 * 1024 * 1024)
    with pytest.raises(SourceError, match="is larger than 2 MiB"):
        read_descriptors(tmp_path / "huge.yaml")
    with pytest.raises(SourceError, match="cannot be read"):
        read_descriptors(tmp_path / "nowhere.json")


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(FORMS["list"]).encode())
    assert len(read_descriptors(tmp_path / "a.json").tools) == 1


# --- folders ------------------------------------------------------------------------------------------


def test_a_folder_of_descriptors_is_read_and_other_files_in_it_are_reported(tmp_path: Path) -> None:
    entry = '{"id": "%s", "description": "Tell the weather", "schema": {"type": "object"}}'
    write(
        tmp_path,
        {
            "b.json": entry % "second",
            "a/a.json": entry % "first",
            "package.json": '{"private": true}',
            "broken.json": "{",
            ".hidden/c.json": entry % "hidden",
            "node_modules/d.json": entry % "vendored",
        },
    )
    read = read_descriptors(tmp_path)
    assert [found.name for found in read.tools] == ["second", "first"]
    assert sorted((finding.code, finding.level) for finding in read.findings) == [
        ("nothing-described", "warning"),
        ("unreadable-source", "error"),
    ]
    assert len(read.files) == 4
    assert [found.name for found in collect(str(tmp_path)).tools] == ["second", "first"]


def test_a_folder_with_code_is_a_folder_of_code(tmp_path: Path) -> None:
    write(tmp_path, {"tools.json": json.dumps(FORMS["list"]), "code.py": "x = 1\n"})
    assert not is_descriptor(tmp_path)
    assert collect(str(tmp_path)).tools == []


def test_a_folder_without_any_descriptor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no descriptors"):
        read_descriptors(tmp_path)


# --- writing and calling ------------------------------------------------------------------------------


@tool(tags=["math"], group="sums", version="1.2", metadata={"owner": "me", "lock": object()}, read_only=True)
def add(a: int, b: int | None = None, kind: str = "yes") -> dict[str, int | None]:
    """Add two whole numbers.

    Example: add(1, 2)

    Args:
        a: The first

    Returns:
        The sum

    Raises:
        ValueError: where it is odd
    """
    return {"sum": a}


def test_a_list_of_mcp_is_read_back_the_same(tmp_path: Path) -> None:
    nullable = Tool.from_handler(
        lambda arguments: None,
        "pick",
        "Pick one\n\nof several: 'yes', no, 1e5",
        {"type": "object", "properties": {"x": {"enum": [None, "yes", 1.5, True], "default": None}}},
    )
    tools = [Tool.from_function(add), nullable]
    read = read_descriptors(save(tmp_path, {"tools": [tool.to_wire() for tool in tools]}))
    assert read.findings == []
    assert [tool.to_wire() for tool in read.tools] == [tool.to_wire() for tool in tools]
    assert all(tool.source.line is not None for tool in read.tools)


def test_names_that_are_not_found_in_the_text_do_not_make_reading_slow(tmp_path: Path) -> None:
    entries = [{"name": f"tool_{number}", "description": "Do something useful"} for number in range(1000)]
    path = save(tmp_path, entries)
    times, lines = [], []
    for text in (path.read_text(), path.read_text().replace("tool_", "to\\u006fl_")):
        path.write_text(text)
        started = time.process_time()
        tools = read_descriptors(path).tools
        times.append(time.process_time() - started)
        lines.append([tool.definition.source.line for tool in tools])
    assert (lines[0][1], lines[1]) == (7, [None] * 1000)
    assert times[1] < 5 * times[0]


async def test_a_call_of_a_described_tool_says_that_its_code_is_not_here(tmp_path: Path) -> None:
    server = MCPServer()
    server.add(str(save(tmp_path, FORMS["mcp"])))
    result = await server.call("forecast", {"city": "Rome"})
    assert result.is_error
    assert "only described here" in str(result.content)
