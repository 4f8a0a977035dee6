"""Options out of constants."""

from toolcrib import tool

NAME = "from_constant"
WORDS = "Words that are " + "joined."
TAGS = ["x", "y"]
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 0}},
    "required": ["n"],
}
MORE = {"read_only": True, "title": "More"}


@tool(name=NAME, description=WORDS, tags=TAGS)
def first(a: int) -> int:
    return a


@tool(input_schema=SCHEMA, description="A schema.")
def second(n: int) -> int:
    return n


@tool(**MORE)
def third(a: int = -1, b: str = NAME, c: tuple = (1, 2)) -> int:
    """Has options from a dict."""
    return a
