"""Who may talk to a server by HTTP at all: the Host and Origin guard.

A page in a browser can reach a server on the same machine, under a name that its owner points there. So the
host that a request names must be one of ours, and so must the page it comes from. Headers are parsed, never
matched by prefix. Knows header values; refuses to know requests.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_WILDCARDS = ("", "0.0.0.0", "::")  # nosec B104  # compared with, not bound to
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?"
_AUTHORITY = re.compile(rf"({_NAME}|\[[0-9A-Fa-f]*:[0-9A-Fa-f:.]{{1,45}}\])(?::([0-9]{{1,5}}))?")
_SCHEMES = ("http://", "https://")
_MAX_KEPT = 512
_LONG = 512
"""A name that is longer is not kept: it is no honest client's."""


class Guard:
    """The hosts and origins that are let in.

    `hosts` are names without port, which fit every port, or with one. `*` lets everything in.
    """

    def __init__(
        self, bound: str | None = None, hosts: Iterable[str] = (), origins: Iterable[str] = ()
    ) -> None:
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

    def _judge(self, host: bytes | None, origin: bytes | None, local: str | None) -> int:
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
