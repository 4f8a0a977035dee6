"""Short ways to say things in a play: each is a message as the version in question puts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.clients.transcripts import META, Voice

Line = Callable[[Voice], Any]
OMIT = object()


def ask(method: Any, params: Any = OMIT, *, id_: Any = OMIT, **meta: Any) -> Line:
    """A request; `params` that are no object go as they are."""

    def build(voice: Voice) -> Any:
        message = voice.request(method, params if isinstance(params, dict) else {}, **meta)
        if params is not OMIT and not isinstance(params, dict):
            message["params"] = params
        elif not message["params"]:
            del message["params"]
        return message if id_ is OMIT else {**message, "id": id_}

    return build


def call(name: Any, arguments: Any = OMIT, *, id_: Any = OMIT, **meta: Any) -> Line:
    params = {"name": name} | ({} if arguments is OMIT else {"arguments": arguments})
    return ask("tools/call", params, id_=id_, **meta)


def log_level(level: Any) -> dict[str, Any]:
    """The envelope's wish to hear log lines."""
    return {f"{META}logLevel": level}
