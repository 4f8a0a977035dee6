"""Read the tools of servers of the official SDK and of `fastmcp`.

Their listing is asynchronous, so it runs on its own event loop in a thread. If a transformation stands in
front of a function, the tool's own `run` method is called instead of the function.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from toolcrib.content import Result
from toolcrib.errors import Finding, SourceError
from toolcrib.sources.foreign.guards import is_own
from toolcrib.sources.foreign.offer import Offer, left_out
from toolcrib.sources.foreign.recognition import library_of, started_on


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


T = TypeVar("T")
LIST_S = 30.0
"""How long a server may take to list its tools: one that is a proxy asks others."""
MAX_MOUNTS = 32
"""How deep servers may be mounted in each other."""


@dataclass(slots=True)
class Contents:
    """Everything a server holds. `offers` are tools with the servers they come from."""

    offers: list[Offer] = field(default_factory=list)
    parts: dict[str, int] = field(default_factory=dict)


def read_contents(server: Any) -> Contents:
    return run_apart(lambda: _read(server))


def remark_fast(contents: Contents, server: Any) -> Iterator[Finding]:
    """What the server has beside tools."""
    yield from left_out(server.name, contents.parts)


def mounted_in(server: Any) -> Iterator[Any]:
    """The servers that are mounted in this one, directly or not."""
    for provider in getattr(server, "providers", ()):
        inner = provider
        for _ in range(MAX_MOUNTS):  # providers wrap each other to rename what is below
            inner = getattr(inner, "_inner", None) or inner
        child = getattr(inner, "server", None)
        if child is not None and child is not server and library_of(child) is not None:
            yield child
            yield from mounted_in(child)
    for mounted in getattr(server, "_mounted_servers", ()):  # of fastmcp before 3
        yield mounted.server
        yield from mounted_in(mounted.server)


# --- reading -----------------------------------------------------------------------------------------


async def _read(server: Any) -> Contents:
    contents = Contents()
    # Else tools that only some callers may see were missing; they are taken, and stay off.
    transport = getattr(sys.modules["fastmcp.server.context"], "_current_transport", None)
    if transport is not None:
        transport.set("stdio")
    for tool in await _list(server, "tools"):
        contents.offers.append(await _offer(tool, tool, server, 0))
    contents.parts = {
        "resource": len(await _list(server, "resources")) + len(await _list(server, "resource_templates")),
        "prompt": len(await _list(server, "prompts")),
        "HTTP route": len(getattr(server, "_additional_http_routes", ())),
    }
    return contents


async def _list(server: Any, kind: str) -> list[Any]:
    """Everything of a kind with all transformations, what is disabled too."""
    for cls in type(server).__mro__:
        if cls.__name__ == "Provider" and cls.__module__.startswith("fastmcp."):
            found = list(await getattr(cls, f"list_{kind}")(server))
            injected: list[Any] = getattr(server, "_injected_tools", list)() if kind == "tools" else []
            taken = {tool.name for tool in injected}
            return [*injected, *(item for item in found if item.name not in taken)]
    named = await getattr(server, f"get_{kind}")()  # of fastmcp before 3: by name
    return [_renamed(item, name) if kind == "tools" else item for name, item in named.items()]


def _renamed(tool: Any, name: str) -> Any:
    return tool if tool.name == name else tool.model_copy(update={"name": name})


async def _offer(shown: Any, tool: Any, server: Any, depth: int) -> Offer:
    """`shown` is the tool as the outermost server has it, `tool` the same one further in."""
    child = getattr(tool, "_server", None)
    if child is not None and type(tool).__name__ == "FastMCPProviderTool" and depth < MAX_MOUNTS:
        inner = await child.get_tool(tool._original_name, version=_exactly(tool.version))
        if inner is not None:
            return await _offer(shown, inner, child, depth + 1)
    offer = Offer(
        shown,
        server,
        _runner_fast(tool),
        enabled=_is_enabled(shown),
        guarded=bool(getattr(tool, "auth", None)),
        runs_inline=not getattr(tool, "run_in_thread", True),
        is_strict=bool(getattr(server, "strict_input_validation", False)),
        written=_written(tool),
    )
    if type(tool).__name__ == "FunctionTool" and is_own(tool, "run"):
        offer.function = tool.fn
        offer.contexts, offer.injected = _injected_into(tool.fn)
    if _must_be_task(tool):
        words = f"Tool '{shown.name}' wants to run in the background; it runs as an ordinary call"
        offer.findings.append(Finding("foreign-task", "advice", words, tool=shown.name))
    return offer


def _written(tool: Any) -> Any:
    """The function that somebody wrote, at the end of transformations."""
    for _ in range(MAX_MOUNTS):
        tool = getattr(tool, "parent_tool", None) or tool
    return getattr(tool, "fn", None)


def _exactly(version: str | None) -> Any:
    return None if version is None else sys.modules["fastmcp.utilities.versions"].VersionSpec(eq=version)


def _runner_fast(tool: Any) -> Callable[[dict[str, Any], Any], Awaitable[Any]]:
    async def run(arguments: dict[str, Any], context: Any) -> Any:  # noqa: ARG001 - it is the current one
        return await tool.run(arguments)

    return run


def _injected_into(function: Any) -> tuple[tuple[str, ...], frozenset[str]]:
    """The parameters that get a Context, and those that get something else of fastmcp's."""
    dependencies = sys.modules.get("fastmcp.server.dependencies")
    find = getattr(dependencies, "get_dependency_parameters", None)
    if find is None:  # fastmcp before 2.14 injects by type alone
        by_type = sys.modules["fastmcp.utilities.types"].find_kwarg_by_type
        name = by_type(function, sys.modules["fastmcp.server.context"].Context)
        return ((name,) if name else ()), frozenset()
    found: dict[str, Any] = find(function)
    contexts = tuple(name for name, item in found.items() if type(item).__name__.endswith("CurrentContext"))
    return contexts, frozenset(found.keys() - set(contexts))


def _is_enabled(tool: Any) -> bool:
    marks = (getattr(tool, "meta", None) or {}).get("fastmcp") or {}
    visible = (marks.get("_internal") or {}).get("visibility", True)
    return bool(visible) and getattr(tool, "enabled", True) is not False


def _must_be_task(tool: Any) -> bool:
    return getattr(getattr(tool, "task_config", None), "mode", None) == "required"


def run_apart(make: Callable[[], Awaitable[T]]) -> T:
    """Run async code to its end from wherever we are, also where a loop runs already: on the loop that the
    server was started on, or else on a new one."""
    outcome: list[T] = []
    problem: list[BaseException] = []

    async def main() -> T:
        return await make()

    own_loop = started_on.get()

    def work() -> None:
        try:
            if own_loop is None:
                outcome.append(asyncio.run(main()))
            else:
                outcome.append(asyncio.run_coroutine_threadsafe(main(), own_loop).result())
        except BaseException as error:
            problem.append(error)

    thread = threading.Thread(target=work, name="toolcrib-reads-fastmcp", daemon=True)
    thread.start()
    thread.join(LIST_S)
    if problem:
        raise problem[0]
    if not outcome:
        raise SourceError(f"The server did not list its tools within {LIST_S:g} s")
    return outcome[0]
