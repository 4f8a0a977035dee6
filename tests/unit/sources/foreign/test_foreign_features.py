"""Resources, prompts and completion of servers of other libraries: the same as under their own library."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from fastmcp import Client as FastClient
from fastmcp import FastMCP
from mcp.client.client import Client
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Context
from mcp.server.mcpserver import MCPServer as OfficialServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from tests.unit.sources.foreign.answering_client import Person
from toolcrib import MCPServer
from toolcrib.client import Client as OwnClient
from toolcrib.context import Answer
from toolcrib.errors import InvalidArgumentsError, RemoteError
from toolcrib.sources.foreign import bridge

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
PNG = b"\x89PNG\r\n"
ICON = types.Icon(src="https://example.com/a.png", mime_type="image/png")
CITIES = ["Rome", "Ravenna", "Rimini", "Oslo"]


@pytest.fixture(params=["direct", "streams"], autouse=True)
def _session_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with both kinds of sessions: streams are the only one with older versions."""
    if request.param == "streams":
        monkeypatch.setattr(bridge, "is_direct", lambda _: False)


# --- the servers -------------------------------------------------------------------------------------


def official() -> Any:
    server: Any = OfficialServer("official")
    annotations = types.Annotations(audience=["user"], priority=0.5)
    server.resource(
        "shop://hours",
        title="Hours",
        mime_type="text/html",
        icons=[ICON],
        annotations=annotations,
        meta={"a": 1},
    )(hours)
    server.resource("shop://logo", mime_type="image/png")(logo)
    server.resource("shop://broken")(broken)
    server.resource("orders://{number}/{part}", description="A part of an order")(order)
    server.resource("files://{+path}")(file)
    server.prompt(title="Plan a trip", icons=[ICON])(plan)
    server.prompt()(crash)

    @server.completion()
    async def complete(ref: Any, argument: Any, context: Any) -> Any:
        return types.Completion(**complete_value(argument.value, context), total=9, has_more=True)

    return server


def fast() -> Any:
    server = FastMCP("fast")
    server.resource(
        "shop://hours", title="Hours", mime_type="text/html", annotations={"priority": 0.5}, tags={"open"}
    )(hours)
    server.resource("shop://logo", mime_type="image/png")(logo)
    server.resource("shop://broken")(broken)
    server.resource("orders://{number}/{part}", description="A part of an order")(order)
    server.resource("files://{path*}")(file)
    server.prompt(title="Plan a trip", meta={"b": 2})(plan)
    server.prompt(crash)

    @server.completion
    async def complete(ref: Any, argument: Any, context: Any) -> Any:
        return types.Completion(**complete_value(argument.value, context), total=9, has_more=True)

    return server


def low_level() -> Any:
    listed = types.Resource(uri="shop://hours", name="hours", size=3, icons=[ICON], _meta={"a": {"b": [1]}})
    template = types.ResourceTemplate(uri_template="orders://{number}/{part}", name="order")
    argument = types.PromptArgument(name="city", title="City", description="Where to", required=True)
    prompt = types.Prompt(name="plan", title="Plan", arguments=[argument, types.PromptArgument(name="days")])

    async def read(ctx: Any, params: Any) -> Any:
        if params.uri == "orders://9/missing":
            raise MCPError(code=-32002, message="no such order")
        if params.uri == "orders://9/denied":
            raise MCPError(code=-32050, message="not for you", data={"ask": "Ada"})
        parts = [types.TextResourceContents(uri="shop://other", text=params.uri, _meta={"c": 1})]
        blob = types.BlobResourceContents(uri=params.uri, blob="AAAA", mime_type="x/y")
        return types.ReadResourceResult(contents=[*parts, blob], _meta={"example.com/d": 1})

    async def get(ctx: Any, params: Any) -> Any:
        link = types.ResourceLink(type="resource_link", uri="shop://hours", name="hours")
        said = types.TextContent(type="text", text=str(params.arguments))
        return types.GetPromptResult(
            messages=[
                types.PromptMessage(role="assistant", content=said),
                types.PromptMessage(role="user", content=link),
            ]
        )

    async def complete(ctx: Any, params: Any) -> Any:
        return types.CompleteResult(
            completion=types.Completion(**complete_value(params.argument.value, params.context))
        )

    return Server(
        "low",
        on_list_resources=answer(types.ListResourcesResult(resources=[listed])),
        on_list_resource_templates=answer(types.ListResourceTemplatesResult(resource_templates=[template])),
        on_read_resource=read,
        on_list_prompts=answer(types.ListPromptsResult(prompts=[prompt])),
        on_get_prompt=get,
        on_completion=complete,
    )


