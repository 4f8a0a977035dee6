"""Resources and prompts that servers of other libraries hide or deny stay hidden and denied."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from fastmcp import FastMCP
from fastmcp.exceptions import PromptError, ResourceError
from fastmcp.server.middleware import Middleware
from fastmcp.server.transforms import Transform
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer as OfficialServer
from mcp.server.mcpserver.exceptions import ResourceError as OfficialError
from mcp.shared.exceptions import MCPError

from toolcrib import MCPServer
from toolcrib.context import Principal
from toolcrib.errors import CallError, NotFoundError, ToolNotFoundError
from toolcrib.policy import Policy, Rule
from toolcrib.sources.foreign import bridge

OPEN, HIDDEN, DENIED = "docs://open", "docs://hidden", "docs://denied"
UNREADABLE = (CallError, ToolNotFoundError)


@pytest.fixture(params=["direct", "streams"], autouse=True)
def _session_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "streams":
        monkeypatch.setattr(bridge, "is_direct", lambda _: False)


# --- their guards ------------------------------------------------------------------------------------


class OfficialSubclass(OfficialServer):
    async def list_resources(self) -> Any:
        return [item for item in await super().list_resources() if item.uri != HIDDEN]

    async def read_resource(self, uri: Any, *args: Any, **kwargs: Any) -> Any:
        if str(uri) in (HIDDEN, DENIED):
            raise OfficialError(f"{uri} is not for you")
        return await super().read_resource(uri, *args, **kwargs)

    async def list_prompts(self) -> Any:
        return [item for item in await super().list_prompts() if item.name != "hidden"]

    async def get_prompt(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if name in ("hidden", "denied"):
            raise MCPError(code=-32050, message=f"{name} is not for you")
        return await super().get_prompt(name, *args, **kwargs)


class Denying(Middleware):
    async def on_read_resource(self, context: Any, call_next: Any) -> Any:
        if str(context.message.uri) in (HIDDEN, DENIED):
            raise ResourceError("not for you")
        return await call_next(context)

    async def on_list_resources(self, context: Any, call_next: Any) -> Any:
        return [item for item in await call_next(context) if str(item.uri) != HIDDEN]

    async def on_get_prompt(self, context: Any, call_next: Any) -> Any:
        if context.message.name in ("hidden", "denied"):
            raise PromptError("not for you")
        return await call_next(context)

    async def on_list_prompts(self, context: Any, call_next: Any) -> Any:
        return [item for item in await call_next(context) if item.name != "hidden"]


class Hiding(Transform):
    """Hides from lists and from reading."""

    async def list_resources(self, resources: Any) -> Any:
        return [item for item in resources if str(item.uri) != HIDDEN]

    async def get_resource(self, uri: str, call_next: Any, **options: Any) -> Any:
        return None if uri in (HIDDEN, DENIED) else await call_next(uri, **options)

    async def list_prompts(self, prompts: Any) -> Any:
        return [item for item in prompts if item.name != "hidden"]

    async def get_prompt(self, name: str, call_next: Any, **options: Any) -> Any:
        return None if name in ("hidden", "denied") else await call_next(name, **options)


async def deny(ctx: Any, call_next: Any) -> Any:
    if ctx.method == "resources/read" and ctx.params["uri"] in (HIDDEN, DENIED):
        raise MCPError(code=-32050, message="not for you")
    if ctx.method == "prompts/get" and ctx.params["name"] in ("hidden", "denied"):
        raise MCPError(code=-32050, message="not for you")
    return await call_next(ctx)


def replaced() -> Any:
    """A server whose read handler was replaced."""
    server = OfficialServer("x")
    low: Any = server._lowlevel_server
    own = low.get_request_handler("resources/read").handler

    async def read(ctx: Any, params: Any) -> Any:
        if params.uri in (HIDDEN, DENIED):
            raise MCPError(code=-32050, message="not for you")
        return await own(ctx, params)

    low.add_request_handler("resources/read", types.ReadResourceRequestParams, read)
    return server


SERVERS: dict[str, Any] = {
    "a subclass of mcp": lambda: OfficialSubclass("x"),
    "middleware of mcp": lambda: OfficialServer("x", middleware=[deny]),
    "a replaced handler": replaced,
    "middleware of fastmcp": lambda: FastMCP("x", middleware=[Denying()]),
    "a transform": lambda: FastMCP("x", transforms=[Hiding()]),
}
HIDING = ("a subclass of mcp", "middleware of fastmcp", "a transform")
WITH_PROMPTS = [name for name in SERVERS if name != "a replaced handler"]


def make(kind: str) -> Any:
    server: Any = SERVERS[kind]()
    for uri in (OPEN, HIDDEN, DENIED):
        server.resource(uri, name=uri.partition("//")[2])(lambda: "contents")
    for name in ("open", "hidden", "denied"):
        server.prompt(name=name)(lambda: "message")
    return server


@asynccontextmanager
async def served(theirs: Any, *, policy: Policy | None = None, **options: Any) -> AsyncIterator[MCPServer]:
    ours = MCPServer("ours", policy=policy)
    ours.add(theirs, **options)
    async with ours:
        yield ours


@pytest.mark.parametrize("kind", SERVERS)
async def test_anything_that_a_server_denies_to_read_stays_denied(kind: str) -> None:
    async with served(make(kind)) as ours:
        assert (await ours.read(OPEN))[0]["text"] == "contents"
        for uri in (HIDDEN, DENIED):
            with pytest.raises(UNREADABLE):
                await ours.read(uri)


@pytest.mark.parametrize("kind", WITH_PROMPTS)
async def test_prompts_that_a_server_denies_stay_denied(kind: str) -> None:
    async with served(make(kind)) as ours:
        assert (await ours.get_prompt("open"))[0]["content"]["text"] == "message"
        for name in ("hidden", "denied"):
            with pytest.raises(UNREADABLE):
                await ours.get_prompt(name)


@pytest.mark.parametrize("kind", HIDING)
async def test_anything_that_a_server_hides_is_not_listed(kind: str) -> None:
    async with served(make(kind)) as ours:
        assert [item.name for item in ours.resources.get_all()] == [OPEN, DENIED]
        assert [item.name for item in ours.prompts.get_all()] == ["open", "denied"]


async def test_anything_that_is_hidden_later_cannot_be_read() -> None:
    theirs = FastMCP("x")
    theirs.resource(OPEN)(lambda: "contents")
    theirs.prompt(name="open")(lambda: "message")
    async with served(theirs) as ours:
        assert await ours.read(OPEN)
        theirs.disable(keys={f"resource:{OPEN}@", "prompt:open@"})
        with pytest.raises(NotFoundError):
            await ours.read(OPEN)
        with pytest.raises(NotFoundError):
            await ours.get_prompt("open")


# --- our policy --------------------------------------------------------------------------------------


def overlapping(library: str) -> Any:
    """A server that reads everything by one handler, or by templates that overlap."""
    if library == "low":
        return everything()
    server: Any = OfficialServer("x") if library == "official" else FastMCP("x")
    server.resource("docs://{name}", name="by name")(lambda name: f"by name: {name}")
    server.resource("docs://{+path}" if library == "official" else "docs://{path*}", name="by path")(
        lambda path: f"by path: {path}"
    )
    server.resource("docs://secret", name="secret")(lambda: "a secret")
    return server


def everything() -> Any:
    async def read(ctx: Any, params: Any) -> Any:
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text="read")])

    def listing(result: Any) -> Any:
        async def handler(ctx: Any, params: Any) -> Any:
            return result

        return handler

    templates = [
        types.ResourceTemplate(uri_template=text, name=text) for text in ("docs://{name}", "docs://{+path}")
    ]
    secret = types.Resource(uri="docs://secret", name="secret")
    return Server(
        "low",
        on_list_resources=listing(types.ListResourcesResult(resources=[secret])),
        on_list_resource_templates=listing(types.ListResourceTemplatesResult(resource_templates=templates)),
        on_read_resource=read,
    )


LIBRARIES = ("official", "fast", "low")
SECRET_SPELLINGS = ("docs://secret", "docs://secret?a=1", "docs://secret#a")


@pytest.mark.parametrize("library", LIBRARIES)
async def test_a_denied_resource_is_unknown_and_no_template_leads_to_it(library: str) -> None:
    policy = Policy(rules=[Rule(allow=["*"]), Rule(deny=["resource:docs://secret"])])
    async with served(overlapping(library), policy=policy) as ours, ours.connect() as client:
        listed = (await client.request("resources/list"))["resources"]
        assert listed == []
        assert await ours.read("docs://open")
        with pytest.raises(ToolNotFoundError):
            await ours.read("docs://secret")
        for uri in SECRET_SPELLINGS[1:]:
            try:
                contents = await ours.read(uri)
            except UNREADABLE:
                continue
            assert "a secret" not in contents[0]["text"]


@pytest.mark.parametrize("library", LIBRARIES)
async def test_a_resource_that_was_left_out_is_not_read_by_a_template(library: str) -> None:
    async with served(overlapping(library), exclude=["docs://secret"]) as ours:
        with pytest.raises(ToolNotFoundError):
            await ours.read("docs://secret")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("denied", [0, 1])
async def test_a_uri_of_two_templates_needs_both(library: str, denied: int) -> None:
    names = ["docs://{name}", "docs://{path*}" if library == "fast" else "docs://{+path}"]
    pattern = names[denied].replace("*", "[*]")
    policy = Policy(rules=[Rule(allow=["*"]), Rule(deny=[f"resource:{pattern}"], who=["key:eve"])])
    ada, eve = Principal("key:ada"), Principal("key:eve")
    async with served(overlapping(library), policy=policy) as ours:
        assert await ours.read("docs://a", principal=ada)
        for uri in ("docs://a", "docs://a,b"):
            with pytest.raises(UNREADABLE):
                await ours.read(uri, principal=eve)
        if denied == 0:
            assert await ours.read("docs://a/b", principal=eve)


async def test_a_denied_prompt_is_unknown_and_not_completed() -> None:
    theirs = FastMCP("x")
    theirs.prompt(name="open")(lambda city: city)
    theirs.prompt(name="closed")(lambda city: city)
    theirs.completion(lambda ref, argument, context: ["Rome"])
    policy = Policy(rules=[Rule(allow=["*"]), Rule(deny=["prompt:closed"])])
    async with served(theirs, policy=policy) as ours, ours.connect() as client:
        assert [item["name"] for item in (await client.request("prompts/list"))["prompts"]] == ["open"]
        with pytest.raises(ToolNotFoundError):
            await ours.get_prompt("closed", {"city": "Rome"})
        for name in ("open", "closed"):
            ref = {"type": "ref/prompt", "name": name}
            params = {"ref": ref, "argument": {"name": "city", "value": ""}}
            if name == "open":
                assert (await client.request("completion/complete", params))["completion"]["values"] == [
                    "Rome"
                ]
            else:
                with pytest.raises(Exception, match="Unknown prompt"):
                    await client.request("completion/complete", params)


async def test_a_condition_on_arguments_that_their_library_converts_denies_in_doubt() -> None:
    theirs = FastMCP("x")
    theirs.prompt(name="pay")(lambda amount: str(amount))
    rule = Rule(deny=["prompt:pay"], when={"amount": "100"})
    async with served(theirs, policy=Policy(rules=[Rule(allow=["*"]), rule])) as ours:
        with pytest.raises(CallError):
            await ours.get_prompt("pay", {"amount": " 100"})


# --- lifespans ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [OfficialServer, FastMCP])
async def test_resources_that_a_lifespan_adds_are_listed(kind: Any) -> None:
    @asynccontextmanager
    async def lifespan(server: Any) -> AsyncIterator[dict[str, str]]:
        server.resource(OPEN, name="open")(lambda: "contents")
        yield {}

    theirs = kind("x", lifespan=lifespan)
    theirs.tool(name="f")(lambda: 1)
    theirs.resource(DENIED, name="before")(lambda: "there before")
    async with served(theirs) as ours:
        assert {item.name for item in ours.resources.get_all()} == {OPEN, DENIED}
        assert (await ours.read(OPEN))[0]["text"] == "contents"
