"""A bearer token as text, and what it claims: read strictly, judged against what one server expects.

Nothing here is proven: whoever signed it is somebody else's question. What two readers could understand
differently is refused, and so is every header that would have us look elsewhere for a key. Messages say what
is wrong and never repeat the token. Knows JWS in its compact form, and claims; refuses to know keys.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from toolcrib.validation import codec

MAX_TOKEN_BYTES = 16 * 1024
MAX_NAME_CHARS = 512
_TYPES = ("jwt", "at+jwt")
_OTHER_KINDS = ("id", "refresh", "offline", "logout")
_URL = re.compile(r"(https?)://([^/?#@\\\s]+)(/[^?#]*)?", re.IGNORECASE)
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class BadTokenError(Exception):
    """Why a token is refused, in words that may be sent back. They never contain it."""


class UnprovenError(BadTokenError):
    """Nothing is known against the token, but the keys of its issuer cannot be had just now."""

    def __init__(self, description: str, *, retry_after_s: float) -> None:
        super().__init__(description)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Token:
    """What a token says. `message` is what `signature` must be over."""

    algorithm: str
    kid: str | None
    claims: Mapping[str, Any] = field(repr=False)
    message: bytes = field(repr=False)
    signature: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Times:
    """When a token counts: from `since_s`, and before `until_s`, by the clock on the wall."""

    since_s: float
    until_s: float


def digest_of(token: str) -> bytes:
    """What a token is known again by: no memory of ours holds the token itself."""
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


def decode_base64url(text: Any) -> bytes:
    """The bytes of the one spelling that they have. Raises ValueError."""
    if not isinstance(text, str) or not text.isascii():
        raise ValueError("not base64url")
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if urlsafe_b64encode(data).rstrip(b"=") != text.encode():
        raise ValueError("not the one spelling of its bytes")
    return data


def read_token(text: str, algorithms: frozenset[str]) -> Token:
    """Take a token apart that is not too long. Raises BadTokenError."""
    parts = text.split(".")
    if len(parts) != 3:
        raise BadTokenError("the token is not a signed JWT in its compact form")
    header, claims = _read_part("header", parts[0]), _read_part("payload", parts[1])
    try:
        signature = decode_base64url(parts[2])
    except ValueError:
        raise BadTokenError("the token's signature is not base64url") from None
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in algorithms:
        raise BadTokenError("the token is signed in a way that is not accepted here")
    for name in ("crit", "b64"):
        if name in header:
            raise BadTokenError(
                f"the token's header has '{name}', and nothing of that kind is understood here"
            )
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in _TYPES:
        raise BadTokenError("the token is of another type than an access token")
    kid = header.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise BadTokenError("the token's 'kid' is not a text")
    return Token(algorithm, kid, claims, f"{parts[0]}.{parts[1]}".encode(), signature)


def _read_part(what: str, text: str) -> dict[str, Any]:
    try:
        data = decode_base64url(text)
    except ValueError:
        raise BadTokenError(f"the token's {what} is not base64url") from None
    try:
        value = codec.parse(data)
    except ValueError:  # its words can repeat what is in the token
        raise BadTokenError(f"the token's {what} is not JSON, or has a member twice") from None
    if not isinstance(value, dict):
        raise BadTokenError(f"the token's {what} is not a JSON object")
    return value


# --- claims ------------------------------------------------------------------------------------------


def check_issuer(claims: Mapping[str, Any], issuer: str) -> None:
    if claims.get("iss") != issuer:
        raise BadTokenError("the token is not from the authorization server of this server")


def check_purpose(claims: Mapping[str, Any], resource: str) -> None:
    """Refuse what was not made for this server, or not to be carried by whoever holds it."""
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if not all(isinstance(item, str) for item in audiences):
        raise BadTokenError("the token does not say whom it is meant for")
    wanted = normalise_resource(resource)
    if wanted not in map(normalise_resource, audiences):
        raise BadTokenError("the token is meant for another server")
    kind = claims.get("typ")
    if (isinstance(kind, str) and kind.lower() in _OTHER_KINDS) or "at_hash" in claims or "c_hash" in claims:
        raise BadTokenError("the token is not an access token")
    if "cnf" in claims:
        raise BadTokenError("the token is bound to a key of its holder, which cannot be checked here")


def check_times(claims: Mapping[str, Any], wall_s: float, leeway_s: float) -> Times:
    """When the token counts, which is now. Raises BadTokenError where it is not."""
    expires_s = _read_time(claims, "exp")
    if expires_s is None:
        raise BadTokenError("the token does not say when it expires")
    begins_s = _read_time(claims, "nbf")
    issued_s = _read_time(claims, "iat")
    if wall_s >= expires_s + leeway_s:
        raise BadTokenError("the token has expired")
    if begins_s is not None and wall_s < begins_s - leeway_s:
        raise BadTokenError("the token does not count yet")
    if issued_s is not None and wall_s < issued_s - leeway_s:
        raise BadTokenError("the token is from the future")
    since_s = max(begins_s or 0.0, issued_s or 0.0) - leeway_s
    return Times(since_s, expires_s + leeway_s)


def _read_time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if name not in claims:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise BadTokenError(f"the token's '{name}' is not a time")
    return float(value)


def read_name(claims: Mapping[str, Any], name: str) -> str | None:
    """A claim that names somebody: short, and nothing that could pass for something else in a log."""
    value = claims.get(name)
    if name not in claims:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME_CHARS or not value.isprintable():
        raise BadTokenError(f"the token's '{name}' is not a name")
    return value


def read_scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """`scope`, else `scp`: words in one text, or a list of them."""
    name = "scope" if "scope" in claims else "scp"
    value = claims.get(name, "")
    return frozenset(value.split()) if isinstance(value, str) else _read_texts(name, value)


def read_roles(claims: Mapping[str, Any], path: str | None) -> frozenset[str]:
    """The claim of that name, or at the end of a dotted path: a list, or a single role."""
    value: Any = claims
    if path is None:
        return frozenset()
    for step in (path,) if path in claims else path.split("."):
        if not isinstance(value, dict) or step not in value:
            return frozenset()
        value = value[step]
    return frozenset({value}) if isinstance(value, str) else _read_texts("roles", value)


def _read_texts(name: str, value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadTokenError(f"the token's '{name}' is not a list of texts")
    return frozenset(value)


def normalise_resource(address: str) -> str:
    """One spelling of an address: scheme and host in small letters, no default port, and `/` for no path.

    A slash at the end of any other path stays as it is: there, it can lead to something else.
    """
    found = _URL.fullmatch(address)
    if found is None:
        return address
    scheme, host = found[1].lower(), found[2].lower()
    return f"{scheme}://{host.removesuffix(_DEFAULT_PORTS[scheme])}{found[3] or '/'}"
