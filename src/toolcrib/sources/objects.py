"""The strict door for tool objects: the checks of `register_tool`, in their order, with their words.

Each function is one step; the server calls them in turn. Knows the shape of a tool object and nothing of
registries.
"""

from __future__ import annotations

from typing import Any

from toolcrib.definition import STRICT
from toolcrib.errors import DefinitionError, InvalidSchemaError, InvalidToolError
from toolcrib.schema.parameters import is_async_callable
from toolcrib.tool import MCPTool

SHORTEST_DESCRIPTION = 10
LONGEST_DESCRIPTION = 500
_NO_EXECUTE = "Tool must have callable 'execute' method"


def check_attributes(tool: Any) -> None:
    if not hasattr(tool, "name") or not hasattr(tool, "description"):
        raise InvalidToolError("Tool must have 'name' and 'description' attributes")
    if not hasattr(tool, "input_schema"):
        raise InvalidToolError("Tool must have 'input_schema' and 'execute' attributes")


def check_name(tool: MCPTool) -> None:
    STRICT.check(tool.name)


def check_description(tool: MCPTool) -> None:
    if not isinstance(tool.description, str):
        raise DefinitionError("Tool description must be string", tool=tool.name)
    if len(tool.description) < SHORTEST_DESCRIPTION:
        raise DefinitionError(
            f"Tool description too short (min {SHORTEST_DESCRIPTION} chars)", tool=tool.name
        )
    if len(tool.description) > LONGEST_DESCRIPTION:
        raise DefinitionError(f"Tool description too long (max {LONGEST_DESCRIPTION} chars)", tool=tool.name)


def check_schema(tool: MCPTool) -> None:
    """The form of the schema; whether it is one all through is found when the tool is built."""
    if not isinstance(tool.input_schema, dict):
        raise InvalidSchemaError("Tool input_schema must be dict", tool=tool.name)
    if tool.input_schema.get("type") != "object":
        raise InvalidSchemaError("Tool input_schema must have type='object'", tool=tool.name)
    if "properties" not in tool.input_schema:
        raise InvalidSchemaError("Tool input_schema must have 'properties' field", tool=tool.name)


def check_execute(tool: MCPTool) -> None:
    if not hasattr(tool, "execute"):
        text = f"Tool must have 'input_schema' and 'execute' attributes: {_NO_EXECUTE}"
        raise InvalidToolError(text, tool=tool.name)
    if not callable(tool.execute):
        raise InvalidToolError(_NO_EXECUTE, tool=tool.name)
    if not is_async_callable(tool.execute):
        raise InvalidToolError("Tool execute method must be async", tool=tool.name)
