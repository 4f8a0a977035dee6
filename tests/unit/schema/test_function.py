"""Building a tool from a function: fields, defaults, descriptions."""

# ruff: noqa: B008 - users write Field(...) as a default

from __future__ import annotations

import datetime as dt
import enum
import functools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, Field

from tests.support.definitions.hints import codes, definition_of, received_by, schema_of, taking
from toolcrib import Context, MCPServer, Tool
from toolcrib.errors import InvalidArgumentsError, InvalidSignatureError

MORNING = dt.datetime(2026, 1, 31, 9)
LOOP: list[Any] = []
LOOP.append(LOOP)


class Curve(enum.Enum):
    LINEAR = "linear"
    CUBIC = "cubic"


def properties(function: Any, **options: Any) -> Any:
    return definition_of(function, **options)["inputSchema"]["properties"]


class TestParameters:
    @pytest.mark.requirement("U-20")
    def test_of_every_kind_are_published_and_called(self) -> None:
        def mixed(first, /, second: int = 2, *, third: str) -> str:
            return f"{first}{second}{third}"

        assert definition_of(mixed)["inputSchema"] == {
            "type": "object",
            "properties": {
                "first": {},
                "second": {"type": "integer", "default": 2},
                "third": {"type": "string"},
            },
            "required": ["first", "third"],
        }

    async def test_positional_only_ones_arrive(self) -> None:
        server = MCPServer()

        @server.tool
        def mixed(first: int, second: int = Field(2), /, third: int = 3) -> list[int]:
            return [first, second, third]

        assert (await server.call("mixed", {"first": 1})).structured_content == [1, 2, 3]
        assert (await server.call("mixed", {"first": 1, "second": 5})).structured_content == [1, 5, 3]

    def test_without_any_give_an_empty_object(self) -> None:
        assert definition_of(lambda: None, name="nothing")["inputSchema"] == {
            "type": "object",
            "properties": {},
        }

    def test_are_known_by_their_alias(self) -> None:
        def mail(
            sender: Annotated[str, Field(alias="from")], to: dt.date = Field(MORNING.date(), alias="until")
        ) -> None:
            """Mail it.

            Args:
                sender: who
                until: when
            """

        tool = Tool.from_function(mail)
        assert tool.definition.input_schema["properties"] == {
            "from": {"type": "string", "description": "who"},
            "until": {"type": "string", "format": "date", "description": "when", "default": "2026-01-31"},
        }
        assert codes(tool) == []
        assert received_by(tool, **{"from": "me"}) == {"sender": "me", "to": MORNING.date()}
        with pytest.raises(InvalidArgumentsError, match="'sender': not a parameter"):
            received_by(tool, sender="me")

    def test_of_one_name_are_refused(self) -> None:
        def mail(to: str, sender: Annotated[str, Field(alias="to")]) -> None: ...

        with pytest.raises(
            InvalidSignatureError, match=r"Parameter 'sender'.* has the same name as another: 'to'"
        ):
            properties(mail)