def answer(result: Any) -> Any:
    async def handler(ctx: Any, params: Any) -> Any:
        return result

    return handler


def complete_value(typed: str, context: Any) -> dict[str, Any]:
    known = [f"{key}={value}" for key, value in ((context and context.arguments) or {}).items()]
    return {"values": [*(city for city in reversed(CITIES) if typed in city), *known]}


def hours() -> str:
    """When the shop is open."""
    return "<b>9 to 5</b>"


def logo() -> bytes:
    return PNG


def broken() -> str:
    raise RuntimeError("a secret")


def order(number: int, part: str) -> str:
    if part == "missing":
        raise ResourceNotFoundError("no such order")
    if part == "late":
        raise ResourceError("come back tomorrow")
    return f"{number!r} {part!r}"


def file(path: str) -> str:
    return f"file {path!r}"


def plan(city: str, days: int = 3) -> list[Any]:
    """Plan a trip."""
    return [f"{city!r} {days!r}", "And then?"]


def crash(why: str) -> str:
    raise RuntimeError(f"a secret {why}")


SERVERS: dict[str, Callable[[], Any]] = {"official": official, "fast": fast, "low": low_level}
READS = {
    "official": ["shop://hours", "shop://logo", "orders://5/total", "orders://5/a%2Fb", "files://a/b/c%20d"],
    "fast": [
        "shop://hours",
        "shop://logo",
        "orders://5/total",
        "orders://5/a%2Fb",
        "orders://5/a,b",
        "files://a/b",
    ],
    "low": ["shop://hours", "orders://5/total", "orders://x/y?z=1"],
}
FAILING = {
    "official": ["shop://broken", "orders://5/late", "orders://x/total"],
    "fast": ["shop://broken", "orders://x/total"],
    "low": ["orders://9/denied"],
}
UNKNOWN = {
    "official": ["shop://nothing", "orders://5/missing", "orders://5/a,b"],
    "fast": ["shop://nothing", "orders://5"],
    "low": ["orders://9/missing", "shop://nothing"],
}
PROMPTS: dict[str, list[dict[str, str]]] = {
    name: [{"city": "Rome"}, {"city": '{"a": 1}', "days": "5"}, {"city": "5", "days": "7"}]
    for name in SERVERS
}


# --- their client and ours ---------------------------------------------------------------------------


