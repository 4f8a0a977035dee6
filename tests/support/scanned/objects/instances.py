# doubts: duplicate-name
"""Tool objects that are made in the module."""

from dataclasses import dataclass, field

from toolcrib import MCPServer

EMPTY = {"type": "object", "properties": {}}


class Counter:
    def __init__(self, name: str, description: str = "Count something."):
        self.name = name
        self.description = description
        self.input_schema = {"type": "object", "properties": {"by": {"type": "integer", "default": 1}}}

    async def execute(self, arguments: dict) -> dict:
        return {}


@dataclass
class Recorded:
    name: str
    description: str = "Is a dataclass."
    input_schema: dict = field(default_factory=dict)

    async def execute(self, arguments: dict) -> dict:
        return {}


class Strict:
    name = "strict_tool"
    description = "Goes through the strict door."
    input_schema = EMPTY

    async def execute(self, arguments: dict) -> dict:
        return {}


first = Counter("count_first")
second = Counter("count_second", "Count differently.")
third = Recorded("recorded", input_schema=EMPTY)
server = MCPServer("objects")
server.register_tool(Strict())
server.register_all_tools([Counter("count_third", "Count a third time.")])
