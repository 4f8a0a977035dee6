"""A definition with the code behind it, and the mark that makes one."""

from __future__ import annotations

import datetime as dt
import functools
from dataclasses import replace
from typing import Any, LiteralString, NewType

import pytest

from tests.support.definitions.hints import received_by
from toolcrib import DefinitionError, MCPServer, MCPTool, Tool, ToolOptions, tool
from toolcrib.component import is_marked, is_tool_object, marked_options, read_tool_object
from toolcrib.errors import InvalidSchemaError, InvalidSignatureError, InvalidToolError
from toolcrib.schema.function import ToolParts, build_function
from toolcrib.schema.parameters import HandlerInfo, inspect_handler

OBJECT: dict[str, Any] = {"type": "object", "properties": {}}


def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first
        b: The second

    Raises:
        OverflowError: if too large

    Tags:
        math
    """
    return a + b


class Greeter:
    name = "greet"
    description = "Greets somebody."
    input_schema = OBJECT

    async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": []}


class Echo:
    """In the spelling of another language."""

    Name = "echo"
    Description = "Echoes."
    InputSchema = OBJECT
    OutputSchema = {"type": "string"}

    async def ExecuteAsync(self, arguments: dict[str, Any]) -> str:
        return ""


class TestMaking:
    def test_looks_at_little_and_builds_when_asked(self) -> None:
        def broken(a: Missing) -> None: ...  # noqa: F821

        made = Tool.from_function(broken)
        assert made.name == "broken"
        with pytest.raises(InvalidSignatureError):
            _ = made.definition

    def test_builds_once(self) -> None:
        made = Tool.from_function(add)
        assert made.definition is made.definition
        assert made.arguments is made.check().arguments

    def test_a_refusal_is_remembered_and_names_the_tool_and_the_place(self) -> None:
        made = Tool.from_handler(lambda: 1, "one", "Gives one.", {"type": "object", "properties": 5})
        errors = []
        for _ in range(2):
            with pytest.raises(InvalidSchemaError) as caught:
                made.check()
            errors.append(caught.value)
        assert errors[0] is errors[1]
        assert errors[0].tool == "one"
        assert errors[0].source.file

    @pytest.mark.requirement("X-38")
    @pytest.mark.requirement("X-15")
    def test_a_schema_that_does_not_compile_is_found_by_checking(self) -> None:
        def build(info: HandlerInfo, name: str, options: ToolOptions) -> ToolParts:
            parts = build_function(info, name, options)
            return replace(parts, arguments=replace(parts.arguments, schema={"type": "nonsense"}))

        made = Tool(inspect_handler(add, "add"), "add", ToolOptions(), build, add)
        with pytest.raises(InvalidSchemaError) as caught:
            made.check()
        assert (caught.value.tool, caught.value.source) == ("add", made.source)

    def test_examining_compiles_what_may_be_wrong_and_nothing_else(self) -> None:
        plain = Tool.from_function(add)
        assert plain.check_definition() is plain
        assert plain.arguments._compiled is None
        stated = Tool.from_function(add, output_schema={"type": "integer", "minimum": 0})
        assert stated.check_definition().results._validator is not None

    def test_what_a_call_needs_is_made_for_the_first_who_asks(self) -> None:
        made = Tool.from_function(add)
        assert made.definition
        assert made._results is None
        assert made.arguments is made.arguments
        assert made.results is made.results

    def test_options_reach_the_definition(self) -> None:
        made = Tool.from_function(
            add,
            name="plus",
            title="Plus",
            version="2",
            tags=["sum"],
            metadata={"owner": "me"},
            read_only=True,
        )
        definition = made.definition
        assert (definition.name, definition.title, definition.version) == ("plus", "Plus", "2")
        assert definition.tags == ("sum", "math")
        assert definition.metadata == {"owner": "me", "raises": {"OverflowError": "if too large"}}
        assert definition.annotations == {"readOnlyHint": True}
        assert definition.source == made.source
        assert (made.version, made.handler, made.origin) == ("2", add, add)

    def test_an_authors_metadata_is_not_overwritten(self) -> None:
        made = Tool.from_function(add, metadata={"raises": "never"})
        assert made.definition.metadata == {"raises": "never"}

    def test_an_empty_name_is_left_to_the_rules(self) -> None:
        with pytest.raises(DefinitionError, match="name length must be 1-128"):
            MCPServer().add(add, name="")

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"description": "a\u200b"}, "The description of tool 'add' contains an? invisible"),
            ({"description": "a\ud800"}, "The description of tool 'add' contains a surrogate"),
            ({"title": "a\x1b"}, "The title of tool 'add' contains a control"),
            ({"output_schema": {"description": "a\u200b"}}, "The output schema of tool 'add'"),
            (
                {"input_schema": {**OBJECT, "description": "a\u200b"}, "name": "add"},
                "The input schema of tool 'add'",
            ),
        ],
    )
    def test_hidden_words_are_refused_wherever_they_are(self, options: Any, words: str) -> None:
        def add(**given: int) -> None: ...

        handler = add if "input_schema" in options else (lambda a: a)
        with pytest.raises(DefinitionError, match=words):
            Tool.from_function(handler, **{"name": "add", **options}).check()

    def test_it_says_what_it_is(self) -> None:
        assert repr(Tool.from_function(add, version="2")).startswith("<Tool add@2 from /")
        assert repr(Tool.from_function(len)) == "<Tool len from <unknown>>"


class TestChanging:
    def test_a_name_leaves_the_original_alone(self) -> None:
        made = Tool.from_function(add)
        other = made.renamed("plus", long_name="plus_plus")
        assert (made.name, other.name, other.long_name) == ("add", "plus", "plus_plus")
        assert other.definition.name == "plus"
        assert other.with_options(name="more").long_name is None

    def test_an_option_keeps_the_name_it_has(self) -> None:
        made = Tool.from_function(add, name="plus").renamed("ns_plus")
        assert made.with_options(title="T").name == "ns_plus"

    @pytest.mark.requirement("G-19")
    def test_a_schema_of_ones_own_replaces_the_made_one(self) -> None:
        def plan(day: dt.date, size: int = 1) -> None:
            """Plan."""

        made = Tool.from_function(plan)
        schema = {**made.definition.input_schema, "required": ["day", "size"]}
        other = made.with_options(input_schema=schema)
        assert other.definition.input_schema == schema
        assert other.definition.description == "Plan"
        assert received_by(other, day="2026-01-31", size=2) == {"day": dt.date(2026, 1, 31), "size": 2}
        back = other.with_options(input_schema=None)
        assert back.definition == made.definition

    def test_the_made_schema_comes_back_only_for_what_can_have_one(self) -> None:
        made = Tool.from_function(lambda **given: 1, name="any", input_schema=OBJECT)
        with pytest.raises(InvalidSignatureError, match=r"takes \*\*given"):
            made.with_options(input_schema=None)

    def test_a_tool_object_stays_one(self) -> None:
        other = Tool.from_object(Greeter()).with_options(input_schema={**OBJECT, "required": []})
        assert received_by(other) == {"arguments": {}}


class TestToolObjects:
    @pytest.mark.requirement("A-01")
    def test_are_recognised_in_either_spelling(self) -> None:
        assert is_tool_object(Greeter())
        assert is_tool_object(Echo())
        assert not is_tool_object(Greeter)
        assert not is_tool_object(add)
        assert isinstance(Greeter(), MCPTool)

    @pytest.mark.requirement("A-01")
    def test_become_tools(self) -> None:
        made = Tool.from_object(Echo(), tags=["talk"])
        assert made.definition.to_wire() == {
            "name": "echo",
            "description": "Echoes.",
            "inputSchema": OBJECT,
            "outputSchema": {"type": "string"},
        }
        assert (made.definition.tags, made.is_async) == (("talk",), True)

    def test_that_lack_something_are_refused(self) -> None:
        class Nameless:
            description = "Has no name."
            input_schema = OBJECT

            async def execute(self, arguments: Any) -> None: ...

        class Idle(Greeter):
            execute = 5  # type: ignore[assignment]

        with pytest.raises(InvalidToolError, match="Tool must have 'name': Nameless has none"):
            read_tool_object(Nameless())
        with pytest.raises(InvalidToolError, match="Tool must have callable 'execute' method"):
            Tool.from_object(Idle())

    def test_may_be_marked_with_options(self) -> None:
        @tool(tags=["polite"])
        class Marked(Greeter):
            pass

        assert Tool.from_object(Marked()).options.tags == ["polite"]


class TestMark:
    def test_bare_leaves_the_function_what_it_is(self) -> None:
        def mine() -> None: ...

        assert tool(mine) is mine
        assert is_marked(mine)
        assert not is_marked(add)

    def test_with_options_keeps_them_for_later(self) -> None:
        @tool(read_only=True, name="find")
        def search(query: str) -> str:
            return query

        assert search("a") == "a"
        assert marked_options(search) == ToolOptions(read_only=True, name="find")
        assert Tool.from_function(search).name == "find"
        assert Tool.from_function(search, name="other").options.read_only

    @pytest.mark.requirement("T-14")
    def test_with_a_name_a_description_and_a_schema_is_the_tutorials_decorator(self) -> None:
        @tool("hello", "Greets.", OBJECT)
        def anything(arguments: dict[str, Any]) -> str:
            return "hi"

        assert Tool.from_function(anything).definition.to_wire() == {
            "name": "hello",
            "description": "Greets.",
            "inputSchema": OBJECT,
        }

    def test_survives_wrappers_and_partials(self) -> None:
        @tool(title="T")
        def mine(a: int, b: int) -> None: ...

        @functools.wraps(mine)
        def wrapped(*args: Any) -> None: ...

        for handler in (
            wrapped,
            functools.partial(mine, 1),
            functools.partial(functools.partial(mine, 1), 2),
        ):
            assert marked_options(handler).title == "T"
        assert marked_options(functools.partial(add, 1)) == ToolOptions()

    def test_reaches_the_function_inside_static_and_class_methods(self) -> None:
        class Holder:
            @tool(title="S")
            @staticmethod
            def static() -> None: ...

            @tool(title="C")
            @classmethod
            def of_class(cls) -> None: ...

        assert marked_options(Holder.static).title == "S"
        assert marked_options(Holder().of_class).title == "C"

    def test_takes_a_name_first(self) -> None:
        with pytest.raises(InvalidToolError, match="@tool takes a name first, got int"):
            tool(5)  # type: ignore[call-overload]

    @pytest.mark.parametrize("target", [len, Greeter().execute, "text".upper])
    def test_what_cannot_carry_it_is_refused_with_a_way_out(self, target: Any) -> None:
        with pytest.raises(InvalidToolError, match="@tool cannot mark a ") as caught:
            tool(target)
        assert caught.value.hint == "give the options where it is added"

    def test_an_attribute_of_that_name_by_somebody_else_is_ignored(self) -> None:
        def mine() -> None: ...

        mine.__toolcrib__ = "theirs"  # type: ignore[attr-defined]
        assert marked_options(mine) == ToolOptions()
        assert not is_marked(mine)


def test_a_misspelt_option_is_named_with_the_one_that_was_meant() -> None:
    with pytest.raises(InvalidToolError, match="Unknown tool option: timeouts") as refused:
        tool(timeouts=3)
    assert refused.value.hint == "did you mean 'timeout_s'?"
    with pytest.raises(InvalidToolError) as refused:
        tool(zzzzzz=3)
    assert refused.value.hint is not None
    assert refused.value.hint.startswith("options: aliases")


def test_an_ellipsis_is_no_default() -> None:
    def find(number: int = ...) -> str: ...

    with pytest.raises(InvalidSignatureError, match="is not a value"):
        _ = Tool.from_function(find).definition


def test_a_parameter_that_is_described_twice_keeps_both_texts() -> None:
    def find(number: int) -> str:
        """Find.

        Args:
            number: first words
            number: second words
        """
        return ""

    text = Tool.from_function(find).definition.input_schema["properties"]["number"]["description"]
    assert "first words" in text
    assert "second words" in text


UserName = NewType("UserName", str)


def test_a_new_type_of_text_is_text() -> None:
    def name() -> UserName:
        return UserName("ada")

    def shout() -> LiteralString:
        return "hey"

    assert Tool.from_function(name).definition.output_schema is None
    assert Tool.from_function(shout).definition.output_schema is None
