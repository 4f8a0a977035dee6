"""Bearer tokens of authorization servers: parsing, claims and verification.

    issuer = Issuer(OAuth(issuer="https://login.example.com"), resource="https://tools.example.com/mcp")
    principal = issuer.verify(token)    # or an awaitable of it, if keys must be fetched first

joserfc parses tokens and checks signatures. What two parsers could understand differently is refused, and so
is every header that would make us look elsewhere for a key. Messages say what is wrong and never repeat the
token. Claims are checked before the signature, so that tokens for other servers cost no fetch.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from toolcrib.config.settings import OAuth
from toolcrib.context import Principal
from toolcrib.policy.auth.jwks import (
    MAX_TOKEN_BYTES,
    Fetch,
    InvalidTokenError,
    IssuerKeys,
    KeySet,
    KeysUnavailableError,
    read_compact,
)
from toolcrib.validation import codec

MAX_NAME_CHARS = 512
MAX_REMEMBERED = 4096
_TYPES = ("jwt", "at+jwt")
_OTHER_KINDS = ("id", "refresh", "offline", "logout")
_URL = re.compile(r"(https?)://([^/?#@\\\s]+)(/[^?#]*)?", re.IGNORECASE)
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_NOT_SIGNED = "the token is not signed with a key of its issuer"


@dataclass(frozen=True, slots=True)
class Token:
    """A parsed token. `signed` is what joserfc made of it, to check the signature."""

    algorithm: str
    kid: str | None
    claims: Mapping[str, Any] = field(repr=False)
    signed: Any = field(repr=False)


def digest_of(token: str) -> bytes:
    """Return what a token is remembered by: tokens themselves are not kept."""
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


def parse_token(text: str, algorithms: frozenset[str]) -> Token:
    """Parse a token that is not too long. Raises InvalidTokenError."""
    try:
        signed, *parts = read_compact(text)
    except ValueError:
        raise InvalidTokenError("the token is not a signed JWT in compact form") from None
    header, claims = _parse_part("header", parts[0]), _parse_part("payload", parts[1])
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in algorithms:
        raise InvalidTokenError("the token's signature algorithm is not accepted")
    for name in ("crit", "b64"):
        if name in header:
            raise InvalidTokenError(f"the token's header has '{name}', which is not supported")
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in _TYPES:
        raise InvalidTokenError("the token's type is not that of an access token")
    kid = header.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise InvalidTokenError("the token's 'kid' is not a string")
    return Token(algorithm, kid, claims, signed)


def _parse_part(what: str, data: bytes) -> dict[str, Any]:
    """Parse JSON that joserfc has parsed, too: it takes the last of two members of one name."""
    try:
        value = codec.parse(data)
    except ValueError:  # its message can repeat what is in the token
        raise InvalidTokenError(f"the token's {what} is not JSON, or has a duplicate member") from None
    if not isinstance(value, dict):
        raise InvalidTokenError(f"the token's {what} is not a JSON object")
    return value


# --- claims ---


def check_issuer(claims: Mapping[str, Any], issuer: str) -> None:
    if claims.get("iss") != issuer:
        raise InvalidTokenError("the token is not from the authorization server of this server")


def check_purpose(claims: Mapping[str, Any], resource: str) -> None:
    """Refuse a token that is for another server, not an access token, or bound to a key of its holder."""
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if not all(isinstance(item, str) for item in audiences):
        raise InvalidTokenError("the token has no audience")
    if normalize_resource(resource) not in map(normalize_resource, audiences):
        raise InvalidTokenError("the token is for another server")
    kind = claims.get("typ")
    if (isinstance(kind, str) and kind.lower() in _OTHER_KINDS) or "at_hash" in claims or "c_hash" in claims:
        raise InvalidTokenError("the token is not an access token")
    if "cnf" in claims:
        raise InvalidTokenError("the token is bound to a key of its holder, which cannot be checked")


def check_times(claims: Mapping[str, Any], wall_s: float, leeway_s: float) -> tuple[float, float]:
    """Return from and until when the token is valid, on the wall clock. Raises InvalidTokenError if it is
    not valid now."""
    expires_s = _read_time(claims, "exp")
    if expires_s is None:
        raise InvalidTokenError("the token has no expiration time")
    begins_s = _read_time(claims, "nbf")
    issued_s = _read_time(claims, "iat")
    if wall_s >= expires_s + leeway_s:
        raise InvalidTokenError("the token has expired")
    if begins_s is not None and wall_s < begins_s - leeway_s:
        raise InvalidTokenError("the token is not valid yet")
    if issued_s is not None and wall_s < issued_s - leeway_s:
        raise InvalidTokenError("the token was issued in the future")
    return max(begins_s or 0.0, issued_s or 0.0) - leeway_s, expires_s + leeway_s


def _read_time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if name not in claims:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise InvalidTokenError(f"the token's '{name}' is not a time")
    return float(value)


def read_name(claims: Mapping[str, Any], name: str) -> str | None:
    """Return a claim that names somebody: short and printable, so that it is harmless in a log."""
    value = claims.get(name)
    if name not in claims:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME_CHARS or not value.isprintable():
        raise InvalidTokenError(f"the token's '{name}' is not a name")
    return value


def read_scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return `scope`, else `scp`: words separated by spaces, or a list."""
    name = "scope" if "scope" in claims else "scp"
    value = claims.get(name, "")
    return frozenset(value.split()) if isinstance(value, str) else _read_strings(name, value)


