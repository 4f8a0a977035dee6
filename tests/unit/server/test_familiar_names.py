"""Names that users of mcp and fastmcp type: accepted, or answered with the name here."""

import copy
import sys
from dataclasses import fields, replace
from typing import Any

import pytest

import toolcrib
from toolcrib import Context, MCPServer, Result, Tool, testing, tool
from toolcrib.client import Client
from toolcrib.context import NullChannel
from toolcrib.errors import ConfigurationError, InvalidToolError
from toolcrib.policy import Audit, Limit, Policy, Rule, Tasks


def look(query: str, debug: bool = False) -> str:
    """Look something up."""
    return query


# --- options of tools --------------------------------------------------------------------------------


class ToolAnnotations:
    """What mcp passes: a pydantic model."""

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return {"title": "Look", "readOnlyHint": True}


@pytest.mark.parametrize("given", [ToolAnnotations(), {"title": "Look", "readOnlyHint": True}])
def test_annotations_are_options(given: Any) -> None:
    server = MCPServer()
    server.tool(annotations=given)(look)
    definition = server.registry.get("look").definition
    assert definition.title == "Look"
    assert definition.annotations == {"readOnlyHint": True}
    assert Tool.from_function(tool(annotations=given)(lambda: 1), name="x").options.read_only


def test_a_timeout_and_excluded_arguments_are_options() -> None:
    server = MCPServer()
    server.add(look, timeout=5, exclude_args=["debug"])
    assert server.registry.get("look").options.timeout_s == 5
    assert list(server.registry.get("look").definition.input_schema["properties"]) == ["query"]


WRONG: list[tuple[dict[str, Any], str, str | None]] = [
    ({"timeout": 5, "timeout_s": 6}, "Option 'timeout_s' is given twice, also by 'timeout'", None),
    (
        {"annotations": {"readOnlyHint": True}, "read_only": False},
        "Option 'read_only' is given twice, also by 'annotations'",
        None,
    ),
    (
        {"annotations": {"readonlyHint": True}},
        "Unknown annotation: readonlyHint",
        "did you mean 'readOnlyHint'?",
    ),
    ({"annotations": ["readOnlyHint"]}, "Option 'annotations' must be a dict, got ['readOnlyHint']", None),
    ({"annotations": {"readOnlyHint": "yes"}}, "Option 'read_only' must be True or False, got 'yes'", None),
    ({"auth": "x"}, "Unknown tool option: auth", "use scopes=[...] and a policy"),
    (
        {"confirm": True},
        "Unknown tool option: confirm",
        "use a rule: Rule(confirm=[...]) of toolcrib.policy, or ctx.ask in the tool",
    ),
    ({"serializer": str}, "Unknown tool option: serializer", "return the text, or a toolcrib.Result"),
    ({"timeouts": 5}, "Unknown tool option: timeouts", "did you mean 'timeout_s'?"),
]


@pytest.mark.parametrize(("options", "message", "hint"), WRONG)
def test_other_options_are_answered_with_their_name_here(
    options: dict[str, Any], message: str, hint: str | None
) -> None:
    for add in (lambda: MCPServer().add(look, **options), lambda: tool(**options)(look)):
        with pytest.raises(InvalidToolError) as caught:
            add()
        assert caught.value.message == message
        assert caught.value.hint == hint


