"""What else people write for the official SDK: resolvers, whole results with a model, methods, odd hints."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import Context, Elicit, ListRoots, MCPServer, Resolve
from mcp_types import CallToolResult, InputRequiredResult, ListRootsResult, TextContent
from pydantic import BaseModel, Field

odd = MCPServer("odd")


class Login(BaseModel):
    user: str


class Sum(BaseModel):
    total: int


async def login(ctx: Context) -> Login | Elicit[Login]:
    return Elicit("Who are you?", Login)


async def whole_folders() -> ListRoots:
    return ListRoots()


@odd.tool()
async def whoami(greeting: str, who: Annotated[Login, Resolve(login)]) -> str:
    """Say who is there.

    Args:
        greeting: How to begin.
    """
    return f"{greeting}, {who.user}"


@odd.tool()
async def where(roots: Annotated[ListRootsResult, Resolve(whole_folders)]) -> list[str]:
    """The client's folders, by a resolver."""
    return [str(root.uri) for root in roots.roots]


@odd.tool()
def checked(a: int) -> Annotated[CallToolResult, Sum]:
    """A whole result that promises a model."""
    return CallToolResult(content=[TextContent(type="text", text="sum")], structured_content={"total": a})


@odd.tool(structured_output=False)
def unstructured(a: int) -> dict[str, int]:
    """Promises nothing."""
    return {"a": a}


@odd.tool()
def maybe(a: int, ctx: Context | None = None) -> str:
    """An optional Context."""
    return f"{a} {ctx is not None}"


@odd.tool()
def contradicts(limit: Annotated[int, Field(le=3)] = 10) -> int:
    """A default that its own bounds refuse."""
    return limit


@odd.tool()
async def either(sure: bool, ctx: Context) -> str | InputRequiredResult:
    """Asks by returning state alone, once."""
    if ctx.request_state is None:
        return InputRequiredResult(request_state="again")
    return f"{sure} {ctx.request_state}"


@odd.tool()
async def restless(ctx: Context) -> InputRequiredResult:
    """Never comes to an end."""
    return InputRequiredResult(request_state="again")


class Till:
    def __init__(self) -> None:
        self.sum = 0

    def pay(self, amount: int) -> int:
        """Put money in."""
        self.sum += amount
        return self.sum


odd.add_tool(Till().pay)


@odd.tool(name="has space")
def spaced() -> str:
    """A name that is none."""
    return ""


@odd.tool(meta={"odd.example/a": 1})
def nothing() -> None:
    """Gives nothing."""


@odd.tool()
async def change(ctx: Context) -> str:
    """Changes the other server, which nobody sees."""
    ctx.mcp_server.add_tool(nothing, name="more")
    return "changed"


@odd.tool()
def later(a: int) -> Any:
    """Plain code that leaves something to await."""

    async def soon() -> int:
        return a + 1

    return soon()
