"""Questions on the wire, and the sealed state of a call that waits for answers.

What a client answers on 2026-07-28 comes back with a state that it could have changed, so the state is
sealed: with the principal, the tool and its arguments, a time to live, and the answers given so far. It
holds nothing that the client does not know already, hence is signed and not encrypted. Knows how questions
are spelt; refuses to know who waits for the answers.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.context import Answer, Completion, Folder, Folders, Form, Prompt, Question, Reply, Visit
from toolcrib.errors import CannotAskError
from toolcrib.protocol.messages import INVALID_PARAMS, Fault
from toolcrib.protocol.revisions import Revision
from toolcrib.validation import codec
from toolcrib.validation.validator import Validator

STATE_S = 600.0
"""How long a person may take to answer before the call has to be made afresh."""
MAX_ANSWERS_BYTES = 256 * 1024
_ACTIONS = ("accept", "decline", "cancel")


# --- spelling ----------------------------------------------------------------------------------------


def to_wire(question: Question) -> tuple[str, dict[str, Any]]:
    """The method and the parameters of a question."""
    match question:
        case Form(message, schema):
            return "elicitation/create", {"mode": "form", "message": message, "requestedSchema": schema}
        case Visit(message, url):
            return "elicitation/create", {"mode": "url", "message": message, "url": url}
        case Prompt(messages, max_tokens, system, options):
            if isinstance(messages, str):
                messages = [{"role": "user", "content": {"type": "text", "text": messages}}]
            params: dict[str, Any] = {**options, "messages": list(messages), "maxTokens": max_tokens}
            if system is not None:
                params["systemPrompt"] = system
            return "sampling/createMessage", params
        case Folders():
            return "roots/list", {}


def from_wire(question: Question, raw: Any) -> Reply | None:
    """The reply to a question, or None where this is no reply to it."""
    if not isinstance(raw, Mapping):
        return None
    match question:
        case Form() | Visit():
            action, content = raw.get("action"), raw.get("content")
            if action not in _ACTIONS or not isinstance(content, Mapping | None):
                return None
            if action == "accept" and isinstance(question, Form) and not _fits(question, content or {}):
                return None
            return Answer(action, dict(content or {}))
        case Prompt():
            if not isinstance(raw.get("role"), str) or not isinstance(raw.get("content"), Mapping | list):
                return None
            model, stop = raw.get("model"), raw.get("stopReason")
            return Completion(
                raw["content"],
                raw["role"],
                model if isinstance(model, str) else "",
                stop if isinstance(stop, str) else None,
            )
        case Folders():
            roots = raw.get("roots")
            if not isinstance(roots, list) or not all(_is_root(root) for root in roots):
                return None
            return [Folder(root["uri"], root.get("name")) for root in roots]


def _fits(question: Form, content: Mapping[str, Any]) -> bool:
    validator = Validator(question.schema)
    return validator.find_excess(content) is None and validator.is_valid(dict(content))


def _is_root(root: Any) -> bool:
    return (
        isinstance(root, Mapping)
        and isinstance(root.get("uri"), str)
        and isinstance(root.get("name"), str | None)
    )


def abilities_of(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """What of a client's capabilities is looked at, and nothing else: a session keeps it."""
    found: dict[str, Any] = {}
    for name in ("elicitation", "sampling", "roots"):
        ability = capabilities.get(name)
        if isinstance(ability, Mapping):
            found[name] = {key: {} for key in ("form", "url") if key in ability}
    return found


def check_capability(question: Question, capabilities: Mapping[str, Any], revision: Revision) -> None:
    """Raise CannotAskError where the client cannot be asked this; its details say what it lacks."""
    match question:
        case Form():
            ability = capabilities.get("elicitation")
            known = revision.elicits and isinstance(ability, Mapping)
            if known and (not ability or "form" in ability or "url" not in ability):
                return
            lacks: dict[str, Any] = {"elicitation": {}}
        case Visit():
            ability = capabilities.get("elicitation")
            if revision.elicits_by_url and isinstance(ability, Mapping) and "url" in ability:
                return
            lacks = {"elicitation": {"url": {}}}
        case Prompt():
            if isinstance(capabilities.get("sampling"), Mapping):
                return
            lacks = {"sampling": {}}
        case Folders():
            if isinstance(capabilities.get("roots"), Mapping):
                return
            lacks = {"roots": {}}
    words = f"This client cannot be asked that: it does not declare '{next(iter(lacks))}'."
    raise CannotAskError(words, details={"requiredCapabilities": lacks})


# --- the sealed state --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a state holds: the answers so far, its own `mark`, the keys that were ever asked for (`seen`), and
    whether one of them was asked for the first time when this state was made."""

    answers: dict[str, Any]
    mark: str
    seen: frozenset[str]
    is_fresh: bool


class Sealer:
    """Signs the state of calls that wait. `key` is shared by the workers of a server; `now` is the time."""

    def __init__(self, key: bytes | None = None, *, now: Callable[[], float]) -> None:
        self._key = key or secrets.token_bytes(32)
        self._now = now

    def seal(
        self,
        binding: list[Any],
        answers: Mapping[str, Any],
        asked: Iterable[str] = (),
        seen: frozenset[str] = frozenset(),
    ) -> str:
        """`binding` is what the state must come back with: principal, tool and arguments. `asked` are
        the keys of what is asked now, `seen` those of what was asked before."""
        now = frozenset(asked)
        body = codec.write(
            {
                "answers": answers,
                "until": int(self._now() + STATE_S),
                "salt": secrets.token_hex(8),
                "seen": sorted(seen | now),
                "fresh": not now <= seen,
            }
        )
        return base64.urlsafe_b64encode(self._sign(binding, body) + body).decode().rstrip("=")

    def open(self, state: Any, binding: list[Any]) -> Sealed:
        """What is in a state. Raises Fault for one that is not ours, of another call, or too old. It may come
        more than once: whoever minds remembers the mark."""
        if not isinstance(state, str) or len(state) > 2 * MAX_ANSWERS_BYTES:
            raise _bad_state()
        try:
            padded = state.encode("ascii") + b"=" * (-len(state) % 4)
            raw = base64.b64decode(padded, altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise _bad_state() from None
        if base64.urlsafe_b64encode(raw).decode().rstrip("=") != state:
            raise _bad_state()  # another spelling of the same bytes
        mark, body = raw[:32], raw[32:]
        if not hmac.compare_digest(mark, self._sign(binding, body)):
            raise _bad_state()
        content = codec.decode(body)
        if content["until"] < self._now():
            raise Fault(INVALID_PARAMS, "This requestState has expired: make the call afresh", status=200)
        return Sealed(content["answers"], content["salt"], frozenset(content["seen"]), content["fresh"])

    def _sign(self, binding: list[Any], body: bytes) -> bytes:
        bound = hashlib.sha256(codec.canonical(binding)).digest()
        return hmac.new(self._key, bound + body, hashlib.sha256).digest()


def _bad_state() -> Fault:
    return Fault(INVALID_PARAMS, "Invalid requestState: it is not one of this call's", status=200)
