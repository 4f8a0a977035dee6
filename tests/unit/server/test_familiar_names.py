"""Names that users of mcp and fastmcp type: accepted, or answered with the name here."""

import copy
from dataclasses import fields, replace
from typing import Any

import pytest

from toolcrib import Context, MCPServer, Tool, tool
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
        ({"on_duplicate_tools": "error"}, "did you mean 'on_duplicate'?"),
        ({"instruction": "x"}, "did you mean 'instructions'?"),
        ({"nme": "x"}, "did you mean 'name'?"),
    ],
)
def test_arguments_of_other_servers_are_answered(settings: dict[str, Any], hint: str) -> None:
    with pytest.raises(TypeError) as caught:
        MCPServer("x", **settings)
    name = next(iter(settings))
    assert str(caught.value) == f"MCPServer() got an unexpected keyword argument '{name}' ({hint})"


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


def test_a_policy_is_no_dict() -> None:
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
async def test_what_a_context_does_not_have_is_answered(name: str, hint: str) -> None:
    server = MCPServer()

    @server.tool
    async def try_it(ctx: Context) -> None:
        getattr(ctx, name)

    assert f"Context has no attribute '{name}' ({hint})" in (await server.call("try_it")).text
    with pytest.raises(AttributeError, match=name) as caught:
        getattr(Context("x", {}), name)
    assert hint in str(caught.value)
