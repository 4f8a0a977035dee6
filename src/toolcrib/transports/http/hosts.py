"""Host and Origin checks, which protect a local server from web pages (DNS rebinding).

A page in a browser can reach a server on the same machine under a host name that its owner points there. So
the Host header of a request must name this server, and Origin must be an allowed page. Headers are parsed,
never matched by prefix.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Iterable, Mapping

from toolcrib.protocol.messages import Headers

logger = logging.getLogger("toolcrib")

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_WILDCARDS = ("", "0.0.0.0", "::")  # noqa: S104 # compared with, not bound to
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?"
_AUTHORITY = re.compile(rf"({_NAME}|\[[0-9A-Fa-f]*:[0-9A-Fa-f:.]{{1,45}}\])(?::([0-9]{{1,5}}))?")
_SCHEMES = ("http://", "https://")
_VARY = (b"vary", b"Origin")
_EXPOSED = (
    b"access-control-expose-headers",
    b"Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After",
)
_METHODS = (b"access-control-allow-methods", b"GET, POST, DELETE")
_MAX_AGE = (b"access-control-max-age", b"600")
_SENT = {b"accept", b"authorization", b"content-type", b"last-event-id", b"x-api-key", b"traceparent"}
"""Headers that pages may send, besides those that begin with `mcp-`."""
_UNPROTECTED = (
    "other machines can reach that address, and callers are not authenticated; configure keys "
    "(Policy(auth=...)), or allow everybody to call: asgi(insecure=True)"
)


class HostCheck:
    """The allowed hosts and origins.

    Pages of the listed `origins` may read responses (CORS). `hosts` are names without a port, which allow
    every port, or with one; `*` allows all. With `local_only`, only clients that connected to a loopback
    address are let in, whatever their headers say.
    """

    def __init__(
        self,
        bound: str | None = None,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        *,
        local_only: bool = False,
    ) -> None:
        self._local_only = local_only
        self._is_warned = False
        given = tuple(hosts)
        own = () if bound is None or bound in _WILDCARDS else (bound,)
        self._any_host = "*" in given
        self._hosts = {_fold(host) for host in (*LOOPBACK, *own, *given)}
        self._origins = {origin.rstrip("/").lower() for origin in origins}
        self._any_origin = "*" in self._origins

    def check(self, host: bytes | None, origin: bytes | None, local: str | None = None) -> int:
        """Return 0, or the HTTP status of the refusal. `local` is the address that the client connected
        to."""
        if self.is_remote(local):
            if not self._is_warned:
                self._is_warned = True
                logger.warning("requests to %s are refused: %s", local, _UNPROTECTED)
            return 403
        if origin is not None and not (self._is_listed(origin) or self._is_own(origin, local)):
            return 403
        if not self._any_host and (host is None or not self._is_allowed_host(host.decode("latin-1"), local)):
            return 421
        return 0

    def cors(self, headers: Mapping[bytes, bytes]) -> Headers:
        """Return the headers with which a browser lets a page of a listed origin read the response."""
        origin = headers.get(b"origin", b"")
        if not self._is_listed(origin):
            return (_VARY,) if self._origins else ()
        return ((b"access-control-allow-origin", b"*" if self._any_origin else origin), _VARY, _EXPOSED)

    def allow_preflight(self, headers: Mapping[bytes, bytes]) -> Headers:
        """Return what a page of a listed origin may send; nothing if this is not asked."""
        is_listed = self._is_listed(headers.get(b"origin", b""))
        if not is_listed or b"access-control-request-method" not in headers:
            return ()
        asked = headers.get(b"access-control-request-headers", b"").lower().split(b",")
        names = [name for item in asked if (name := item.strip()) in _SENT or name.startswith(b"mcp-")]
        return (_METHODS, (b"access-control-allow-headers", b", ".join(names)), _MAX_AGE)

    def _is_listed(self, origin: bytes) -> bool:
        return self._any_origin or origin.decode("latin-1").lower() in self._origins

    def is_remote(self, local: str | None) -> bool:
        """Return whether a client of a `local_only` server connected to an address that others can reach."""
        return self._local_only and local is not None and _is_reachable(local)

    def _is_allowed_host(self, authority: str, local: str | None) -> bool:
        found = _AUTHORITY.fullmatch(authority.strip(" \t"))
        if found is None or (found[2] and int(found[2]) > 65535):
            return False
        name = _fold(found[1])
        if name in self._hosts or f"{name}:{found[2]}" in self._hosts:
            return True
        return local is not None and _is_same_address(name, local)  # an IP address cannot be rebound

    def _is_own(self, origin: bytes, local: str | None) -> bool:
        text = origin.decode("latin-1")
        for scheme in _SCHEMES:
            if text.startswith(scheme):
                return self._is_allowed_host(text[len(scheme) :], local)
        return False


def _fold(host: str) -> str:
    return host.strip().strip("[]").lower() if host.count(":") != 1 else host.strip().lower()


def _is_same_address(name: str, local: str) -> bool:
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(local.partition("%")[0])
    except ValueError:
        return False


def _is_reachable(local: str) -> bool:
    """Return whether other machines can connect to an address. A host name is not one: it comes from a test
    or from an ASGI server that makes up the request."""
    try:
        address = ipaddress.ip_address(local.partition("%")[0])
    except ValueError:
        return False
    return not (getattr(address, "ipv4_mapped", None) or address).is_loopback
