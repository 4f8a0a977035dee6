"""Read the tools of an `MCPServer` of the official SDK (`FastMCP` before 2.0)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolcrib.content import Result
from toolcrib.errors import Finding
from toolcrib.sources.foreign.guards import is_own
from toolcrib.sources.foreign.offer import Offer
from toolcrib.sources.foreign.remarks import left_out


def read_offers(server: Any) -> Iterator[Offer]:
    for tool in _tools_of(server):
        resolved = frozenset(getattr(tool, "resolved_params", None) or ())
        context = getattr(tool, "context_kwarg", None)
        yield Offer(
            tool,
            server,
            _runner(tool),
            function=tool.fn if is_own(tool, "run") else None,  # a check may be in their `run`
            contexts=(context,) if context else (),
            injected=resolved,
            written=tool.fn,
        )


def _tools_of(server: Any) -> Any:
    """Its tools. Servers of universal-mcp are the SDK's with a manager of their own."""
    manager = getattr(server, "tool_manager", None) or server._tool_manager
    return manager.get_tools() if hasattr(manager, "get_tools") else manager.list_tools()


def _runner(tool: Any) -> Any:
    async def run(arguments: dict[str, Any], context: Any) -> Any:
        result = await tool.run(arguments, context, convert_result=True)
        if isinstance(result, tuple) and len(result) == 2:  # before 2.0: blocks, and structured data
            blocks, structured = result
            content = [block.model_dump(by_alias=True, mode="json", exclude_none=True) for block in blocks]
            return Result(content, structured, is_structured=structured is not None)
        return result

    return run


def remark(server: Any) -> Iterator[Finding]:
    """What the server has beside tools."""
    resources = server._resource_manager
    parts = {
        "resource": len(resources._resources) + len(resources._templates),
        "prompt": len(server._prompt_manager._prompts),
        "HTTP route": len(getattr(server, "_custom_starlette_routes", ())),
    }
    yield from left_out(server.name, parts)
