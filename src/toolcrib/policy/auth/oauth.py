"""Tokens of one authorization server: whose they are, if they are genuine and meant for this server.

    issuer = Issuer(OAuth(issuer="https://login.example.com"), resource="https://tools.example.com/mcp")
    principal = issuer.verify(token)    # or an awaitable of it, where keys must be fetched first

What was proven is remembered until it expires, or until the keys of the issuer change. Knows claims and their
meaning here; refuses to know headers of HTTP, tools and rules.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from toolcrib.config.settings import OAuth
from toolcrib.context import Principal
from toolcrib.policy.auth import tokens
from toolcrib.policy.auth.jwks import Fetch, IssuerKeys, KeySet
from toolcrib.policy.auth.tokens import BadTokenError, Times, Token, UnprovenError

MAX_REMEMBERED = 4096
_NOT_SIGNED = "the token is not signed with a key of its issuer"


@dataclass(frozen=True, slots=True)
class _Proven:
    principal: Principal
    times: Times
    keys: KeySet


class Issuer:
    """Judges tokens of one authorization server. `resource` is this server's address, and their audience.

    Times of tokens are judged by `wall`; `now` says how old keys are. Belongs to one event loop.
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
        self._proven: OrderedDict[bytes, _Proven] = OrderedDict()

    async def warm(self) -> None:
        """Fetch the keys before the first token comes. That they cannot be had is logged, and no more."""
        try:
            await self._keys.fetch()
        except UnprovenError:
            pass  # the first token asks again

    def verify(self, token: str) -> Principal | Awaitable[Principal]:
        """Whose token it is. Raises BadTokenError, now or when it is awaited."""
        if len(token) > tokens.MAX_TOKEN_BYTES:  # before anything looks at all of it
            raise BadTokenError(f"the token has more than {tokens.MAX_TOKEN_BYTES} bytes")
        digest = tokens.digest_of(token)
        keys = self._keys.ready()
        known = self._proven.get(digest)
        if known is not None:
            if known.keys is keys and known.times.since_s <= self._wall() < known.times.until_s:
                self._proven.move_to_end(digest)
                return known.principal
            del self._proven[digest]
        read, principal, times = self._judge(token)
        if keys is not None and self._is_proven(read, keys):
            return self._remember(digest, _Proven(principal, times, keys))
        return self._verify_later(digest, read, principal, times)

    def expiry(self, token: str) -> float:
        """Until when a token counts that was found good just now, by the clock on the wall."""
        known = self._proven.get(tokens.digest_of(token))
        return self._wall() if known is None else known.times.until_s

    def _judge(self, text: str) -> tuple[Token, Principal, Times]:
        """Everything but the signature, before any key is looked for: strangers' tokens cost no fetch."""
        read = tokens.read_token(text, self._algorithms)
        claims = read.claims
        tokens.check_issuer(claims, self.oauth.issuer)
        tokens.check_purpose(claims, self.resource)
        times = tokens.check_times(claims, self._wall(), self.oauth.leeway_s)
        subject = tokens.read_name(claims, "sub")
        if subject is None:
            raise BadTokenError("the token names no subject")
        client = tokens.read_name(claims, "client_id") or tokens.read_name(claims, "azp") or ""
        principal = Principal(
            f"{self.oauth.label}:{subject}",
            tokens.read_scopes(claims),
            tokens.read_roles(claims, self.oauth.role_claim),
            f"{self.oauth.issuer}\n{subject}\n{client}",
        )
        return read, principal, times

    def _is_proven(self, read: Token, keys: KeySet) -> bool:
        """Whether one of the keys signed it; False where newer ones could know better.

        Raises BadTokenError where none could.
        """
        fitting = keys.find(read.kid, read.algorithm)
        if read.kid is None and len(fitting) > 1:
            raise BadTokenError("the token names no key, and more than one could have signed it")
        if any(key.has_signed(read.algorithm, read.message, read.signature) for key in fitting):
            return True
        if read.kid is None or not keys.has(read.kid):
            return False
        raise BadTokenError(_NOT_SIGNED)

    async def _verify_later(
        self, digest: bytes, read: Token, principal: Principal, times: Times
    ) -> Principal:
        keys = await self._keys.fetch()
        if not self._is_proven(read, keys):
            raise BadTokenError(_NOT_SIGNED)
        return self._remember(digest, _Proven(principal, times, keys))

    def _remember(self, digest: bytes, proven: _Proven) -> Principal:
        self._proven[digest] = proven
        if len(self._proven) > MAX_REMEMBERED:
            self._proven.popitem(last=False)
        return proven.principal
