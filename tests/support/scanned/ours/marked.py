"""Marked functions in every form of the decorator."""

import toolcrib
from toolcrib import tool
from toolcrib import tool as offers


@tool
def plain(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: The first
        b: The second

    Returns:
        Their sum
    """
    return a + b


@tool()
def called(text: str) -> str:
    """Give the text back."""
    return text


@tool("renamed")
def original(x: float) -> float:
    """Double a number."""
    return x * 2


@tool("worded", "Say a word about something.")
def words(topic: str) -> str:
    """This is not shown."""
    return topic


@tool("schemed", "Take what the schema says.", {"type": "object", "properties": {"q": {"type": "string"}}})
def schemed(arguments: dict) -> str:
    return str(arguments)


@toolcrib.tool(name="by_module", title="By module", tags=["a", "b"], read_only=True)
async def by_module(flag: bool = False) -> bool:
    """Turn a flag around."""
    return not flag


@offers(
    description="Through an alias.", version="2.1", metadata={"owner": "desk", "level": 3}, idempotent=True
)
def through_alias(*, key: str, value: int | None = None) -> None:
    """Not shown either."""


@offers(meta={"x/y": 1}, icons=[{"src": "https://example.com/i.png"}], aliases=["other_name"])
def decorated_richly(first: str, /, second: str = "s") -> list[str]:
    """Join two texts.

    Tags:
        text, join
    """
    return [first, second]


def not_marked(a: int) -> int:
    """No tool."""
    return a
