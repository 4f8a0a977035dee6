"""Names, options and definitions: the rules they keep."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolcrib import Tool, ToolDefinition, ToolOptions, validate_tool_definition, validate_tool_schema
from toolcrib.definition import check_input_schema, publish_docs
from toolcrib.errors import DefinitionError, InvalidNameError, InvalidSchemaError, InvalidToolError
from toolcrib.names import MCP, NAME_RULES, PORTABLE, STRICT, shorten_name
from toolcrib.options import NO_OPTIONS

OBJECT: dict[str, Any] = {"type": "object", "properties": {}}


class TestNameRules:
    @pytest.mark.parametrize(
        ("name", "hint"),
        [
            (
                "größe",
                "'ö' (LATIN SMALL LETTER O WITH DIAERESIS) is not permitted in a name; name it 'groesse'",
            ),
            (
                "créer_café",
                "'é' (LATIN SMALL LETTER E WITH ACUTE) is not permitted in a name; name it 'creer_cafe'",
            ),
            ("\u0430dd", "'\u0430' (CYRILLIC SMALL LETTER A) is not permitted in a name; name it 'dd'"),
            (
                "天気",
                "'天' (CJK UNIFIED IDEOGRAPH-5929) is not permitted in a name; give it another: name=...",
            ),
            ("bad name!", "' ' (SPACE) is not permitted in a name; name it 'bad_name'"),
        ],
    )
    def test_a_name_that_is_not_permitted_is_shown_as_it_is_with_one_that_is(
        self, name: str, hint: str
    ) -> None:
        with pytest.raises(InvalidNameError) as refused:
            PORTABLE.check(name)
        assert str(refused.value).startswith(f"Tool name '{name}' invalid (must contain only letters")
        assert refused.value.hint == hint

    @pytest.mark.parametrize("name", ["a", "add_memory", "a" * 50])
    def test_strict_takes_lower_case_words(self, name: str) -> None:
        assert STRICT.check(name) == name

    @pytest.mark.requirement("A-16")
    @pytest.mark.parametrize(
        "name", ["Add-Memory", "add_memory!", "addMemory", "add memory", "123_add", "add\n"]
    )
    def test_strict_refuses_anything_else(self, name: str) -> None:
        with pytest.raises(InvalidNameError, match=r"invalid \(must be lowercase"):
            STRICT.check(name)

    @pytest.mark.requirement("X-12")
    @pytest.mark.parametrize(
        ("rule", "longest"), [(STRICT, 50), (PORTABLE, 64), (MCP, 128)], ids=lambda value: str(value)[:12]
    )
    def test_length_is_looked_at_first(self, rule: Any, longest: int) -> None:
        for name in ("", "!" * (longest + 1)):
            with pytest.raises(InvalidNameError, match=f"length must be 1-{longest} chars, got {len(name)}"):
                rule.check(name)

    def test_each_rule_has_its_characters(self) -> None:
        assert PORTABLE.check("Add-Memory_2") == "Add-Memory_2"
        assert MCP.check("math.add") == "math.add"
        with pytest.raises(InvalidNameError):
            PORTABLE.check("math.add")
        assert NAME_RULES.keys() == {"strict", "portable", "mcp"}

    def test_a_name_that_is_not_text_is_both_kinds_of_error(self) -> None:
        with pytest.raises(TypeError, match="Tool name must be string, got <class 'int'>"):
            PORTABLE.check(123)
        with pytest.raises(ValueError, match="must be string"):
            PORTABLE.check(None)

    def test_anything_that_a_terminal_would_obey_is_shown_escaped(self) -> None:
        with pytest.raises(InvalidNameError, match=re.escape(r"'\x1b[31m'")):
            PORTABLE.check("\x1b[31m")


class TestShortening:
    def test_leaves_what_fits(self) -> None:
        assert shorten_name("a" * 64, 64) == "a" * 64

    def test_keeps_both_ends_and_stays_unique(self) -> None:
        one, two = (shorten_name(f"begin{'x' * 80}{end}", 64) for end in ("end1", "end2"))
        assert len(one) == len(two) == 64
        assert (one[:5], one[-4:]) == ("begin", "end1")
        assert shorten_name("a" * 100 + "b", 64) != shorten_name("a" * 101 + "b", 64)
        assert PORTABLE.check(one)


class TestOptions:
    @pytest.mark.parametrize(
        ("option", "value", "words"),
        [
            ("tags", "search", "must be a list of strings"),
            ("tags", [1], "must be a list of strings"),
            ("tags", None, "must be a list of strings"),
            ("aliases", 5, "must be a list of strings"),
            ("scopes", [None], "must be a list of strings"),
            ("version", 2, "must be a string"),
            ("version", "", "must not be empty"),
            ("version", "1@2", "or contain '@'"),
            ("title", 5, "must be a string"),
            ("description", b"x", "must be a string"),
            ("group", 5, "must be a string"),
            ("input_schema", "{}", "must be a dict"),
            ("output_schema", [], "must be a dict"),
            ("metadata", None, "must be a dict"),
            ("read_only", "yes", "must be True or False"),
            ("enabled", None, "must be True or False"),
            ("repair", 1, "must be True or False"),
            ("run", "fork", "must be 'auto', 'inline', 'thread' or 'process'"),
            ("extra", "allow", "must be 'refuse' or 'ignore'"),
            ("timeout_s", 0, "must be above 0"),
            ("timeout_s", 3601, "at most 3600 seconds"),
            ("timeout_s", "5", "must be a number"),
            ("timeout_s", float("nan"), "must be above 0"),
            ("max_threads", 0, "must be at least 1"),
            ("timeout_s", True, "must be a number"),
            ("max_threads", "many", "must be a whole number"),
            ("max_threads", 1.5, "must be a whole number"),
            ("icons", "a.png", "must be a list of dicts with 'src'"),
            ("icons", [3], "must be a list of dicts with 'src'"),
            ("icons", [{"src": "a.png", "sizes": object()}], "must be JSON data"),
            ("meta", {"home": Path("x")}, "must be JSON data"),
            ("meta", {"mark": "\ud800"}, "must be JSON data"),
        ],
    )
    def test_a_slip_is_named_where_it_is_made(self, option: str, value: Any, words: str) -> None:
        with pytest.raises(InvalidToolError, match=f"Option '{option}' .*{re.escape(words)}") as caught:
            ToolOptions(name="mine", **{option: value})
        assert caught.value.tool == "mine"

    def test_a_name_that_is_none_is_left_to_the_rules(self) -> None:
        with pytest.raises(InvalidToolError) as caught:
            ToolOptions(name=5, run="fork")  # type: ignore[arg-type]
        assert caught.value.tool is None

    def test_a_reader_does_not_destroy(self) -> None:
        with pytest.raises(InvalidToolError, match="both read_only and destructive"):
            ToolOptions(read_only=True, destructive=True)

    def test_anything_that_is_laid_over_wins_and_collections_add_up(self) -> None:
        below = ToolOptions(name="a", tags=["one"], metadata={"x": 1, "y": 1})
        above = below.override({"name": "b", "tags": ["two", "one"], "metadata": {"y": 2}})
        assert (above.name, above.tags, above.metadata) == ("b", ("one", "two"), {"x": 1, "y": 2})
        assert below.name == "a"

    def test_nothing_laid_over_changes_nothing(self) -> None:
        assert NO_OPTIONS.override({}) is NO_OPTIONS
        assert NO_OPTIONS.override({"tags": ["a"], "metadata": {"b": 1}}).tags == ["a"]

    def test_an_unknown_option_is_named(self) -> None:
        with pytest.raises(InvalidToolError, match="Unknown tool option: colour, size"):
            NO_OPTIONS.override({"size": 1, "colour": 2})  # type: ignore[typeddict-unknown-key]

    def test_hints_are_spelled_as_mcp_does_and_only_if_given(self) -> None:
        assert NO_OPTIONS.annotations == {}
        options = ToolOptions(read_only=True, destructive=False, idempotent=True, open_world=False)
        assert options.annotations == {
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        }


class TestDefinition:
    @pytest.mark.requirement("X-40")
    def test_lists_only_what_it_has(self) -> None:
        assert ToolDefinition("a").to_wire() == {"name": "a", "inputSchema": OBJECT}
        full = ToolDefinition(
            "a", "Does.", OBJECT, OBJECT, "Title", {"readOnlyHint": True}, ("tag",), "2", {"owner": "me"}
        )
        assert full.to_wire() == {
            "name": "a",
            "title": "Title",
            "description": "Does.",
            "inputSchema": OBJECT,
            "outputSchema": OBJECT,
            "annotations": {"readOnlyHint": True},
        }

    def test_cannot_be_changed(self) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            ToolDefinition("a").name = "b"  # type: ignore[misc]

    def test_a_fingerprint_changes_with_every_word_and_with_nothing_else(self) -> None:
        one = ToolDefinition("a", "Does.", {"type": "object", "properties": {}})
        same = ToolDefinition("a", "Does.", {"properties": {}, "type": "object"}, metadata={"x": 1})
        other = ToolDefinition("a", "Does it.", OBJECT)
        assert one.fingerprint == same.fingerprint != other.fingerprint
        assert re.fullmatch("[0-9a-f]{64}", one.fingerprint)

    @pytest.mark.parametrize(
        ("description", "returns", "raises", "joined"),
        [
            ("", "", (), ""),
            ("Does", "", (), "Does"),
            ("Does", "data", (), "Does.\n\nReturns: data"),
            ("Does!", "data", (), "Does!\n\nReturns: data"),
            ("Does\nmore", "data", (), "Does\nmore\n\nReturns: data"),
            ("", "data", (), "Returns: data"),
            ("Does", "", (("E", "why"), ("F", "")), "Does.\n\nRaises:\n- E: why\n- F"),
        ],
    )
    def test_words_are_joined_as_one_text(
        self, description: str, returns: str, raises: Any, joined: str
    ) -> None:
        assert publish_docs(description, returns, raises, None) == (joined, None)

    def test_returns_describes_the_output_schema_unless_the_author_wrote_it(self) -> None:
        raises = (("E", "always"),)
        described = {"type": "object", "description": "A class."}
        assert publish_docs("Words", "A list", raises, {"type": "array"}) == (
            "Words",
            {"type": "array", "description": "A list"},
        )
        assert publish_docs("Words", "It", (), described)[1] == {**described, "description": "It\n\nA class."}
        assert publish_docs("Words", "It", raises, described, is_explicit=True) == ("Words", described)


class TestChecks:
    @pytest.mark.parametrize("schema", [None, [], "object"])
    def test_an_input_schema_is_a_dict(self, schema: Any) -> None:
        with pytest.raises(InvalidSchemaError, match="The input schema of tool 'a' must be a dict"):
            check_input_schema(schema, "a")

    def test_an_input_schema_is_of_an_object(self) -> None:
        with pytest.raises(InvalidSchemaError, match="must have type='object'") as caught:
            check_input_schema({"type": "string"}, "a")
        assert caught.value.hint
        assert check_input_schema(OBJECT, "a") is OBJECT

    def test_an_input_schema_is_one(self) -> None:
        with pytest.raises(InvalidSchemaError, match="The input schema of tool 'a' is invalid: "):
            check_input_schema({"type": "object", "properties": 5}, "a")

    @pytest.mark.requirement("T-23")
    @pytest.mark.parametrize(
        ("schema", "words"),
        [
            ({"type": 5}, "Invalid schema: "),
            ({"type": "array"}, "Tool schema must be of type 'object'"),
            ({"type": "object"}, "Tool schema must have 'properties' field"),
        ],
    )
    def test_a_tool_schema_is_checked_in_the_tutorials_words(self, schema: Any, words: str) -> None:
        with pytest.raises(InvalidSchemaError, match=words):
            validate_tool_schema(schema)
        validate_tool_schema(OBJECT)

    @pytest.mark.requirement("T-11")
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"name": ""}, "Tool name is required"),
            ({"name": 5}, "Tool name must be string"),
            ({"description": ""}, "Tool description is required"),
            ({"inputSchema": {"type": 5}}, "Invalid schema: "),
            ({"name": "add-it"}, "Tool name must contain only letters, numbers, and underscores"),
        ],
    )
    def test_a_tool_definition_is_checked_in_the_tutorials_words(self, changes: Any, words: str) -> None:
        tool = {"name": "add_it", "description": "Adds it.", "inputSchema": OBJECT}
        validate_tool_definition(SimpleNamespace(**tool))
        validate_tool_definition(Tool.from_handler(lambda: 1, "a", "b", OBJECT).definition)
        with pytest.raises(DefinitionError, match=words):
            validate_tool_definition(SimpleNamespace(**{**tool, **changes}))
