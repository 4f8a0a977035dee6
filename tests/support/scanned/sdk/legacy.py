# imports: no
# doubts: guessed-call
"""As it was written for the SDK before 2.0, which is not installed here."""

from mcp.server.fastmcp import Context, FastMCP
from mcp.types import ToolAnnotations

mcp = FastMCP("legacy", dependencies=["pandas"])


@mcp.tool(annotations=ToolAnnotations(readOnlyHint=True))
async def search(query: str, ctx: Context, limit: int = 10) -> list[str]:
    """Search something.

    Args:
        query: What to look for
        limit: How many at most
    """
    return []


def setup(app: FastMCP):
    @app.tool()
    def later(a: int) -> int:
        """Registered later."""
        return a
