"""Collecting tools from objects: functions, applications, tool objects, tables, registries, lists."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.definitions.small_tools import named, names
from toolcrib import Application, MCPServer, collect, tool
from toolcrib.errors import ConfigurationError, InvalidToolError, SourceError

SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def wrong(*numbers: int) -> int:
    return sum(numbers)


class EchoTool:
    name, description, input_schema = "echo", "Echo what comes.", SCHEMA

    async def execute(self, arguments: dict[str, Any]) -> str:
        return "echo"


class MathApp(Application):
    @tool
    def double(self, value: int) -> int:
        """Double a number."""
        return value * 2

    @tool(tags=["slow"])
    def halve(self, value: int) -> float:
        """Halve a number."""
        return value / 2


def found(*things: Any, **settings: Any) -> list[str]:
    batch = collect(*things, **settings)
    assert not batch.findings
    return [tool.name for tool in batch.tools]


# --- one thing ----------------------------------------------------------------------------------------


class Callables:
    @classmethod
    def of_class(cls) -> int:
        return 1

    @staticmethod
    def plain() -> int:
        return 1

    def method(self) -> int:
        return 1

    def __call__(self) -> int:
        return 1


@functools.wraps(add)
def wrapped(*args: Any, **kwargs: Any) -> int:
    return add(*args, **kwargs)


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        (add, "add"),
        (Callables().method, "method"),
        (Callables.of_class, "of_class"),
        (Callables.plain, "plain"),
        (Callables(), "callables"),
        (functools.partial(add, 1), "add"),
        (functools.lru_cache(add), "add"),
        (wrapped, "add"),
        (EchoTool(), "echo"),
        (EchoTool, "echo"),
        (named("given"), "given"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_one_thing_that_is_one_tool(thing: Any, name: str) -> None:
    batch = collect(thing)
    assert ([tool.name for tool in batch.tools], batch.single) == ([name], True)


def test_a_lambda_needs_a_name() -> None:
    assert found(lambda: 1, name="one") == ["one"]
    with pytest.raises(InvalidToolError, match="A lambda needs a name"):
        collect(lambda: 1)


@pytest.mark.parametrize("thing", [5, None, b"tools", object()], ids=lambda thing: type(thing).__name__)
def test_anything_that_tools_cannot_be_read_from_is_refused(thing: Any) -> None:
    with pytest.raises(InvalidToolError, match=f"Cannot read tools from {type(thing).__name__}"):
        collect(thing)


def test_options_are_laid_over_what_the_author_said() -> None:
    batch = collect(MathApp(), tags=["all"], timeout_s=5)
    assert [set(tool.options.tags) for tool in batch.tools] == [{"all"}, {"slow", "all"}]
    assert {tool.options.timeout_s for tool in batch.tools} == {5}
    assert collect(named("x"), read_only=True).tools[0].options.read_only


def test_a_name_fits_one_tool_only() -> None:
    assert found([add], name="plus") == ["plus"]
    with pytest.raises(InvalidToolError, match="name= requires a single tool, but 2 were found") as refusal:
        collect(MathApp(), name="x")
    assert refusal.value.hint == "use namespace="


def test_a_class_that_cannot_be_made_says_so() -> None:
    class Needy(Application):
        def __init__(self, engine: object) -> None: ...

    with pytest.raises(SourceError, match="Needy cannot be created without arguments") as refusal:
        collect(Needy)
    assert refusal.value.hint == "create it yourself: add(Needy(...))"
    assert refusal.value.source.file == __file__


def test_a_plain_class_is_a_callable_like_others() -> None:
    class Point:
        def __init__(self, x: int) -> None:
            self.x = x

    assert found(Point) == ["Point"]


# --- applications -------------------------------------------------------------------------------------


@pytest.mark.requirement("U-05")
def test_an_application_gives_its_tools_and_owns_them() -> None:
    app = MathApp()
    batch = collect(app)
    assert [tool.name for tool in batch.tools] == ["double", "halve"]
    assert all(tool.owner is app for tool in batch.tools)
    assert not batch.single
    assert found(MathApp) == ["double", "halve"]


def test_the_namespace_is_the_applications_own_its_name_or_the_one_given() -> None:
    app = MathApp()
    app.namespace = "own"
    spaces = {
        space: collect(app, namespace=space).tools[0].namespace for space in (None, True, "given", False, "")
    }
    assert spaces == {None: "own", True: "math", "given": "given", False: None, "": None}


def test_only_an_application_can_lend_its_name() -> None:
    for thing in (add, SimpleNamespace(list_tools=lambda: [add])):
        with pytest.raises(InvalidToolError, match="'add' has no application whose name") as refusal:
            collect(thing, namespace=True)
        assert refusal.value.hint == 'give the prefix itself: namespace="..."'


def test_one_bad_method_hides_no_other_and_an_unreadable_one_is_named() -> None:
    app = SimpleNamespace(list_tools=lambda: [add, wrong, "add", EchoTool()])
    batch = collect(app)
    assert [tool.name for tool in batch.tools] == ["add", "echo"]
    assert [finding.code for finding in batch.findings] == ["invalid-signature", "invalid-tool"]
    assert batch.findings[1].message == "SimpleNamespace.list_tools() must return callables, got 'add'"


def test_an_application_that_lists_nothing_is_remarked_on() -> None:
    (finding,) = collect(Application()).findings
    assert (finding.code, finding.level, finding.message) == (
        "no-tools",
        "warning",
        "Application lists no tools",
    )


def test_list_tools_that_fails_is_told_with_the_way_out() -> None:
    class Renaming(MathApp):
        def list_tools(self) -> list[Callable[..., Any]]:
            self.double.__name__ = "math_double"  # type: ignore[attr-defined]
            return [self.double]

    class Failing(MathApp):
        def list_tools(self) -> list[Callable[..., Any]]:
            raise OSError("no network")

    with pytest.raises(SourceError, match=r"Renaming\.list_tools\(\) failed: AttributeError") as refusal:
        collect(Renaming())
    assert "namespace=" in (refusal.value.hint or "")
    with pytest.raises(SourceError, match="OSError: no network") as other:
        collect(Failing())
    assert other.value.hint is None


def test_an_application_inside_another_keeps_what_is_its_own() -> None:
    inner = MathApp()
    inner.namespace = "inner"
    outer = SimpleNamespace(list_tools=lambda: [inner, add], namespace="outer", name="outer")
    owners = [(tool.owner, tool.namespace) for tool in collect(outer).tools]
    assert owners == [(inner, "inner"), (inner, "inner"), (outer, "outer")]


def test_a_namespace_is_not_left_on_the_callers_tool() -> None:
    shared = named("shared")
    servers = [MCPServer(), MCPServer()]
    servers[0].add(shared, namespace="first")
    servers[1].add(shared)
    assert [names(server.registry) for server in servers] == [["first_shared"], ["shared"]]
    assert shared.namespace is None


# --- registries ---------------------------------------------------------------------------------------


def test_another_server_gives_everything_it_has_on_or_off() -> None:
    first = MCPServer()
    first.add(named("one", version="1"), named("one", version="2"), named("off", enabled=False), MathApp())
    first.add(named("switched"))
    first.registry.disable("switched")
    second = MCPServer()
    second.add(first, namespace="all")
    assert [(e.tool.name, e.tool.version, e.enabled) for e in second.registry.entries()] == [
        ("all_one", "2", True),
        ("all_one", "1", True),
        ("all_off", None, False),
        ("all_double", None, True),
        ("all_halve", None, True),
        ("all_switched", None, False),
    ]
    assert names(first.registry) == ["one", "double", "halve"]
    assert found(first.registry, tags=["x"]) == ["one", "one", "off", "double", "halve", "switched"]


def test_a_prefix_is_not_put_on_twice_when_servers_are_stacked() -> None:
    inner, outer = MCPServer(), MCPServer()
    app = MathApp()
    app.namespace = "math"
    inner.add(app)
    outer.add(inner)
    assert names(outer.registry) == ["math_double", "math_halve"]


# --- tables -------------------------------------------------------------------------------------------


async def handle(arguments: dict[str, Any]) -> str:
    return "done"


@pytest.mark.requirement("T-16")
def test_tables_and_their_handlers_become_tools() -> None:
    assert found({"x": {"description": "Do x.", "schema": SCHEMA, "handler": handle}}) == ["x"]
    assert found([{"name": "y", "schema": SCHEMA}], handlers={"y": handle}) == ["y"]
    assert found(SimpleNamespace(name="z", inputSchema=SCHEMA), handlers={"z": handle}) == ["z"]


def test_a_handler_left_over_is_told_after_all_tables_were_read() -> None:
    tables = ({"x": {"schema": SCHEMA}}, {"y": {"schema": SCHEMA}})
    assert found(*tables, handlers={"x": handle, "y": handle}) == ["x", "y"]
    batch = collect(*tables, handlers={"x": handle, "y": handle, "z": handle})
    assert [finding.tool for finding in batch.findings] == ["z"]


def test_an_entry_that_cannot_be_a_tool_is_a_finding() -> None:
    facts = {"schema": SCHEMA, "handler": handle}
    batch = collect({"good": facts, "bad": {**facts, "tags": 5}, "odd": {**facts, "timeout_s": -1}})
    assert [tool.name for tool in batch.tools] == ["good"]
    assert len(batch.findings) == 2


# --- many ---------------------------------------------------------------------------------------------


def test_several_things_are_each_their_own_matter() -> None:
    batch = collect(add, wrong, 5, MathApp())
    assert [tool.name for tool in batch.tools] == ["add", "double", "halve"]
    assert [finding.code for finding in batch.findings] == ["invalid-signature", "invalid-tool"]
    assert not batch.single
    assert found() == []


@pytest.mark.parametrize(
    "many", [[add, EchoTool()], (add, EchoTool()), iter([add, EchoTool()])], ids=["list", "tuple", "iterator"]
)
def test_lists_and_generators_are_read_whole(many: Any) -> None:
    assert found(many) == ["add", "echo"]


def test_a_thing_whose_own_code_fails_is_a_finding_among_others() -> None:
    class Moody:
        @property
        def name(self) -> str:
            raise RuntimeError("not today")

    batch = collect([add, Moody()])
    assert [tool.name for tool in batch.tools] == ["add"]
    assert batch.findings[0].message == "Moody cannot be read as a tool: RuntimeError: not today"


# --- switches -----------------------------------------------------------------------------------------


def test_switches_turn_groups_on_and_off() -> None:
    things = [named("a"), named("b", group="math"), named("c", group="file", enabled=False)]
    enabled = lambda switches: [tool.options.enabled for tool in collect(things, switches=switches).tools]  # noqa: E731
    assert enabled({}) == [True, True, False]
    assert enabled({"enable_math_tools": False, "enable_file_tools": True}) == [True, False, True]
    assert enabled({"enable_other_tools": False, "enable_None_tools": False}) == [True, True, False]


def test_a_switch_is_true_or_false() -> None:
    with pytest.raises(ConfigurationError, match="enable_math_tools: must be true or false, got 'false'"):
        collect(named("b", group="math"), switches={"enable_math_tools": "false"})  # type: ignore[dict-item]


# --- resources and prompts ----------------------------------------------------------------------------


def make_server() -> MCPServer:
    server = MCPServer("kinds")
    server.add_resource("a://b", "text", group="extra")

    @server.prompt
    def ask() -> str:
        """Ask something."""
        return "Why?"

    return server


def test_resources_and_prompts_of_a_server_are_in_lists_of_their_own() -> None:
    batch = collect(make_server())
    assert (batch.tools, batch.findings) == ([], [])
    assert [tool.name for tool in (*batch.resources, *batch.prompts)] == ["a://b", "ask"]


def test_they_can_be_added_one_by_one_and_in_a_list() -> None:
    other = MCPServer("other")
    report = other.add([*collect(make_server()).everything])
    assert [tool.name for tool in report.others] == ["a://b", "ask"]
    assert other.add(collect(MCPServer("none")).everything).registered == []
    assert (len(other.registry), len(other.resources), len(other.prompts)) == (0, 1, 1)
    third = MCPServer("third")
    third.add(next(iter(other.prompts)))
    assert [tool.name for tool in third.prompts] == ["ask"]


def test_a_switch_turns_resources_off() -> None:
    batch = collect(make_server(), switches={"enable_extra_tools": False})
    assert [tool.options.enabled for tool in batch.everything] == [False, True]
