"""The methods of each library that register or remove tools."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from toolcrib.sources.scan.lineage import ancestors
from toolcrib.sources.scan.things import (
    UNKNOWN,
    Class,
    Door,
    Function,
    Guess,
    Known,
    Listing,
    Maker,
    Marker,
    Mount,
    Registration,
    Said,
    Server,
    Thing,
)

if TYPE_CHECKING:
    from toolcrib.sources.scan.expressions import Evaluator

_SERVERS: dict[tuple[str, str], Maker] = {
    ("toolcrib", "MCPServer"): "toolcrib",
    ("toolcrib", "ToolRegistry"): "toolcrib",
    ("mcp", "MCPServer"): "mcp",
    ("mcp", "FastMCP"): "mcp",
    ("fastmcp", "FastMCP"): "fastmcp",
}
_ONE = frozenset({"add_tool", "register_tool", "replace"})
_MANY = frozenset({"add_all", "register_all_tools"})
_CHANGES = frozenset({"add_provider", "add_tool_transformation", "add_transform", "disable", "enable"})
MAX_REGISTRATIONS = 1_000
"""Tools that are taken from one server; what has more is generated."""


def server_maker(thing: Thing) -> Maker | None:
    """Whose server calling this makes; None where it makes none."""
    if isinstance(thing, Known) and not thing.is_made:
        return _SERVERS.get((thing.package, thing.last))
    if isinstance(thing, Class):
        return next(
            (maker for item in ancestors(thing) if isinstance(item, Known) and (maker := server_maker(item))),
            None,
        )
    return None


def pass_door(evaluator: Evaluator, door: Door, said: Said) -> Thing:
    """What calling a method of a server comes to."""
    server, name = door.server, door.name
    first = evaluator.of(said.args[0], said.scope) if said.args else UNKNOWN
    if name == "tool":
        if isinstance(first, Function | Class):
            rest = Said(said.args[1:], said.keywords, said.scope, said.line)
            register(evaluator, server, first, rest, "tool")
            return first
        if said.args and isinstance(said.args[0], ast.Lambda):
            register(evaluator, server, first, said, "tool")
            return UNKNOWN
        return Marker(said, server)
    if name in _ONE:
        node = said.args[0] if said.args else next((item.value for item in said.keywords), None)
        thing = evaluator.of(node, said.scope) if node is not None else UNKNOWN
        rest = Said(said.args[1:], said.keywords, said.scope, said.line)
        register(evaluator, server, thing, rest, name)
    elif name == "add" and server.maker == "toolcrib":
        _add(evaluator, server, said)
    elif name in _MANY:
        rest = Said([], said.keywords, said.scope, said.line)
        for part in evaluator.items(first):
            register(evaluator, server, part.thing, rest, name, part.guesses)
    elif name in ("mount", "import_server"):
        _mount(evaluator, server, said)
    elif name in ("remove_tool", "remove") or (name == "disable" and server.maker == "toolcrib"):
        _take_out(server, name, said)
    elif name in _CHANGES:
        server.guesses.append(Guess("guessed-server", f"the server's {name}() may change it", said.line))
    return UNKNOWN


def _add(evaluator: Evaluator, server: Server, said: Said) -> None:
    rest = Said([], said.keywords, said.scope, said.line)
    for node in said.args:
        thing = evaluator.of(node.value if isinstance(node, ast.Starred) else node, said.scope)
        if isinstance(thing, Listing):
            for part in evaluator.items(thing):
                register(evaluator, server, part.thing, rest, "add", part.guesses)
        else:
            register(evaluator, server, thing, rest, "add")


def register(
    evaluator: Evaluator,
    server: Server,
    thing: Thing,
    said: Said,
    door: str,
    guesses: tuple[Guess, ...] = (),
) -> None:
    """Note that a thing was put on a server, with all that is doubtful about it by now."""
    evaluator.tracer.servers[server] = None
    if len(server.registrations) >= MAX_REGISTRATIONS:
        guess = Guess("guessed-more", f"only the first {MAX_REGISTRATIONS} tools of the server are read")
        if guess not in server.guesses:
            server.guesses.append(guess)
        return
    doubts = thing.guesses if isinstance(thing, Function | Class) else ()
    together = tuple(dict.fromkeys((*evaluator.tracer.guesses, *doubts, *guesses)))
    server.registrations.append(Registration(thing, said, door, together))


def _mount(evaluator: Evaluator, server: Server, said: Said) -> None:
    children = [evaluator.of(node, said.scope) for node in said.args]
    node = said.keyword("server")
    if node is not None:
        children.append(evaluator.of(node, said.scope))
    child = next((thing for thing in children if isinstance(thing, Server)), None)
    if child is None or child is server:
        server.guesses.append(Guess("guessed-more", "another server is mounted in it", said.line))
        return
    texts = [item for item in said.args if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    space = said.keyword("namespace") or said.keyword("prefix") or next(iter(texts), None)
    guesses = evaluator.tracer.guesses
    if space is None or (isinstance(space, ast.Constant) and space.value is None):
        server.mounts.append(Mount(child, "", guesses))
    elif isinstance(space, ast.Constant) and isinstance(space.value, str):
        server.mounts.append(Mount(child, space.value, guesses))
    else:
        guess = Guess("guessed-name", "the prefix of the server it is mounted in is not known", said.line)
        server.mounts.append(Mount(child, "", (*guesses, guess)))


def _take_out(server: Server, name: str, said: Said) -> None:
    gone = server.disabled if name == "disable" else server.removed
    first = said.args[0] if said.args else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        gone.add(first.value)
    else:
        server.guesses.append(Guess("guessed-server", f"the server's {name}() may take it away", said.line))
