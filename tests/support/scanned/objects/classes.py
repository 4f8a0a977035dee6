"""Tool objects by their classes."""

from toolcrib import tool


class Echo:
    """Says it again."""

    name = "echo"
    description = "Echo a message back."
    input_schema = {
        "type": "object",
        "properties": {"message": {"type": "string"}},
        "required": ["message"],
    }

    async def execute(self, arguments: dict) -> dict:
        """Run it.

        Raises:
            ValueError: If there is nothing to say
        """
        return {"message": arguments["message"]}


class Shaped:
    output_schema = {"type": "object", "properties": {"n": {"type": "integer"}}}

    @property
    def name(self) -> str:
        return "shaped"

    @property
    def description(self) -> str:
        """Words about the words."""
        return "Has properties for its parts."

    @property
    def input_schema(self) -> dict:
        return {"type": "object", "properties": {}}

    async def execute(self, arguments: dict) -> dict:
        return {"n": 1}


class Base:
    name = ""
    description = "Inherited words."
    input_schema = {"type": "object", "properties": {}}

    async def execute(self, arguments: dict) -> dict:
        return {}


class Derived(Base):
    name = "derived"


@tool(tags=["marked"], read_only=True)
class Marked(Base):
    name = "marked_object"
    description = "Is marked as well."


class Capital:
    Name = "capital"
    Description = "Has parts with capitals."
    InputSchema = {"type": "object", "properties": {"a": {"type": "integer"}}}

    async def ExecuteAsync(self, arguments: dict) -> dict:
        return {}
