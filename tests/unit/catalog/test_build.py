"""The catalog of tools that are there, of descriptors, and of substitutes for an adapter."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from tests.support.definitions.document_z import Memory
from toolcrib import Application, MCPServer, Tool, ToolRegistry, build_catalog, get_catalog_cached, tool
from toolcrib.catalog.build import (
    ANY_TYPE,
    DEFAULT_CACHE,
    catalog_findings,
    find_examples,
    function_schema,
    prompt_lines,
)
from toolcrib.errors import ConfigurationError, InvalidToolError, SourceError
from toolcrib.validation import codec
from toolcrib.validation.validator import check_schema

ENTRY = {"name": "forecast", "description": "Tell the weather.\nMore.", "inputSchema": {"type": "object"}}


def greet(name: str, loud=False, *, times: int = 1, mood: Any = None) -> str:  # type: ignore[no-untyped-def]
    """Greet somebody.

    More words.

    Args:
        name: Whom to greet
        loud: Whether to shout

    Ejemplo: greet("Ana")
    Example: greet("Bob",
        loud=True)
    """
    return name


@dataclass
class Node:
    """A node."""

    value: int
    next: Node | None = None


# --- words --------------------------------------------------------------------------------------------


@pytest.mark.requirement("C-05", "C-14")
def test_a_prompt_has_the_first_line_of_the_docstring_and_every_example() -> None:
    assert prompt_lines(Tool.from_function(greet)) == (
        '- greet: Greet somebody.\n  e.g. greet("Ana")\n  e.g. greet("Bob",\n       loud=True)'
    )


def test_a_description_that_is_given_wins_and_the_docstring_still_has_examples() -> None:
    said = Tool.from_function(greet, description="Say hello\nin words.\nExample: hello")
    assert prompt_lines(said).splitlines()[:3] == [
        "- greet: Say hello",
        "  e.g. hello",
        '  e.g. greet("Ana")',
    ]


@pytest.mark.parametrize(
    ("docstring", "line"),
    [
        ("\n\n  Do it now.\n  More.\n", "Do it now."),
        ("Args:\n    x: A thing\n", ""),
        ("Args:\n    x: A thing\n\nDo it.", "Do it"),
        (None, ""),
    ],
)
def test_the_first_line_is_the_first_with_text(docstring: str | None, line: str) -> None:
    def act(x: int) -> None: ...

    act.__doc__ = docstring
    assert prompt_lines(Tool.from_function(act)) == f"- act: {line}".rstrip()
    assert function_schema(Tool.from_function(act))["description"] == line


def test_objects_handlers_and_methods_have_descriptions_too() -> None:
    class Shop(Application):
        @tool
        def order(self) -> str:
            """Order a thing.

            Example: order()
            """
            return ""

    registry = ToolRegistry()
    registry.add(Memory("remember"))
    registry.add(
        Tool.from_handler(lambda arguments: None, "raw", "Do raw.\nExample: raw", {"type": "object"})
    )
    server = MCPServer()
    server.add(Shop("shop"))
    assert build_catalog(registry)["promptList"].splitlines()[1:] == ["- raw: Do raw.", "  e.g. raw"]
    assert build_catalog(server)["promptList"] == "- order: Order a thing.\n  e.g. order()"


# --- schemas ------------------------------------------------------------------------------------------


@pytest.mark.requirement("C-09", "X-17")
def test_only_parameters_without_a_type_accept_any() -> None:
    parameters = function_schema(Tool.from_function(greet))["parameters"]
    assert parameters == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Whom to greet"},
            "loud": {"type": list(ANY_TYPE), "description": "Whether to shout", "default": False},
            "times": {"type": "integer", "default": 1},
            "mood": {"type": list(ANY_TYPE)},
        },
        "required": ["name"],
    }


def test_complex_types_are_kept_with_their_definitions() -> None:
    def shape(
        kind: Literal["a", 1],
        size: Annotated[int, Field(gt=0)],
        first: Node,
        second: Node,
        choice: int | str,
    ) -> None:
        """Shape it."""

    parameters = function_schema(Tool.from_function(shape))["parameters"]
    properties = parameters["properties"]
    assert properties["kind"] == {"enum": ["a", 1]}
    assert properties["size"] == {"type": "integer", "exclusiveMinimum": 0}
    assert properties["choice"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert properties["first"] == {"$ref": "#/$defs/Node"}
    assert "Node" in parameters["$defs"]
    check_schema(parameters)


def test_an_explicit_schema_is_completed_and_kept() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {}, "b": True, "c": False, "d": {"const": 1}},
        "additionalProperties": False,
    }
    parameters = function_schema(Tool.from_handler(lambda arguments: None, "raw", "Do raw", schema))[
        "parameters"
    ]
    assert parameters["properties"] == {
        "a": {"type": list(ANY_TYPE)},
        "b": {"type": list(ANY_TYPE)},
        "c": False,
        "d": {"const": 1},
    }
    assert parameters["required"] == []
    assert parameters["additionalProperties"] is False


# --- registries ---------------------------------------------------------------------------------------


def test_a_live_catalog_is_hashed_over_its_canonical_definitions() -> None:
    registry = ToolRegistry()
    kept = registry.add(greet)
    catalog = build_catalog(registry)
    assert list(catalog) == ["version", "hash", "count", "promptList", "functionSchema"]
    expected = hashlib.sha1(codec.canonical([kept.definition.to_wire()])).hexdigest()
    assert (catalog["hash"], catalog["version"], catalog["count"]) == (expected, expected[:12], 1)
    assert build_catalog([kept]) == catalog
    registry.disable("greet")
    assert build_catalog(registry)["count"] == 0


def test_invalid_tools_are_left_out_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(x: Missing) -> None:  # type: ignore[name-defined]  # noqa: F821
        """Break."""

    registry = ToolRegistry()
    registry.add(broken)
    registry.add(greet)
    with caplog.at_level(logging.WARNING, "toolcrib"):
        catalog = build_catalog(registry)
    assert [entry["name"] for entry in catalog["functionSchema"]] == ["greet"]
    assert "broken" in caplog.text
    assert [finding.tool for finding in catalog_findings(registry) if finding.level == "error"] == ["broken"]


@pytest.mark.requirement("C-11", "X-38")
def test_an_invalid_schema_is_left_out_and_a_large_one_is_not() -> None:
    def look(x: Annotated[str, Field(pattern="(?=a)b")]) -> None:
        """Look around."""

    def pick(x: Literal[tuple(f"word {n}" for n in range(11_000))]) -> None:  # type: ignore[valid-type]
        """Pick one of many."""

    registry = ToolRegistry()
    registry.add(look)
    registry.add(pick)
    assert [entry["name"] for entry in build_catalog(registry)["functionSchema"]] == ["pick"]
    (finding,) = catalog_findings(registry)
    assert (finding.code, finding.tool) == ("invalid-signature", "look")
    assert finding.file == __file__


def test_only_the_first_warnings_are_logged(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps([{"name": f"bad {n}", "description": "Bad"} for n in range(50)]))
    with caplog.at_level(logging.WARNING, "toolcrib"):
        assert build_catalog(path)["count"] == 0
    assert len(caplog.records) == 21
    assert "30 more; see catalog_findings()" in caplog.text
    assert len(catalog_findings(path)) == 50


def test_anything_that_is_returned_belongs_to_the_caller() -> None:
    registry = ToolRegistry()
    registry.add(greet)
    first = build_catalog(registry)
    first["functionSchema"][0]["parameters"]["properties"].clear()
    assert build_catalog(registry)["functionSchema"][0]["parameters"]["properties"]


def test_files_and_tools_are_not_mixed(tmp_path: Path) -> None:
    with pytest.raises(InvalidToolError, match="files or tools, not both"):
        build_catalog([Tool.from_function(greet), str(tmp_path)])


# --- descriptors --------------------------------------------------------------------------------------


def test_a_descriptor_is_an_adapter_too_and_is_hashed_as_the_file_it_is(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps([ENTRY, ENTRY, {**ENTRY, "name": "FORECAST"}]))
    catalog = build_catalog(path)
    assert catalog["hash"] == hashlib.sha1(path.read_bytes()).hexdigest()
    assert (catalog["count"], catalog["promptList"]) == (1, "- forecast: Tell the weather.")
    codes = [finding.code for finding in catalog_findings(path)]
    assert codes == ["duplicate-name", "duplicate-name"]


def test_a_catalog_is_a_descriptor_of_itself(tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text(json.dumps([ENTRY]))
    catalog = build_catalog(tmp_path / "tools.json")
    (tmp_path / "again.json").write_text(json.dumps(catalog))
    again = build_catalog(tmp_path / "again.json")
    assert {**again, "hash": 0, "version": 0} == {**catalog, "hash": 0, "version": 0}


@pytest.mark.requirement("C-21", "G-16")
@pytest.mark.parametrize("name", ["mcp_adapter.tools.json", "elsewhere.json"])
def test_a_descriptor_is_used_instead_of_a_missing_adapter(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    descriptor = tmp_path / name
    descriptor.write_text(json.dumps([ENTRY]))
    given = None if name.startswith("mcp") else descriptor
    with caplog.at_level(logging.WARNING, "toolcrib"):
        catalog = build_catalog(tmp_path / "mcp_adapter.py", descriptor=given)
    assert catalog["count"] == 1
    assert catalog["hash"] == hashlib.sha1(descriptor.read_bytes()).hexdigest()
    assert f"{descriptor} is used instead" in caplog.text


def test_a_missing_adapter_is_an_error_with_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError, match=r"bridges/mcp_adapter\.py") as refusal:
        build_catalog()
    assert "mcp_adapter.tools.json" in str(refusal.value.hint)
    for nowhere in ("no.such.module", "nothing.py:x", "folder/", Path("x")):
        with pytest.raises(SourceError):
            build_catalog(nowhere)


def test_settings_name_the_sources_and_choose_among_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    entries = [ENTRY, {**ENTRY, "name": "secret"}, {**ENTRY, "name": "sum", "group": "math"}]
    (tmp_path / "tools.json").write_text(json.dumps(entries))
    (tmp_path / "toolcrib.toml").write_text(
        '[server]\ntargets = ["tools.json"]\nnamespace = "sky"\n[tools]\nexclude = ["secret"]\n'
        "enable_math_tools = false\n"
    )
    catalog = build_catalog()
    assert [entry["name"] for entry in catalog["functionSchema"]] == ["sky_forecast"]
    assert build_catalog("toolcrib.toml") == catalog
    monkeypatch.setenv("TOOLCRIB_ENABLE_MATH_TOOLS", "1")
    assert [entry["name"] for entry in build_catalog()["functionSchema"]] == ["sky_forecast", "sky_sum"]
    with pytest.raises(ConfigurationError, match="cannot be combined"):
        build_catalog(["toolcrib.toml", "tools.json"])


@pytest.mark.requirement("X-39")
def test_several_files_are_hashed_by_their_names_and_hashes(tmp_path: Path) -> None:
    paths = [tmp_path / "b" / "two.json", tmp_path / "a.json"]
    paths[0].parent.mkdir()
    for number, path in enumerate(paths):
        path.write_text(json.dumps([{**ENTRY, "name": f"forecast_{number}"}]))
    catalog = build_catalog(paths)
    one, two = (hashlib.sha1(path.read_bytes()).hexdigest() for path in paths)
    assert catalog["hash"] == hashlib.sha1(f"a.json {two}\nb/two.json {one}\n".encode()).hexdigest()
    assert build_catalog(list(reversed(paths)))["hash"] == catalog["hash"]
    assert build_catalog(tmp_path)["hash"] == catalog["hash"]


def test_one_missing_target_of_several_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.json").write_text(json.dumps([ENTRY]))
    (tmp_path / "toolcrib.toml").write_text('[server]\ntargets = ["tools.json", "gone.py"]\n')
    assert build_catalog()["count"] == 1
    assert "gone.py" in catalog_findings()[0].message
    (tmp_path / "toolcrib.toml").write_text('[server]\ntargets = ["gone.py"]\n')
    with pytest.raises(SourceError, match=r"gone\.py"):
        build_catalog()
    (tmp_path / "empty.toml").write_text("[server]\n")
    with pytest.raises(ConfigurationError, match="must not be empty"):
        build_catalog("empty.toml")


def test_a_module_and_a_part_of_a_file_are_adapters_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "crib_shop"
    package.mkdir()
    (package / "__init__.py").write_text("")
    each = "@tool\ndef {0}():\n    '''Do {0}.'''\n"
    source = f"from toolcrib import tool\n{each.format('one')}{each.format('two')}"
    (package / "api.py").write_text(source)
    digest = hashlib.sha1(source.encode()).hexdigest()
    assert (build_catalog("crib_shop.api")["hash"], build_catalog("crib_shop.api")["count"]) == (digest, 2)
    assert build_catalog("crib_shop")["count"] == 2
    part = build_catalog("crib_shop/api.py:two")
    assert (part["hash"], part["promptList"]) == (digest, "- two: Do two.")


def test_a_schema_of_draft_4_that_requires_nothing_is_in_the_catalog() -> None:
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object", "properties": {}}
    tool = Tool.from_handler(lambda arguments: 1, "old", "Of an older draft.", schema)
    (entry,) = build_catalog([tool])["functionSchema"]
    assert "required" not in entry["parameters"]


@pytest.mark.requirement("X-32")
@pytest.mark.parametrize(
    ("text", "examples"),
    [
        ('Greet.\n\n    Ejemplo: greet("Ana")\n    ', ['greet("Ana")']),
        ("Example: a\nEjemplo: b\nexample: c", ["a", "b", "c"]),
        ('Greet.\n\n    Example: greet("Ana",\n        loud=True)\n    More.', ['greet("Ana",\nloud=True)']),
        ("X.\n\nExample:\n    a = 1\n    b(a)\n\n    c()\nEnd.", ["a = 1\nb(a)\n\nc()"]),
        ("X.\n\nExample::\n\n    code()\n", ["code()"]),
        ("X.\n\nArgs:\n    a: One.\n\n        Example: 5\n", ["5"]),
        (
            "X.\n\nExamples:\n    add(1)\n    add(\n        2,\n    )\n    add(3)\n",
            ["add(1)", "add(\n    2,\n)", "add(3)"],
        ),
        ("X.\n\nEjemplos: a\n    b\n", ["a", "b"]),
        ("X.\n\nExamples:\n    - add(1)\n      goes on\n    - add(2)\n", ["add(1)\ngoes on", "add(2)"]),
        ("X.\n\nExamples:\n    1. add(1)\n    2. add(2)\n", ["add(1)", "add(2)"]),
        (
            "X.\n\nExamples:\n    First:\n    add(1)\n\n    Then:\n    add(2)\n",
            ["First:\nadd(1)", "Then:\nadd(2)"],
        ),
        (
            "X.\n\nExamples\n--------\n>>> add(1)\n1\n>>> x = 2\n>>> add(x)\n2\n\nNotes\n-----\nNone",
            [">>> add(1)\n1", ">>> x = 2\n>>> add(x)\n2"],
        ),
        ("X.\n\nExamples:\n    ```\n    a\n\n    b\n    ```\n", ["```\na\n\nb\n```"]),
        ("X.\n\nExamples:\n    ```\n    a\n    b\n    ```\n", ["```\na\nb\n```"]),
        ("For example: this is none\nExampled: nor this\nExample nor this\nExample:\n", []),
        ("Example:::\nExamples", []),
        ("", []),
    ],
)
def test_examples_are_found_and_split(text: str, examples: list[str]) -> None:
    assert find_examples(text) == examples


def test_no_text_has_no_examples() -> None:
    assert find_examples(None) == []


SOURCE = "from toolcrib import tool\n\n@tool\ndef add(a: int): 'Add.'\n"


@pytest.mark.parametrize("adapter", [[], (), set(), iter(())])
def test_an_empty_adapter_is_refused(adapter: object) -> None:
    with pytest.raises(SourceError, match="is empty"):
        build_catalog(adapter)


def test_no_cache_is_the_usual_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.py").write_text(SOURCE)
    assert get_catalog_cached("m.py", None)["count"] == 1
    assert Path(DEFAULT_CACHE).is_file()


def test_a_descriptor_does_not_hide_that_the_adapter_is_broken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "m.tools.json").write_text('[{"name": "add", "description": "Add."}]')
    assert build_catalog(tmp_path / "m.py")["count"] == 1
    (tmp_path / "m.py").write_text("def (")
    with caplog.at_level(logging.WARNING, "toolcrib"):
        caplog.clear()
        assert build_catalog(tmp_path / "m.py")["count"] == 0
    assert "m.py" in caplog.text
