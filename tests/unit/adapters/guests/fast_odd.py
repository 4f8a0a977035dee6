"""What else people write for fastmcp: an API, search, shared dependencies, partials, strictness."""

import functools
from typing import Annotated

import httpx2
from fastmcp import Context, FastMCP
from fastmcp.dependencies import Depends, Shared
from fastmcp.tools import Tool
from pydantic import Field

SPEC = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "https://pets.example"}],
    "paths": {
        "/pets/{id}": {
            "get": {
                "operationId": "get_pet",
                "summary": "One pet",
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": {
                    "200": {
                        "description": "ok",
                        "content": {
                            "application/json": {
                                "schema": {"type": "object", "properties": {"name": {"type": "string"}}}
                            }
                        },
                    }
                },
            }
        }
    },
}
ASKED: list[str] = []


def answer(request: httpx2.Request) -> httpx2.Response:
    ASKED.append(str(request.url))
    return httpx2.Response(200, json={"name": "Rex"})


pets = FastMCP.from_openapi(
    SPEC,
    client=httpx2.AsyncClient(base_url="https://pets.example", transport=httpx2.MockTransport(answer)),
    name="pets",
)


shared = FastMCP("shared")
strict = FastMCP("strict", strict_input_validation=True)
inner = FastMCP("inner")
MADE: list[str] = []


def make_pool() -> str:
    MADE.append("pool")
    return f"pool {len(MADE)}"


@shared.tool
def pool(shared: str = Shared(make_pool)) -> str:
    """Made once for all calls."""
    return shared


def scale(factor: int, x: Annotated[int, Field(description="What to scale")]) -> int:
    """Scale a number."""
    return factor * x


shared.add_tool(Tool.from_function(functools.partial(scale, 3), name="triple"))


@strict.tool
def exact(x: int) -> int:
    """Takes no text for a number."""
    return x


@inner.tool
async def deep(ctx: Context, user: str = Depends(lambda: "eve")) -> str:
    """Two mounts down."""
    await ctx.info("deep")
    return f"{ctx.fastmcp.name} {user}"


middle = FastMCP("middle")
middle.mount(inner, namespace="in")
outer = FastMCP("outer")
outer.mount(middle, namespace="mid")


@outer.prompt
def hello() -> str:
    return "hello"


@outer.custom_route("/health", methods=["GET"])
async def health(request):
    raise NotImplementedError
