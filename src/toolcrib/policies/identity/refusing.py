"""What somebody at the door is told who does not get in, and where to get what opens it.

The challenges are those of RFC 6750 in the form that MCP asks for, the document is that of RFC 9728. Whatever
goes into a header is made of characters that a header may have. Knows HTTP's words about credentials; refuses
to know which credentials are good.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

Fields = tuple[tuple[bytes, bytes], ...]

WELL_KNOWN = "/.well-known/oauth-protected-resource"
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_NOT_QUOTABLE = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")
_MAX_WORDS = 200
_REALM = "toolcrib"


@dataclass(frozen=True, slots=True)
class Refused:
    """Somebody who does not get in: HTTP's status, words for people, header fields. Where `retry_after_s` is
    given, a Retry-After belongs beside them."""

    status: int
    words: str
    fields: Fields = ()
    retry_after_s: float | None = None


class Challenges:
    """The challenges of one server. `resource` is its address, where it takes tokens of `issuers`."""

    def __init__(
        self,
        *,
        resource: str | None = None,
        path: str = "/mcp",
        issuers: Sequence[str] = (),
        scopes: Iterable[str] = (),
        name: str | None = None,
    ) -> None:
        self._scopes = tuple(dict.fromkeys(scopes))
        self._metadata: str | None = None
        self._paths: frozenset[str] = frozenset()
        self._document = b""
        if resource is not None and issuers:
            parts = urlsplit(resource)
            own = parts.path if parts.path != "/" else ""
            self._metadata = f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{own}"
            self._paths = frozenset((WELL_KNOWN, WELL_KNOWN + own, WELL_KNOWN + path))
            facts = {
                "resource": resource,
                "authorization_servers": list(issuers),
                "scopes_supported": list(self._scopes),
                "bearer_methods_supported": ["header"],
                "resource_name": name,
            }
            self._document = json.dumps({key: value for key, value in facts.items() if value}).encode()

    def document(self, path: str) -> bytes | None:
        """What clients read to find out who gives them tokens; None where nothing is at this path."""
        return self._document if path in self._paths else None

    def lack(self, scopes: Sequence[str]) -> Fields:
        """For whoever is known, and lacks a scope."""
        words = "This needs a scope that the credentials do not have"
        return self._fields("insufficient_scope", scopes, words)

    def ask(self) -> Refused:
        """For whoever showed nothing: no error, as nothing was wrong."""
        return Refused(401, "Credentials are needed", self._fields(None, self._scopes, None))

    def distrust(self, words: str) -> Refused:
        """For whoever showed what is not good, or not any more."""
        return Refused(401, words, self._fields("invalid_token", self._scopes, words))

    def misread(self, words: str) -> Refused:
        """For whoever showed something that cannot be read in one way."""
        return Refused(400, words, self._fields("invalid_request", (), words))

    def _fields(self, error: str | None, scopes: Sequence[str], words: str | None) -> Fields:
        wanted = " ".join(dict.fromkeys(scope for scope in scopes if _SCOPE.fullmatch(scope)))
        facts = {
            "error": error,
            "scope": wanted,
            "resource_metadata": self._metadata,
            "error_description": None if words is None else _NOT_QUOTABLE.sub("?", words)[:_MAX_WORDS],
        }
        said = [f'{key}="{value}"' for key, value in facts.items() if value]
        # The scheme must be followed by something, and where there is nothing to say a realm is the least.
        text = ", ".join(said or [f'realm="{_REALM}"'])
        return ((b"www-authenticate", f"Bearer {text}".encode("ascii", "replace")),)
