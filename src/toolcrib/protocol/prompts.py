"""prompts/list and prompts/get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolcrib.content import Block, Result
from toolcrib.protocol.calls import Peer, begin, read_call, read_envelope, read_options
from toolcrib.protocol.lists import list_reply, read_cursor
from toolcrib.protocol.messages import INVALID_PARAMS, Id, Reply, RPCError, invalid_params
from toolcrib.protocol.resources import ComponentRequest
from toolcrib.protocol.revisions import Revision

if TYPE_CHECKING:
    from toolcrib.protocol.engine import Engine

Params = dict[str, Any]


class PromptGet(ComponentRequest):
    """One prompts/get."""

    kind = "prompt"
    __slots__ = ()

    def _not_found(self) -> RPCError:
        return unknown_prompt(self.name)

    def _shape(self, result: Result) -> dict[str, Any]:
        messages: list[Block] = [
            item if "role" in item else {"role": "user", "content": item} for item in result.content
        ]
        if not (self.revision.structured_output and self.revision.audio):
            shape = self.revision.shape_content
            messages = [{**item, "content": shape([item["content"]])[0]} for item in messages]
        wire: dict[str, Any] = {"messages": messages}
        description = result.structured_content
        if description is None and self.target is not None:
            description = self.target.definition.description
        return {"description": description, **wire} if description else wire

    @property
    def binding(self) -> list[Any]:
        return [self.peer.binding, "prompts/get", self.name, self.arguments or {}]


def is_served(engine: Engine) -> bool:
    """Whether the server has prompts, or has had some."""
    return engine.dispatcher.prompts.revision > 0


def unknown_prompt(name: str) -> RPCError:
    return RPCError(INVALID_PARAMS, f"Unknown prompt: {name[:200]}", status=200)


def list_prompts(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params) -> Reply:
    if revision.modern:
        read_options(params)
    entries = engine.dispatcher.view(peer.principal, engine.dispatcher.prompts)
    page = engine.lists.page("prompts", entries, revision, read_cursor(params))
    return list_reply(engine, id_, revision, page)


def get(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params) -> PromptGet:
    name, arguments = read_call(params)
    for key, value in (arguments or {}).items():
        if type(value) is not str:
            raise invalid_params(f"the argument '{key[:80]}' must be a string")
    prompt = engine.dispatcher.prompts.try_get(name)
    if prompt is not None and arguments:
        arguments = prompt.arguments.decode_texts(arguments)
    request = PromptGet(engine, peer, id_, revision, name, arguments, *read_envelope(peer, revision, params))
    request.target = prompt
    return begin(request, params)