class TestDefaults:
    @pytest.mark.parametrize(
        ("hint", "default", "shown"),
        [
            (int, 3, 3),
            (float, 1, 1),
            (bool, False, False),
            (str, "", ""),
            (list[int], [1], [1]),
            (list[int], (1, 2), [1, 2]),
            (dict[str, int], {}, {}),
            (set[str], {"b", "a"}, ["a", "b"]),
            (set[int | str], frozenset({1, "a"}), ["a", 1]),
            (dt.date, dt.date(2026, 1, 31), "2026-01-31"),
            (dt.date, "2026-01-31", "2026-01-31"),
            (dt.timedelta, dt.timedelta(seconds=90), "PT90S"),
            (Path, Path("a"), "a"),
            (bytes, b"hi", "aGk="),
            (Any, 5, 5),
            (tuple[int, str], (1, "a"), [1, "a"]),
            (int | str, "a", "a"),
        ],
    )
    def test_are_published_as_json(self, hint: Any, default: Any, shown: Any) -> None:
        assert schema_of(hint, default)["default"] == shown
        assert codes(taking(hint, default)) == []

    @pytest.mark.parametrize(
        ("hint", "default"),
        [
            (Any, object()),
            (float, float("inf")),
            (list[float], [float("nan")]),
            (dt.datetime, MORNING),
            (dict, {"a": object()}),
            (list, LOOP),
            (str, "\x1f"),
            (list[str], ["\u200b"]),
        ],
    )
    def test_that_json_cannot_say_are_left_out_with_advice(self, hint: Any, default: Any) -> None:
        tool = taking(hint, default)
        assert "default" not in tool.definition.input_schema["properties"]["x"]
        assert "required" not in tool.definition.input_schema
        (finding,) = tool.findings
        assert (finding.code, finding.level, finding.parameter) == ("unpublished-default", "advice", "x")

    @pytest.mark.parametrize(
        ("hint", "default"),
        [
            (int, "a"),
            (int, True),
            (int, 5.0),
            (float, False),
            (str, 5),
            (Literal["a"], "b"),
            (list[int], ["a"]),
            (list[int], {}),
            (dict[str, int], []),
            (tuple[int], []),
            (Annotated[str, Field(pattern="^a")], "b"),
            (dt.date, "tomorrow"),
            (Annotated[int, Field(ge=1)], 0),
            (int | None, "a"),
            (type(None), 5),
        ],
    )
    def test_that_contradict_their_hint_are_refused(self, hint: Any, default: Any) -> None:
        with pytest.raises(
            InvalidSignatureError, match=r"'x' of tool 'taking' has the default .*does not fit"
        ) as error:
            schema_of(hint, default)
        assert (error.value.tool, error.value.parameter) == ("taking", "x")
        assert error.value.source.line
        assert error.value.hint == "change one of them"

    def test_none_where_the_hint_forgets_it_is_accepted_with_a_warning(self) -> None:
        tool = taking(int, None)
        assert tool.definition.input_schema["properties"] == {"x": {"type": "integer"}}
        (finding,) = tool.findings
        assert (finding.code, finding.level) == ("implicit-optional", "warning")
        assert finding.hint == "write `... | None = None`"
        assert received_by(tool, x=None) == {}

    def test_none_of_a_parameter_that_takes_anything_is_fine(self) -> None:
        assert codes(taking(Any, None)) == []

    def test_an_explicit_null_means_what_the_hint_says(self) -> None:
        assert received_by(taking(int | None, 3), x=None) == {"x": None}
        assert received_by(taking(int, 3), x=None) == {}
        assert received_by(taking(Any, 3), x=None) == {"x": None}
        assert received_by(taking(int | None), x=None) == {"x": None}


class TestFieldDefaults:
    async def test_are_given_to_the_function(self) -> None:
        server = MCPServer()

        @server.tool
        def order(
            size: int = Field(3, ge=1, description="how many"),
            tags: list[str] = Field(default_factory=list),
            kind: Annotated[str, Field(default="a")] = "b",
            code: Annotated[int, Field(default=7)] = Field(8),
            when: dt.date | None = Field(None),
        ) -> list[Any]:
            tags.append("seen")
            return [size, tags, kind, code, when]

        definition = server.registry.get("order").definition
        assert definition.input_schema == {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 1, "description": "how many", "default": 3},
                "tags": {"type": "array", "items": {"type": "string"}, "default": []},
                "kind": {"type": "string", "default": "b"},
                "code": {"type": "integer", "default": 8},
                "when": {"type": "string", "format": "date"},
            },
        }
        for _ in range(2):
            result = await server.call("order", {})
            assert result.structured_content == [3, ["seen"], "b", 8, None]
        assert (await server.call("order", {"size": 5})).structured_content[0] == 5

    async def test_are_given_to_coroutines_and_streams(self) -> None:
        server = MCPServer()

        @server.tool
        async def one(a: Annotated[int, Field(default=4)]) -> int:
            return a

        @server.tool
        async def many(a: int = Field(2)) -> AsyncIterator[int]:
            for number in range(a):
                yield number

        assert (await server.call("one", {})).structured_content == 4
        assert (await server.call("many", {})).structured_content == [0, 1]

    def test_field_without_default_stays_required(self) -> None:
        assert "default" not in schema_of(int, Field())
        assert taking(int, Field(...)).definition.input_schema["required"] == ["x"]

    def test_field_without_a_hint_is_anything(self) -> None:
        def loose(x=Field(description="whatever")):
            return x

        assert properties(loose) == {"x": {"description": "whatever"}}

    def test_a_factory_is_not_run_to_publish_what_it_makes(self) -> None:
        def explode() -> int:
            raise AssertionError("not for a definition")

        tool = taking(int, Field(default_factory=explode))
        assert tool.definition.input_schema["properties"] == {"x": {"type": "integer"}}
        assert codes(tool) == []

    def test_a_name_of_its_own_does_not_disturb_pydantic(self) -> None:
        hint = Annotated[int, Field(alias="other", default=3), AfterValidator(lambda value: value + 1)]
        tool = taking(hint)
        assert tool.definition.input_schema["properties"] == {"other": {"type": "integer", "default": 3}}
        assert received_by(tool, other=5) == {"x": 6}

    def test_a_factory_of_a_positional_only_parameter_is_refused(self) -> None:
        def take(x: list[int] = Field(default_factory=list), /) -> None: ...

        with pytest.raises(InvalidSignatureError, match="positional-only and has a default factory"):
            properties(take)


