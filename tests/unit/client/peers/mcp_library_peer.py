"""A server with resources and prompts, built with the official SDK; run as `stdio` or `http PORT`."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.resources import TextResource
from mcp_types import (
    Completion,
    ElicitRequest,
    ElicitRequestFormParams,
    EmptyResult,
    InputRequiredResult,
    PromptReference,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)

warnings.simplefilter("ignore")
server = MCPServer("library", version="1.2.3", log_level="CRITICAL")
NAMES = ["Ada", "Alan", "Grace"]
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
subscribed: list[str] = []


@server.resource("note://static", title="A note", mime_type="text/plain")
def static() -> str:
    """A note that never changes."""
    return "żółw"


@server.resource("note://picture", mime_type="image/png")
def picture() -> bytes:
    """Some bytes."""
    return b"\x89PNG\x00\xff"


@server.resource("note://item/{name}", mime_type="text/plain")
def item(name: str) -> str:
    """One of many notes."""
    return f"the note of {name}"


@server.resource("secret://{topic}")
async def secret(topic: str, ctx: Context) -> Any:
    """A note that asks who wants it."""
    return f"{topic} for {await ask(ctx)}" if is_legacy(ctx) else ask_again(ctx, f"{topic} for")


@server.prompt(title="Greeting")
def greet(name: str, times: int = 1) -> str:
    """Greet somebody."""
    return " ".join([f"Greet {name}."] * times)


@server.prompt()
async def interview(ctx: Context) -> Any:
    """A prompt that asks who is asking."""
    return f"Hello, {await ask(ctx)}" if is_legacy(ctx) else ask_again(ctx, "Hello,")


def is_legacy(ctx: Context) -> bool:
    return ctx.request_context.protocol_version < "2026"


async def ask(ctx: Context) -> str:
    answer = await ctx.session.elicit_form("Who?", FORM, related_request_id=ctx.request_context.request_id)
    return str((answer.content or {})["name"])


def ask_again(ctx: Context, words: str) -> Any:
    if ctx.input_responses:
        return f"{words} {ctx.input_responses['who'].content['name']}"
    params = ElicitRequestFormParams(message="Who?", requested_schema=FORM)
    return InputRequiredResult(input_requests={"who": ElicitRequest(params=params)})


@server.completion()
async def complete(ref: Any, argument: Any, context: Any) -> Completion | None:
    chosen = (context.arguments or {}).get("initial", "") if context is not None else ""
    if isinstance(ref, PromptReference) and ref.name != "greet":
        return None
    values = [name for name in NAMES if name.startswith(argument.value or chosen)]
    return Completion(values=values[:2], total=len(values), has_more=len(values) > 2)


@server.tool()
async def touch(uri: str, ctx: Context) -> str:
    """Tell that a resource has changed."""
    await ctx.notify_resource_updated(uri)
    if uri in subscribed:
        await ctx.session.send_resource_updated(uri)
    return uri


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    """Add a resource and a prompt."""
    server.add_resource(TextResource(uri=f"note://{name}", name=name, text=name))
    server.add_prompt(Prompt.from_function(lambda: name, name=name, description=name))
    await ctx.notify_resources_changed()
    await ctx.notify_prompts_changed()
    return name


async def subscribe(ctx: Any, params: SubscribeRequestParams) -> EmptyResult:
    subscribed.append(str(params.uri))
    return EmptyResult()


async def unsubscribe(ctx: Any, params: UnsubscribeRequestParams) -> EmptyResult:
    subscribed.remove(str(params.uri))
    return EmptyResult()


low_level = server._lowlevel_server
low_level.add_request_handler("resources/subscribe", SubscribeRequestParams, subscribe)
low_level.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, unsubscribe)

if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", port=int(sys.argv[2]), host="127.0.0.1")
