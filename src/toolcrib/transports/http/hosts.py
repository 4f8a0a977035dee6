"""Who may talk to a server by HTTP at all: the Host and Origin guard.

A page in a browser can reach a server on the same machine, under a name that its owner points there. So the
host that a request names must be one of ours, and so must the page it comes from. Headers are parsed, never
matched by prefix. Knows header values; refuses to know requests.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Iterable

logger = logging.getLogger("toolcrib")

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_WILDCARDS = ("", "0.0.0.0", "::")  # nosec B104  # compared with, not bound to
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?"
_AUTHORITY = re.compile(rf"({_NAME}|\[[0-9A-Fa-f]*:[0-9A-Fa-f:.]{{1,45}}\])(?::([0-9]{{1,5}}))?")
_SCHEMES = ("http://", "https://")
_BARE = (
    "other machines can reach that address, and nobody has to say who they are; give the server keys "
    "(Policy(auth=...)), or say that everybody may call: asgi(insecure=True)"
)
_MAX_KEPT = 512
_LONG = 512
"""A name that is longer is not kept: it is no honest client's."""


class Guard:
    """The hosts and origins that are let in.

    `hosts` are names without port, which fit every port, or with one. `*` lets everything in. One that
    `stays_home` lets nobody in who has connected to another address than loopback, whatever they say.
    """

    def __init__(
        self,
        bound: str | None = None,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        *,
        stays_home: bool = False,
    ) -> None:
        self._stays_home = stays_home
        self._is_told = False
        given = tuple(hosts)
        own = () if bound is None or bound in _WILDCARDS else (bound,)
        self._any_host = "*" in given
        self._hosts = {_fold(host) for host in (*LOOPBACK, *own, *given)}
        self._origins = {origin.rstrip("/").lower() for origin in origins}
        self._any_origin = "*" in self._origins
        self._kept: dict[tuple[bytes | None, bytes | None, str | None], int] = {}

    def check(self, host: bytes | None, origin: bytes | None, local: str | None = None) -> int:
        """0, or the HTTP status of the refusal. `local` is the address that the client has connected to."""
        key = (host, origin, local)
        verdict = self._kept.get(key)
        if verdict is None:
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            verdict = self._judge(host, origin, local)
            if len(host or b"") + len(origin or b"") <= _LONG:
                self._kept[key] = verdict
        return verdict

    def is_away(self, local: str | None) -> bool:
        """Whether a client has connected to an address that this server must not be called at."""
        return self._stays_home and local is not None and _is_reachable(local)

    def _judge(self, host: bytes | None, origin: bytes | None, local: str | None) -> int:
        if self.is_away(local):
            if not self._is_told:
                self._is_told = True
                logger.warning("requests come to %s and are refused: %s", local, _BARE)
            return 403
        if origin is not None and not self._fits_origin(origin.decode("latin-1"), local):
            return 403
        if not self._any_host and (host is None or not self._fits(host.decode("latin-1"), local)):
            return 421
        return 0

    def _fits(self, authority: str, local: str | None) -> bool:
        found = _AUTHORITY.fullmatch(authority.strip(" \t"))
        if found is None or (found[2] and int(found[2]) > 65535):
            return False
        name = _fold(found[1])
        if name in self._hosts or f"{name}:{found[2]}" in self._hosts:
            return True
        return local is not None and _is_same_address(name, local)  # nobody can point an address elsewhere

    def _fits_origin(self, origin: str, local: str | None) -> bool:
        if self._any_origin or origin.lower() in self._origins:
            return True
        for scheme in _SCHEMES:
            if origin.startswith(scheme):
                return self._fits(origin[len(scheme) :], local)
        return False


def _fold(host: str) -> str:
    return host.strip().strip("[]").lower() if host.count(":") != 1 else host.strip().lower()


def _is_same_address(name: str, local: str) -> bool:
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(local.partition("%")[0])
    except ValueError:
        return False


def _is_reachable(local: str) -> bool:
    """Whether an address is one that other machines can connect to. A name is none: it was never connected
    to, and stands there where a test or another host made up the request."""
    try:
        address = ipaddress.ip_address(local.partition("%")[0])
    except ValueError:
        return False
    return not (getattr(address, "ipv4_mapped", None) or address).is_loopback