class TestTypesFromTheDocstring:
    @pytest.mark.requirement("X-17")
    def test_replace_missing_hints(self) -> None:
        def search(query, limit=10, exact=False, mode=None, other=3):
            """Search.

            Args:
                query (str): What to look for
                limit (int): How many
                exact: Whether word by word
                mode (str): How
                other (Thing): Something
            """

        assert properties(search) == {
            "query": {"type": "string", "description": "What to look for"},
            "limit": {"type": "integer", "description": "How many", "default": 10},
            "exact": {"description": "Whether word by word", "default": False},
            "mode": {"type": "string", "description": "How"},
            "other": {"description": "Thing: Something", "default": 3},
        }
        assert codes(Tool.from_function(search)) == []

    @pytest.mark.parametrize(
        "documented",
        ["positive int", "'small' or 'big'", "one of small, big", "{small, big}", "str, {'a', 'b'}", "array"],
    )
    def test_that_are_not_certain_go_to_the_description(self, documented: str) -> None:
        def cut(size=None, other=None): ...

        cut.__doc__ = (
            f"Cut.\n\nParameters\n----------\nsize : {documented}\n    How large.\nother : {documented}"
        )
        assert properties(cut) == {
            "size": {"description": f"{documented}: How large."},
            "other": {"description": documented},
        }

    def test_that_are_choices_reach_the_schema_without_a_hint(self) -> None:
        def draw(kind="linear"):
            """Draw.

            Parameters
            ----------
            kind : {'linear', 'cubic'}, optional
                The kind.
            """

        assert properties(draw)["kind"] == {
            "type": "string",
            "enum": ["linear", "cubic"],
            "description": "The kind.",
            "default": "linear",
        }

    @pytest.mark.parametrize(
        "documented",
        [
            "{'linear', 'cubic'}",
            "{linear, cubic}",
            "'linear' or 'cubic'",
            "str, 'linear', 'cubic'",
            "one of linear, cubic",
            "Literal['linear', 'cubic']",
            "list of {'linear', 'cubic'}",
        ],
    )
    def test_that_are_choices_reach_the_description_with_a_hint_that_has_none(self, documented: str) -> None:
        def draw(kind: str, kinds: list[str] | None = None, size: int = 1): ...

        draw.__doc__ = f"Draw.\n\nArgs:\n    kind ({documented}): The kind.\n    kinds ({documented}):"
        assert properties(draw) == {
            "kind": {"type": "string", "description": f"{documented}: The kind."},
            "kinds": {"type": "array", "items": {"type": "string"}, "description": documented},
            "size": {"type": "integer", "default": 1},
        }

    def test_that_are_choices_without_the_default_reach_the_description(self) -> None:
        def draw(kind="auto"):
            """Draw.

            Args:
                kind ({'linear', 'cubic'}): The kind.
            """

        tool = Tool.from_function(draw)
        assert tool.definition.input_schema["properties"]["kind"] == {
            "description": "{'linear', 'cubic'}: The kind.",
            "default": "auto",
        }
        assert codes(tool) == ["stale-type"]

    @pytest.mark.parametrize(
        "hint", [Literal["linear", "cubic"], Literal["linear", "cubic"] | None, Curve, list[Curve]]
    )
    def test_that_are_choices_are_not_repeated_for_a_hint_that_has_them(self, hint: Any) -> None:
        def draw(kind): ...

        draw.__annotations__["kind"] = hint
        draw.__doc__ = "Draw.\n\nArgs:\n    kind ({'linear', 'cubic'}): The kind."
        assert properties(draw)["kind"]["description"] == "The kind."

    @pytest.mark.parametrize("documented", ["dict[str, str]", "{str: int}", "str, must be short", "Order"])
    def test_other_types_are_left_to_the_hint(self, documented: str) -> None:
        def take(x: dict) -> None: ...

        take.__doc__ = f"Take.\n\nArgs:\n    x ({documented}): The x."
        assert properties(take)["x"] == {"type": "object", "description": "The x."}

    def test_that_the_default_contradicts_are_out_of_date(self) -> None:
        def search(limit="ten"):
            """Search.

            Args:
                limit (int): How many
            """

        tool = Tool.from_function(search)
        assert tool.definition.input_schema["properties"]["limit"] == {
            "description": "How many",
            "default": "ten",
        }
        assert codes(tool) == ["stale-type"]

    def test_never_overrule_a_hint(self) -> None:
        def search(limit: int) -> None:
            """Search.

            Args:
                limit (str): How many
            """

        assert properties(search)["limit"]["type"] == "integer"