def read_roles(claims: Mapping[str, Any], path: str | None) -> frozenset[str]:
    """Return the claim of that name, or at a dotted path: a list, or a single role."""
    value: Any = claims
    if path is None:
        return frozenset()
    for step in (path,) if path in claims else path.split("."):
        if not isinstance(value, dict) or step not in value:
            return frozenset()
        value = value[step]
    return frozenset({value}) if isinstance(value, str) else _read_strings("roles", value)


def _read_strings(name: str, value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidTokenError(f"the token's '{name}' is not a list of strings")
    return frozenset(value)


def normalize_resource(address: str) -> str:
    """Normalize an address: scheme and host in lower case, no default port, and `/` for an empty path.

    A slash at the end of any other path is kept: there it can mean something else.
    """
    found = _URL.fullmatch(address)
    if found is None:
        return address
    scheme, host = found[1].lower(), found[2].lower()
    return f"{scheme}://{host.removesuffix(_DEFAULT_PORTS[scheme])}{found[3] or '/'}"


# --- verification ---


@dataclass(frozen=True, slots=True)
class _Verified:
    principal: Principal
    validity: tuple[float, float]
    keys: KeySet


class Issuer:
    """Verifies tokens of one authorization server, for one event loop.

    `resource` is the address of this server, and the audience of its tokens. Verified tokens are remembered
    until they expire or the keys of the issuer change.
    """

    def __init__(
        self,
        oauth: OAuth,
        *,
        resource: str,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        fetch: Fetch | None = None,
    ) -> None:
        self.oauth = oauth
        self.resource = resource
        self._algorithms = frozenset(oauth.algorithms)
        self._wall = wall
        self._keys = IssuerKeys(oauth.issuer, oauth.jwks_uri, now=now, fetch=fetch)
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()

    async def prefetch_keys(self) -> None:
        """Fetch the keys before the first token comes. A failure is logged."""
        try:
            await self._keys.fetch()
        except KeysUnavailableError:
            pass  # the first token fetches again

    def verify(self, token: str) -> Principal | Awaitable[Principal]:
        """Return whose token it is. Raises InvalidTokenError, now or when awaited."""
        if len(token) > MAX_TOKEN_BYTES:
            raise InvalidTokenError(f"the token has more than {MAX_TOKEN_BYTES} bytes")
        digest = digest_of(token)
        keys = self._keys.current()
        known = self._verified.get(digest)
        if known is not None:
            if known.keys is keys and known.validity[0] <= self._wall() < known.validity[1]:
                self._verified.move_to_end(digest)
                return known.principal
            del self._verified[digest]
        parsed, principal, validity = self._check_claims(token)
        if keys is not None and self._is_signed(parsed, keys):
            return self._remember(digest, _Verified(principal, validity, keys))
        return self._verify_later(digest, parsed, principal, validity)

    def expiry(self, token: str) -> float:
        """Return until when a token that was just verified is valid, on the wall clock."""
        known = self._verified.get(digest_of(token))
        return self._wall() if known is None else known.validity[1]

    def _check_claims(self, text: str) -> tuple[Token, Principal, tuple[float, float]]:
        parsed = parse_token(text, self._algorithms)
        claims = parsed.claims
        check_issuer(claims, self.oauth.issuer)
        check_purpose(claims, self.resource)
        validity = check_times(claims, self._wall(), self.oauth.leeway_s)
        subject = read_name(claims, "sub")
        if subject is None:
            raise InvalidTokenError("the token has no subject")
        client = read_name(claims, "client_id") or read_name(claims, "azp") or ""
        principal = Principal(
            f"{self.oauth.label}:{subject}",
            read_scopes(claims),
            read_roles(claims, self.oauth.role_claim),
            f"{self.oauth.issuer}\n{subject}\n{client}",
        )
        return parsed, principal, validity

    def _is_signed(self, token: Token, keys: KeySet) -> bool:
        """Whether one of the keys signed it; False if newer keys may have.

        Raises InvalidTokenError if none can have.
        """
        fitting = keys.find(token.kid, token.algorithm)
        if token.kid is None and len(fitting) > 1:
            raise InvalidTokenError("the token names no key, and several keys could have signed it")
        if any(key.has_signed(token.signed) for key in fitting):
            return True
        if token.kid is None or not keys.has(token.kid):
            return False
        raise InvalidTokenError(_NOT_SIGNED)

    async def _verify_later(
        self, digest: bytes, token: Token, principal: Principal, validity: tuple[float, float]
    ) -> Principal:
        keys = await self._keys.fetch()
        if not self._is_signed(token, keys):
            raise InvalidTokenError(_NOT_SIGNED)
        return self._remember(digest, _Verified(principal, validity, keys))

    def _remember(self, digest: bytes, verified: _Verified) -> Principal:
        self._verified[digest] = verified
        if len(self._verified) > MAX_REMEMBERED:
            self._verified.popitem(last=False)
        return verified.principal
