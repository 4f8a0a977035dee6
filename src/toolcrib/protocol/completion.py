"""completion/complete: values for the arguments of prompts and resource templates.

Nothing is completed that a client may not see or read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.context import LOCAL
from toolcrib.errors import CallError, RelayedError
from toolcrib.protocol import components
from toolcrib.protocol.calls import AwaitedResult, Peer, encode_mapping, read_options
from toolcrib.protocol.messages import INTERNAL_ERROR, Id, Reply, RPCError, invalid_params
from toolcrib.protocol.modern import method_not_found
from toolcrib.protocol.revisions import Revision

if TYPE_CHECKING:
    from toolcrib.protocol.engine import Engine
    from toolcrib.registry.completion import Completions

Params = dict[str, Any]
MAX_COMPLETIONS = 200
PERIOD_S = 5.0
"""The limit on completions per principal: people type, but not that fast."""


def is_served(engine: Engine) -> bool:
    """Whether the server has something with arguments to complete."""
    return engine.dispatcher.prompts.revision > 0 or components.is_served(engine)


def complete(
    engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params
) -> Reply | AwaitedResult:
    if not is_served(engine):
        raise method_not_found("completion/complete")
    if revision.modern:
        read_options(params)
    name, value, known = _read_argument(params)
    target = _find_target(engine, peer, params.get("ref"), revision)
    if (refusal := components.refuse_without_scopes(engine, peer, id_, target)) is not None:
        return refusal
    from toolcrib.registry.completion import (  # start-up time: loaded with the first prompt
        Completions,
        bind_completer,
        choices_of,
        names_of,
        rank,
    )

    if name not in names_of(target):
        raise invalid_params(f"'{target.name}' has no argument '{name[:80]}'")
    is_known = peer.principal is not LOCAL  # which all clients without credentials share
    if is_known and engine.completion_limit.take(peer.principal.binding) is not None:
        raise RPCError(INTERNAL_ERROR, "Too many completions: slow down", status=429)
    completer = target.completers.get(name)
    if completer is None:
        choices = _drop_hidden(engine, peer, target, name, known, choices_of(target, name))
        found = rank(choices, value, strict=True)
        return encode_mapping(engine, id_, revision, _to_wire(found))
    arguments = bind_completer(completer, value, known)
    if arguments is None:
        return encode_mapping(engine, id_, revision, _to_wire(Completions([], 0)))
    outcome = _run(engine, peer, target, name, known, completer, arguments)
    return AwaitedResult(engine, peer, id_, revision, outcome)


async def _run(
    engine: Engine,
    peer: Peer,
    target: Any,
    name: str,
    known: Mapping[str, str],
    completer: Any,
    arguments: Mapping[str, Any],
) -> Any:
    from toolcrib.registry.completion import rank  # start-up time

    result = await engine.dispatcher.run_bare(completer, arguments, principal=peer.principal)
    if result.is_error:
        text = str(result.error) if isinstance(result.error, CallError) else "Internal error"
        code = result.error.rpc_code if isinstance(result.error, RelayedError) else INTERNAL_ERROR
        raise RPCError(code, text, status=200)
    values = result.structured_content
    is_adopted = isinstance(values, dict) and target.adoption is not None  # of another library's server
    found = values["values"] if is_adopted else values if isinstance(values, list) else []
    shown = _drop_hidden(engine, peer, target, name, known, found)
    if is_adopted:
        return {"completion": values if len(shown) == len(found) else {"values": shown}}
    return _to_wire(rank(shown, arguments["value"]))


def _drop_hidden(
    engine: Engine, peer: Peer, target: Any, name: str, known: Mapping[str, str], values: list[Any]
) -> list[Any]:
    """Return values without those that lead to something that the client may not see or read."""
    from toolcrib.registry.completion import names_of, spell  # start-up time

    given = {key: known[key] for key in names_of(target) if key in known}
    unknown = {*names_of(target)} - {*given, name}
    admits = engine.dispatcher.admission(peer.principal, target, unknown)
    if admits is not None:
        decode = target.arguments.decode_texts
        values = [value for value in values if admits(decode({**given, name: spell(value)}))]
    if target.kind != "resource" or target.template is None or target.template.variables != (name,):
        return values
    from toolcrib.registry.resources import find_exact

    snapshot = engine.dispatcher.resources.snapshot

    def is_visible(value: Any) -> bool:
        exact = find_exact(snapshot, target.template.expand({name: value})) if type(value) is str else None
        if exact is None:
            return True
        own = None if exact.newest is None else exact.newest.tool
        return own is not None and engine.dispatcher.is_visible(peer.principal, own)

    return [value for value in values if is_visible(value)]


def _to_wire(found: Completions) -> dict[str, Any]:
    has_more = found.total > len(found.values)
    return {"completion": {"values": found.values, "total": found.total, "hasMore": has_more}}


def _find_target(engine: Engine, peer: Peer, ref: Any, revision: Revision) -> Any:
    """Return the prompt or resource that a reference names, if the client may see it."""
    kind = ref.get("type") if type(ref) is dict else None
    key = {"ref/prompt": "name", "ref/resource": "uri"}.get(kind) if type(kind) is str else None
    text = ref.get(key) if key is not None else None
    if type(text) is not str:
        raise invalid_params("ref must be a ref/prompt with a name or a ref/resource with a uri")
    dispatcher = engine.dispatcher
    if kind == "ref/prompt":
        found = dispatcher.prompts.try_get(text)
        error = components.unknown_prompt(text)
    else:
        found = dispatcher.resources.try_get(text) or components.find_visible(engine, peer, text)
        error = components.not_found(text, revision)
    if found is None or not dispatcher.is_visible(peer.principal, found):
        raise error
    return found


def _read_argument(params: Params) -> tuple[str, str, dict[str, str]]:
    """Return the name of the argument, its value so far, and the arguments that are known already."""
    argument = params.get("argument")
    name = argument.get("name") if type(argument) is dict else None
    value = argument.get("value") if type(argument) is dict else None
    if type(name) is not str or type(value) is not str:
        raise invalid_params("argument must have a name and a value, both strings")
    context = params.get("context")
    known = context.get("arguments", {}) if type(context) is dict else {}
    if type(known) is not dict:
        raise invalid_params("context.arguments must be an object")
    return name, value, {key: text for key, text in known.items() if type(text) is str}