class TestContext:
    @pytest.mark.parametrize("hint", [Context, Context | None, Annotated[Context, "the call"]])
    def test_is_injected_and_never_published(self, hint: Any) -> None:
        def ask(question: str, ctx: Any = None) -> None: ...

        ask.__annotations__ = {"question": str, "ctx": hint}
        tool = Tool.from_function(ask)
        assert list(tool.definition.input_schema["properties"]) == ["question"]
        assert tool.arguments.context == "ctx"

    def test_of_a_subclass_counts(self) -> None:
        class Mine(Context):
            pass

        def ask(ctx: Mine) -> type:
            return Mine

        assert properties(ask) == {}

    def test_twice_is_refused(self) -> None:
        def ask(one: Context, two: Context) -> None: ...

        with pytest.raises(InvalidSignatureError, match=r"Parameter 'two'.*a second Context") as caught:
            properties(ask)
        assert caught.value.hint == "use 'one'"

    def test_does_not_reach_another_process(self) -> None:
        def ask(ctx: Context) -> None: ...

        with pytest.raises(InvalidSignatureError, match="runs in another process"):
            properties(ask, run="process")

    @pytest.mark.parametrize("module", ["mcp.server.mcpserver.context", "fastmcp.server.context"])
    @pytest.mark.parametrize("optional", [False, True])
    def test_of_another_library_is_refused_with_a_way_out(self, module: str, optional: bool) -> None:
        foreign = type("Context", (), {"__module__": module})

        def ask(question: str, ctx: Any = None) -> None: ...

        ask.__annotations__ = {"question": str, "ctx": foreign | None if optional else foreign}
        with pytest.raises(InvalidSignatureError, match=f"'ctx' of tool 'ask' .* {module}") as caught:
            properties(ask)
        assert caught.value.hint == "annotate it with toolcrib.Context"
        assert caught.value.source.line

    def test_a_class_of_ones_own_called_context_is_nothing_special(self) -> None:
        class Context:
            pass

        assert codes(taking(Context)) == ["unknown-type"]


class TestStaleWords:
    def test_about_a_parameter_that_is_not_there_are_reported(self) -> None:
        def search(query: str) -> None:
            """Search.

            Args:
                query: What to look for
                limt: How many
            """

        (finding,) = Tool.from_function(search).findings
        assert (finding.code, finding.parameter, finding.level) == ("stale-parameter", "limt", "warning")

    def test_about_a_misspelt_parameter_get_a_suggestion(self) -> None:
        def search(query: str, limit: int, offset: int) -> None:
            """Search.

            Args:
                query: What to look for
                limt: How many
                qery: Again
            """

        hints = {finding.parameter: finding.hint for finding in Tool.from_function(search).findings}
        assert hints == {"limt": "did you mean 'limit'?", "qery": "remove it or rename it"}

    def test_about_fields_types_headings_and_injected_values_are_not(self) -> None:
        def save(record: dict[str, str], path: str) -> None:
            """Save.

            Args:
                record: What to save, with these fields
                title: The title
                path: Where to save it
            """

        def sign(text: str) -> None:
            """Sign.

            Args:
                text: What to sign
                ctx: The context of the request
                kwargs: Passed on
                **kwargs: Passed on
                int: A type
                Note: Slow
                note: Slow
            """

        assert codes(Tool.from_function(save)) == codes(Tool.from_function(sign)) == []

    def test_about_what_a_partial_filled_in_are_not(self) -> None:
        def search(query: str, limit: int) -> None:
            """Search.

            Args:
                query: What to look for
                limit: How many
            """

        assert codes(Tool.from_function(functools.partial(search, limit=3))) == []
        assert codes(Tool.from_function(functools.partial(search, "all"))) == []

    @pytest.mark.parametrize("name", ["ctx", "context"])
    def test_about_a_context_that_another_library_injects_are_not(self, name: str) -> None:
        def search(query: str) -> None: ...

        search.__doc__ = f"Search.\n\nArgs:\n    query: What to look for\n    {name} (Context): The call"
        tool = Tool.from_function(search)
        assert codes(tool) == []
        assert list(tool.definition.input_schema["properties"]) == ["query"]

    def test_about_the_context_are_not(self) -> None:
        def search(query: str, ctx: Context) -> None:
            """Search.

            Args:
                query: What to look for
                ctx: The call
            """

        assert codes(Tool.from_function(search)) == []
