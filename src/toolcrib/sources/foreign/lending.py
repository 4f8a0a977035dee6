"""Create the other library's Context for the duration of a call, backed by our session.

The context is also set as the current one, so `get_context()`, injected parameters and calls of other tools
of the same server work as usual.
"""

from __future__ import annotations

import sys
import weakref
from contextvars import ContextVar, Token
from types import SimpleNamespace
from typing import Any

from toolcrib.context import Context
from toolcrib.sources.foreign.context import Guest
from toolcrib.sources.foreign.session import Bus, Request

_BUS = Bus()


class Lender:
    """Makes the Context of one server. `guest` is the server that was handed over; `server` is that one, or
    one that is mounted in it."""

    def __init__(self, guest: Guest, server: Any) -> None:
        self._guest = guest
        self._server = server
        self._make = _maker(guest, server)
        self._places = _Places(guest, server) if guest.library == "fastmcp" else None

    @property
    def is_ambient(self) -> bool:
        """Whether code may look for the current Context without asking for it in a parameter."""
        return self._places is not None

    def lend(self, context: Context) -> Loan:
        """Their Context of this call, for a `with` statement."""
        request = Request(context, self._guest.lifespan_context)
        return Loan(self._make(request), request, self._places)


class Loan:
    """Their Context, and the current one as long as it is lent."""

    __slots__ = ("_places", "_request", "_theirs", "_tokens")

    def __init__(self, theirs: Any, request: Request, places: _Places | None) -> None:
        self._theirs = theirs
        self._request = request
        self._places = places
        self._tokens: list[tuple[ContextVar[Any], Token[Any]]] = []

    def __enter__(self) -> Any:
        if self._places is not None:
            self._tokens = self._places.fill(self._theirs, self._request)
        return self._theirs

    def __exit__(self, *_: object) -> None:
        for variable, token in reversed(self._tokens):
            try:
                variable.reset(token)
            except ValueError:
                pass  # the call was let go and ends in a task of its own, whose variables nobody else sees


def give_answers(theirs: Any, answers: Any, state: str | None) -> None:
    """What a function finds in its Context that asked by returning questions."""
    if hasattr(type(theirs), "_task_input_responses") or hasattr(theirs, "_task_input_responses"):
        theirs._task_input_responses, theirs._task_request_state = answers, state
    else:
        theirs._input_params = SimpleNamespace(input_responses=answers, request_state=state)


def _maker(guest: Guest, server: Any) -> Any:
    """What makes a Context of theirs out of a request."""
    if guest.library == "fastmcp":
        fast = sys.modules["fastmcp.server.context"].Context
        return lambda _: fast(fastmcp=server)
    home = next(cls for cls in type(server).__mro__ if cls.__name__ in ("MCPServer", "FastMCP"))
    made = vars(sys.modules[home.__module__])["Context"]
    if home.__name__ == "FastMCP":
        return lambda request: made(request_context=request, fastmcp=server)
    return lambda request: made(request_context=request, mcp_server=server, subscriptions=_BUS)


class _Places:
    """Where fastmcp looks for the current Context, server and request."""

    def __init__(self, guest: Guest, server: Any) -> None:
        self._root = guest.server
        self._home = weakref.ref(server)
        self._context: ContextVar[Any] = sys.modules["fastmcp.server.context"]._current_context
        found = sys.modules.get("fastmcp.server.dependencies")
        self._current: ContextVar[Any] | None = getattr(found, "_current_server", None)
        request = getattr(found, "fastmcp_request_ctx", None)
        if request is None:  # of fastmcp before 4, which has the SDK's
            request = getattr(sys.modules.get("mcp.server.lowlevel.server"), "request_ctx", None)
        self._request: ContextVar[Any] | None = request

    def fill(self, theirs: Any, request: Request) -> list[tuple[ContextVar[Any], Token[Any]]]:
        tokens = [(self._context, self._context.set(theirs))]
        if self._request is not None:
            tokens.append((self._request, self._request.set(request)))
        if self._current is not None:
            tokens.append((self._current, self._current.set(self._home)))
        shared = getattr(self._root, "_shared_context_snapshot", None)  # what the lifespan opened for all
        for variable, value in (shared or {}).items():
            tokens.append((variable, variable.set(value)))
        return tokens