# --- servers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({"port": 8000}, "give it to run: server.run('http', host=..., port=..., path=...)"),
        ({"tools": [look]}, "add them: server.add(first, second)"),
        ({"on_duplicate_tools": "error"}, "use on_duplicate=..."),
        ({"instruction": "x"}, "did you mean 'instructions'?"),
        ({"nme": "x"}, "did you mean 'name'?"),
    ],
)
def test_arguments_of_other_servers_are_answered(settings: dict[str, Any], hint: str) -> None:
    with pytest.raises(TypeError) as caught:
        MCPServer("x", **settings)
    name = next(iter(settings))
    assert str(caught.value) == f"MCPServer() got an unexpected keyword argument '{name}' ({hint})"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("http_app", " (use server.asgi())"),
        ("add_middleware", " (use server.middleware(...))"),
        ("add_template", " (use server.resource('orders://{id}'), which takes templates too)"),
        ("read_resource", " (use await server.read(uri))"),
        ("list_prompts", " (use server.prompts)"),
        ("render_prompt", " (use await server.get_prompt(name, arguments))"),
        ("completion", " (use @function.complete('argument') of a prompt or resource)"),
        ("get_tasks", " (use MCPServer(tasks=Tasks(...)) and @server.tool(task=...))"),
        ("nothing", ""),
    ],
)
def test_attributes_of_other_servers_are_answered(name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(MCPServer("x"), name)
    assert str(caught.value) == f"MCPServer has no attribute '{name}'{hint}"


@pytest.mark.parametrize("name", ["from_openapi", "from_fastapi", "as_proxy"])
def test_constructors_of_other_servers_are_answered_on_the_class_too(name: str) -> None:
    for owner in (MCPServer, MCPServer("x")):
        with pytest.raises(AttributeError) as caught:
            getattr(owner, name)
        hint = "make it with fastmcp and add it: server.add(made)"
        assert str(caught.value) == f"MCPServer has no attribute '{name}' ({hint})"


# --- the package -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("from toolcrib import FastMCP", "'FastMCP' (use `from toolcrib import MCPServer`)"),
        ("from toolcrib import Client", "'Client' (use `from toolcrib.client import Client`)"),
        ("from toolcrib import Policy", "'Policy' (import it from toolcrib.policy)"),
        ("from toolcrib import Rule", "'Rule' (import it from toolcrib.policy)"),
        ("from toolcrib import exceptions", "'exceptions' (use toolcrib.errors)"),
        ("import toolcrib.exceptions", "'exceptions' (use toolcrib.errors)"),
        ("from toolcrib.exceptions import ToolError", "'exceptions' (use toolcrib.errors)"),
        ("from toolcrib.types import Image", "'types' (use `from toolcrib import Audio, File, Image, Link`)"),
    ],
)
def test_imports_from_other_packages_are_answered(statement: str, text: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(statement, {})
    assert str(caught.value) == f"toolcrib has no {text}"


def test_attributes_of_other_packages_are_answered() -> None:
    with pytest.raises(AttributeError) as caught:
        toolcrib.FastMCP  # noqa: B018
    hint = "use `from toolcrib import MCPServer`"
    assert str(caught.value) == f"module 'toolcrib' has no attribute 'FastMCP' ({hint})"
    assert not hasattr(toolcrib, "Client")


def test_modules_of_other_packages_are_imported_as_ever() -> None:
    finder = next(item for item in sys.meta_path if getattr(item, "__module__", "") == "toolcrib")
    for name in ("types", "tools", "other.exceptions", "toolcrib.nothing"):
        assert finder.find_spec(name) is None


# --- clients and results -----------------------------------------------------------------------------


def test_attributes_of_other_clients_are_answered() -> None:
    hint = "(use client.call(name, arguments))"
    with pytest.raises(AttributeError) as caught:
        Client("http://127.0.0.1:1/mcp").call_tool  # noqa: B018
    assert str(caught.value) == f"Client has no attribute 'call_tool' {hint}"
    with testing.client(look) as client, pytest.raises(AttributeError) as caught:
        client.call_tool("look", {"query": "tea"})
    assert str(caught.value) == f"SyncClient has no attribute 'call_tool' {hint}"


@pytest.mark.parametrize(
    ("name", "here"), [("data", "structured_content"), ("isError", "is_error"), ("nothing", None)]
)
def test_attributes_of_other_results_are_answered(name: str, here: str | None) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(Result(), name)
    hint = f" (use result.{here})" if here else ""
    assert str(caught.value) == f"Result has no attribute '{name}'{hint}"


# --- policies ----------------------------------------------------------------------------------------


def test_a_misspelt_argument_of_a_policy_is_answered() -> None:
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (Rule, {"alow": ["look"]}, "did you mean 'allow'?"),
        (Limit, {"rates": "5/s"}, "did you mean 'rate'?"),
        (Policy, {"rule": []}, "did you mean 'rules'?"),
        (Tasks, {"x": 1}, f"settings: {', '.join(item.name for item in fields(Tasks))}"),
    ]
    for kind, given, hint in wrong:
        with pytest.raises(TypeError) as caught:
            kind(**given)
        name = next(iter(given))
        text = f"{kind.__name__}() got an unexpected keyword argument '{name}' ({hint})"
        assert str(caught.value) == text
    assert replace(copy.deepcopy(Audit("audit.db")), sync=True) == Audit("audit.db", sync=True)


def test_a_policy_is_not_a_dict() -> None:
    with pytest.raises(ConfigurationError, match=r"policy: must be a Policy of toolcrib\.policy, got dict"):
        MCPServer("x", policy={"rules": []})  # type: ignore[arg-type]


# --- the Context -------------------------------------------------------------------------------------


class Peer(NullChannel):
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.heard.append((progress, total, message))

    def log(self, level: str, data: Any) -> None:
        self.heard.append((level, data))


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_context_reports_and_logs_by_their_names(is_async: bool) -> None:
    async def speak(ctx: Context) -> None:
        await ctx.report_progress(1, 2, "half")
        await ctx.info("hello")
        await ctx.error("bad", extra={"code": 5})

    def speak_sync(ctx: Context) -> None:
        ctx.report_progress(1, 2, "half")
        ctx.info("hello")
        ctx.error("bad", extra={"code": 5})

    server, peer = MCPServer(), Peer()
    server.add(speak if is_async else speak_sync, name="speak")
    assert not (await server.call("speak", channel=peer)).is_error
    assert peer.heard == [
        (1, 2, "half"),
        ("info", "hello"),
        ("error", {"message": "bad", "extra": {"code": 5}}),
    ]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("elicit", "use ctx.ask('key', message, Model)"),
        ("session_state", "use await ctx.get_state('key') and await ctx.set_state('key', value)"),
        ("lifespan_context", "use ctx.state"),
        ("progres", "did you mean 'progress'?"),
    ],
)
async def test_anything_that_a_context_does_not_have_is_answered(name: str, hint: str) -> None:
    server = MCPServer()

    @server.tool
    async def try_it(ctx: Context) -> None:
        getattr(ctx, name)

    assert f"Context has no attribute '{name}' ({hint})" in (await server.call("try_it")).text
    with pytest.raises(AttributeError, match=name) as caught:
        getattr(Context("x", {}), name)
    assert hint in str(caught.value)
