"""Questions to the client: their form on the wire, and the sealed state of a call that waits for answers.

On 2026-07-28 the answers come back with a state that passes through the client, so the state is signed: over
the principal, the tool, its arguments, an expiry time and the answers given so far. It holds nothing that the
client does not know, so it is not encrypted.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.context import (
    RESERVED,
    Answer,
    Elicitation,
    Question,
    Reply,
    Root,
    Roots,
    Sampling,
    SamplingResult,
    URLElicitation,
)
from toolcrib.errors import CannotAskError
from toolcrib.protocol.messages import INVALID_PARAMS, RPCError
from toolcrib.protocol.revisions import Revision
from toolcrib.validation import codec
from toolcrib.validation.validator import Validator

STATE_S = 600.0
"""How long a person may take to answer before the call has to be made again."""
MAX_ANSWERS_BYTES = 256 * 1024
_ACTIONS = ("accept", "decline", "cancel")


# --- on the wire -------------------------------------------------------------------------------------


def to_wire(question: Question) -> tuple[str, dict[str, Any]]:
    """Return the method and the parameters of a question."""
    match question:
        case Elicitation(message, schema):
            return "elicitation/create", {"mode": "form", "message": message, "requestedSchema": schema}
        case URLElicitation(message, url):
            return "elicitation/create", {"mode": "url", "message": message, "url": url}
        case Sampling(messages, max_tokens, system, options):
            if isinstance(messages, str):
                messages = [{"role": "user", "content": {"type": "text", "text": messages}}]
            params: dict[str, Any] = {**options, "messages": list(messages), "maxTokens": max_tokens}
            if system is not None:
                params["systemPrompt"] = system
            return "sampling/createMessage", params
        case Roots():
            return "roots/list", {}


def read_request(request: Mapping[str, Any]) -> Question:
    """Return the question that `to_wire` has made this method and these parameters of."""
    method, params = request["method"], request["params"]
    if method == "sampling/createMessage":
        return Sampling(params["messages"], params["maxTokens"])
    if method == "roots/list":
        return Roots()
    if params["mode"] == "url":
        return URLElicitation(params["message"], params["url"])
    return Elicitation(params["message"], params["requestedSchema"])


def from_wire(question: Question, raw: Any) -> Reply | None:
    """Return the reply to a question, or None if `raw` is not a valid reply to it."""
    if not isinstance(raw, Mapping):
        return None
    match question:
        case Elicitation() | URLElicitation():
            action, content = raw.get("action"), raw.get("content")
            if action not in _ACTIONS or not isinstance(content, Mapping | None):
                return None
            if (
                action == "accept"
                and isinstance(question, Elicitation)
                and not _fits(question, content or {})
            ):
                return None
            return Answer(action, dict(content or {}))
        case Sampling():
            if not isinstance(raw.get("role"), str) or not isinstance(raw.get("content"), Mapping | list):
                return None
            model, stop = raw.get("model"), raw.get("stopReason")
            return SamplingResult(
                raw["content"],
                raw["role"],
                model if isinstance(model, str) else "",
                stop if isinstance(stop, str) else None,
            )
        case Roots():
            roots = raw.get("roots")
            if not isinstance(roots, list) or not all(_is_root(root) for root in roots):
                return None
            return [Root(root["uri"], root.get("name")) for root in roots]


def _fits(question: Elicitation, content: Mapping[str, Any]) -> bool:
    validator = Validator(question.schema)
    return validator.find_excess(content) is None and validator.is_valid(dict(content))


def _is_root(root: Any) -> bool:
    return (
        isinstance(root, Mapping)
        and isinstance(root.get("uri"), str)
        and isinstance(root.get("name"), str | None)
    )


def relevant_capabilities(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """Return the client capabilities that are ever looked at, for a session to keep."""
    found: dict[str, Any] = {}
    for name in ("elicitation", "sampling", "roots"):
        ability = capabilities.get(name)
        if isinstance(ability, Mapping):
            found[name] = {key: {} for key in ("form", "url") if key in ability}
    return found


def check_capability(question: Question, capabilities: Mapping[str, Any], revision: Revision) -> None:
    """Raise CannotAskError if the client does not support the question; the details name what it lacks."""
    match question:
        case Elicitation():
            ability = capabilities.get("elicitation")
            known = revision.elicitation and isinstance(ability, Mapping)
            if known and (not ability or "form" in ability or "url" not in ability):
                return
            lacks: dict[str, Any] = {"elicitation": {}}
        case URLElicitation():
            ability = capabilities.get("elicitation")
            if revision.url_elicitation and isinstance(ability, Mapping) and "url" in ability:
                return
            lacks = {"elicitation": {"url": {}}}
        case Sampling():
            if isinstance(capabilities.get("sampling"), Mapping):
                return
            lacks = {"sampling": {}}
        case Roots():
            if isinstance(capabilities.get("roots"), Mapping):
                return
            lacks = {"roots": {}}
    message = f"This client cannot be asked that: it does not declare '{next(iter(lacks))}'."
    raise CannotAskError(message, details={"requiredCapabilities": lacks})


# --- the sealed state --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SealedState:
    """The content of a state. `salt` identifies it, `seen` are the keys of all questions asked so far, and
    `is_first` says that one of them was asked for the first time when this state was made."""

    answers: dict[str, Any]
    salt: str
    seen: frozenset[str]
    is_first: bool


class StateSealer:
    """Signs the state of calls that wait for answers. All processes of a server have the same `keys`: the
    first signs, and what the others have signed is accepted."""

    def __init__(self, keys: Sequence[bytes] = (), *, now: Callable[[], float]) -> None:
        self._keys = keys or (secrets.token_bytes(32),)
        self._now = now

    def seal(
        self,
        binding: list[Any],
        answers: Mapping[str, Any],
        asked: Iterable[str] = (),
        seen: frozenset[str] = frozenset(),
    ) -> str:
        """Return a signed state that is valid with the same `binding` only.

        `asked` are the keys of the questions asked now, `seen` those of earlier ones.
        """
        keys = frozenset(asked)
        body = codec.write(
            {
                "answers": answers,
                "until": int(self._now() + STATE_S),
                "salt": secrets.token_hex(8),
                "seen": sorted(seen | keys),
                "fresh": not keys <= seen,
            }
        )
        return base64.urlsafe_b64encode(self._sign(self._keys[0], binding, body) + body).decode().rstrip("=")

    def open(self, state: Any, binding: list[Any]) -> SealedState:
        """Return the content of a state. Raise RPCError for one that is forged, of another call, or expired.

        A state may come more than once; a caller that minds has to remember its salt.
        """
        if not isinstance(state, str) or len(state) > 2 * MAX_ANSWERS_BYTES:
            raise _bad_state()
        try:
            padded = state.encode("ascii") + b"=" * (-len(state) % 4)
            raw = base64.b64decode(padded, altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise _bad_state() from None
        if base64.urlsafe_b64encode(raw).decode().rstrip("=") != state:
            raise _bad_state()  # another spelling of the same bytes
        signature, body = raw[:32], raw[32:]
        if not any(hmac.compare_digest(signature, self._sign(key, binding, body)) for key in self._keys):
            raise _bad_state()
        content = codec.decode(body)
        if content["until"] < self._now():
            raise RPCError(INVALID_PARAMS, "This requestState has expired: make the call again", status=200)
        return SealedState(content["answers"], content["salt"], frozenset(content["seen"]), content["fresh"])

    def _sign(self, key: bytes, binding: list[Any], body: bytes) -> bytes:
        bound = hashlib.sha256(codec.canonical(binding)).digest()
        return hmac.new(key, bound + body, hashlib.sha256).digest()


def _bad_state() -> RPCError:
    return RPCError(INVALID_PARAMS, "Invalid requestState: it does not belong to this call", status=200)


def read_answers(
    sealer: StateSealer, binding: list[Any], params: Mapping[str, Any]
) -> tuple[SealedState | None, dict[str, Any]]:
    """Return the state that came with a request, and the answers so far: those in it, and the new ones."""
    given = params.get("inputResponses", {})
    if type(given) is not dict:
        raise RPCError(INVALID_PARAMS, "Invalid params: inputResponses must be an object", status=200)
    # Answers without a state were given before they were asked for: they prove nothing about confirmations.
    state: SealedState | None = None
    if "requestState" in params:
        state = sealer.open(params["requestState"], binding)
        answers = state.answers | given
    else:
        answers = {key: answer for key, answer in given.items() if not key.startswith(RESERVED)}
    if len(codec.write(answers)) > MAX_ANSWERS_BYTES:
        raise RPCError(INVALID_PARAMS, "Invalid params: the answers are too long", status=200)
    return state, answers
