# imports: no
# doubts: guessed-server
"""An adapter whose server comes from elsewhere."""

from somewhere.application import mcp


@mcp.tool()
def ask(question: str, limit: int = 5) -> list[str]:
    """Ask something.

    Ejemplo:
        ask("why")
    """
    return []


@mcp.tool(name="told", description="Tell something.")
async def tell(words: str) -> None:
    """Not shown."""