class Theirs:
    """The client of a library, with answers as JSON."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def lists(self) -> dict[str, Any]:
        names = ("list_resources", "list_resource_templates", "list_prompts")
        found = [await getattr(self._client, name)() for name in names]
        keys = ("resources", "resource_templates", "prompts")
        parts = [getattr(each, key, each) for each, key in zip(found, keys, strict=True)]
        return dict(zip(keys, ([dump(item) for item in part] for part in parts), strict=True))

    async def read(self, uri: str) -> Any:
        read = getattr(self._client, "read_resource_mcp", None) or self._client.read_resource
        return dump(await read(uri))

    async def get(self, name: str, arguments: dict[str, str]) -> Any:
        get = getattr(self._client, "get_prompt_mcp", None) or self._client.get_prompt
        return dump(await get(name, arguments))

    async def complete(self, ref: Any, name: str, value: str, known: dict[str, str]) -> Any:
        complete = getattr(self._client, "complete_mcp", None) or self._client.complete
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        return dump(await complete(kind(**ref), {"name": name, "value": value}, known))["completion"]


def dump(model: Any) -> Any:
    dumped = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    return strip(dumped) if "resultType" in dumped else dumped


def strip(result: Any) -> Any:
    """Remove what a server says about itself and about caching."""
    meta = {key: value for key, value in result.get("_meta", {}).items() if "serverInfo" not in key}
    kept = {key: value for key, value in result.items() if key not in ("resultType", "ttlMs", "cacheScope")}
    return {**kept, "_meta": meta} if meta else {key: kept[key] for key in kept if key != "_meta"}


@asynccontextmanager
async def at_home(server: Any) -> AsyncIterator[Theirs]:
    async with (FastClient if isinstance(server, FastMCP) else Client)(server) as client:
        yield Theirs(client)


@asynccontextmanager
async def served(server: Any, **options: Any) -> AsyncIterator[OwnClient]:
    ours = MCPServer("ours", **options)
    report = ours.add(server)
    assert not [finding for finding in report.findings if finding.code != "foreign-handlers"]
    async with ours, ours.connect() as client:
        yield client


@pytest.fixture(params=SERVERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# --- the same answers --------------------------------------------------------------------------------


async def test_everything_is_listed_as_the_server_lists_it(name: str) -> None:
    async with at_home(SERVERS[name]()) as client:
        theirs = await client.lists()
    async with served(SERVERS[name]()) as client:
        ours = [
            (await client.request("resources/list"))["resources"],
            (await client.request("resources/templates/list"))["resourceTemplates"],
            (await client.request("prompts/list"))["prompts"],
        ]

    assert ours == list(theirs.values())
    assert all(ours)


async def test_contents_are_passed_on_as_they_are(name: str) -> None:
    async with at_home(SERVERS[name]()) as client:
        theirs = [await client.read(uri) for uri in READS[name]]
    async with served(SERVERS[name]()) as client:
        ours = [strip(await client.request("resources/read", {"uri": uri})) for uri in READS[name]]

    assert ours == theirs


async def test_prompts_get_their_strings_unchanged(name: str) -> None:
    async with at_home(SERVERS[name]()) as client:
        theirs = [await client.get("plan", arguments) for arguments in PROMPTS[name]]
    async with served(SERVERS[name]()) as client:
        asked = [{"name": "plan", "arguments": arguments} for arguments in PROMPTS[name]]
        ours = [strip(await client.request("prompts/get", params)) for params in asked]

    assert ours == theirs


async def test_arguments_are_completed_by_the_server(name: str) -> None:
    prompt = {"type": "ref/prompt", "name": "plan"}
    template = {"type": "ref/resource", "uri": "orders://{number}/{part}"}
    cases = [
        (ref, argument, typed, known)
        for ref, argument in ((prompt, "city"), (template, "part"))
        for typed, known in (("R", {}), ("o", {"days": "3"}), ("none", {}))
    ]
    async with at_home(SERVERS[name]()) as client:
        theirs = [await client.complete(*case) for case in cases]
    async with served(SERVERS[name]()) as client:
        for (ref, argument, typed, known), wanted in zip(cases, theirs, strict=True):
            params = {
                "ref": ref,
                "argument": {"name": argument, "value": typed},
                "context": {"arguments": known},
            }
            assert (await client.request("completion/complete", params))["completion"] == wanted


# --- failures ----------------------------------------------------------------------------------------


async def test_a_failure_is_shown_as_the_library_shows_it(name: str) -> None:
    theirs, ours = [], []
    async with at_home(SERVERS[name]()) as client:
        for uri in FAILING[name]:
            with pytest.raises(MCPError) as wanted:
                await client.read(uri)
            theirs.append((wanted.value.error.code, wanted.value.error.message, wanted.value.error.data))
    async with served(SERVERS[name]()) as client:
        for uri in FAILING[name]:
            with pytest.raises(RemoteError) as error:
                await client.request("resources/read", {"uri": uri})
            ours.append((error.value.rpc_code, error.value.message, error.value.data))

    assert ours == theirs


async def test_an_unknown_resource_of_theirs_is_not_found(name: str) -> None:
    async with served(SERVERS[name]()) as client:
        for uri in UNKNOWN[name]:
            with pytest.raises(RemoteError) as error:
                await client.request("resources/read", {"uri": uri})

            assert (error.value.rpc_code, error.value.data) == (-32602, {"uri": uri})


async def test_a_missing_argument_of_a_prompt_is_refused(name: str) -> None:
    ours = MCPServer("ours")
    ours.add(SERVERS[name]())
    async with ours:
        with pytest.raises(InvalidArgumentsError, match="'city': required"):
            await ours.get_prompt("plan", {"days": "3"})


# --- their Context ------------------------------------------------------------------------------------


class Sure(BaseModel):
    sure: bool


def asking() -> Any:
    server: Any = OfficialServer("asking")

    @server.resource("slow://{part}")
    async def slow(part: str, ctx: Context) -> str:
        await ctx.report_progress(1, 2, part)
        answer = await ctx.elicit("Sure?", Sure)
        return f"{part}: {answer.action}"

    @server.prompt()
    async def ask(topic: str, ctx: Context) -> str:
        answer = await ctx.elicit("Sure?", Sure)
        return f"{topic}: {answer.action}"

    return server


async def test_questions_and_progress_reach_the_caller() -> None:
    ours = MCPServer("ours")
    ours.add(asking())
    async with ours:
        person = Person(Answer("accept", {"sure": True}), Answer("decline"))
        resource, prompt = ours.resources.get("slow://{part}"), ours.prompts.get("ask")
        read = await ours.dispatcher.run(
            resource, "slow://a", {"uri": "slow://a"}, kind="resource", channel=person
        )
        got = await ours.dispatcher.run(
            prompt, "ask", {"topic": "tea"}, kind="prompt", channel=Person(Answer("decline"))
        )

    assert person.told == [(1, 2, "a")]
    assert read.content == [{"uri": "slow://a", "mimeType": "text/plain", "text": "a: accept"}]
    assert got.content[0]["content"]["text"] == "tea: decline"


# --- how they are registered -------------------------------------------------------------------------


def test_each_is_marked_with_the_way_that_it_goes(name: str) -> None:
    ours = MCPServer("ours")
    ours.add(SERVERS[name]())

    for tool in (*ours.resources.get_all(), *ours.prompts.get_all()):
        assert tool.adoption is not None
        assert (tool.adoption.way, tool.adoption.reason) == ("handlers", f"it is a {tool.kind}")


def test_tags_and_scopes_apply_to_them() -> None:
    ours = MCPServer("ours")
    ours.add(fast(), scopes=["shop"], include=["tag:open"])

    (resource,) = ours.resources.get_all()
    assert (resource.name, tuple(resource.options.scopes)) == ("shop://hours", ("shop",))
    assert not ours.prompts.get_all()


def test_a_description_with_hidden_characters_is_refused() -> None:
    server = FastMCP("x")
    server.resource("a://b", description="fine\u202edelived")(hours)
    server.prompt(description="fine\U000e0041")(plan)

    report = MCPServer("ours").add(server)

    assert [(finding.level, finding.tool) for finding in report.findings] == [
        ("error", "a://b"),
        ("error", "plan"),
    ]


async def test_a_server_without_completion_has_no_values() -> None:
    server = OfficialServer("x")
    server.prompt()(plan)
    params = {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "city", "value": "R"}}
    async with served(server) as client:
        assert (await client.request("completion/complete", params))["completion"]["values"] == []
        params["argument"]["name"] = "street"
        with pytest.raises(RemoteError, match="has no argument 'street'"):
            await client.request("completion/complete", params)
