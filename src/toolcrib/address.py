"""Where a request may go, and what its headers may hold: the guard before anything is sent.

A path that leaves the base address, one that two readers could understand differently, a line break in a
header: all refused, in words that never repeat what was asked for, since that can hold a secret. Knows
addresses and headers as text; refuses to know who sends them.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

_DEFAULT_PORTS = {"http": 80, "https": 443}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/(?:/([^/?#]*))?(.*)")
_HOST = re.compile(r"([\w.-]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding"})


class RefusedError(ValueError):
    """Why a request is not sent; the text never repeats what was asked for."""


@dataclass(frozen=True)
class Address:
    scheme: str
    host: str
    port: int
    userinfo: str
    path: str

    @classmethod
    def parse(cls, url: str) -> Address:
        match = _ABSOLUTE.fullmatch(url)
        if match is None or match[1].lower() not in _DEFAULT_PORTS:
            raise RefusedError("only http and https addresses can be asked")
        scheme = match[1].lower()
        userinfo, _, place = (match[2] or "").rpartition("@")
        host = _HOST.fullmatch(place)
        if host is None or int(host[2] or 0) > 65535 or "\\" in userinfo:
            raise RefusedError("the address names no valid host")
        return cls(scheme, host[1].lower(), int(host[2] or _DEFAULT_PORTS[scheme]), userinfo, match[3])

    @property
    def place(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host if self.port == _DEFAULT_PORTS[self.scheme] else self.place}"


def _check_path(path: str) -> None:
    """Refuse what a server may read as another path than we do, however often it decodes."""
    if "\\" in path:
        raise RefusedError("the path contains a backslash")
    for _ in range(4):
        if any(part.partition(";")[0].strip() in (".", "..") for part in re.split(r"[/\\]", path)):
            raise RefusedError("the path contains a '.' or '..' segment")
        if _CONTROL.search(path):
            raise RefusedError("the path contains a line break or another control character")
        path, before = unquote(path), path
        if path == before:
            return
    raise RefusedError("the path is percent-encoded too many times")


def resolve(base: Address | None, path: str) -> tuple[Address, str, str]:
    """Where a request goes: the address, the path with its query, and the path as texts may show it.

    The base's own path stays out of texts: it can carry a token. A `#` is sent encoded, since a value
    spliced into a path means it literally and a fragment never reaches a server.
    """
    if _CONTROL.search(path):
        raise RefusedError("the address contains a line break or another control character")
    if path.startswith("//"):
        raise RefusedError("the path names another host")
    address = Address.parse(path) if _ABSOLUTE.match(path) else base
    if address is None:
        raise RefusedError("no base_url is set, so only a full http or https address can be asked")
    if address is not base:
        path = address.path
        if base and (address.origin != base.origin or address.userinfo not in ("", base.userinfo)):
            raise RefusedError(f"the address leads away from {base.origin}")
    elif path and not path.startswith("?"):
        path = address.path.rstrip("/") + "/" + path.lstrip("/")
    else:
        path = address.path + path
    route, mark, query = path.replace("#", "%23").partition("?")
    _check_path(route)
    prefix = base.path.rstrip("/") if base else ""
    if route != prefix and not route.startswith(f"{prefix}/"):
        raise RefusedError("the address leads out of the base path")
    shown = "".join(c if c.isprintable() else "?" for c in route[len(prefix) :][:200])
    return base or address, (route or "/") + mark + query, shown or "/"


def clean_headers(headers: Mapping[str, Any] | None) -> dict[str, str]:
    cleaned = {}
    for name, value in (headers or {}).items():
        if value is None:
            continue
        if not _HEADER_NAME.fullmatch(name):
            raise RefusedError("the name of a header is not valid")
        if name.lower() in _OWN_HEADERS:
            raise RefusedError(f"the header {name} is set by the client itself")
        text = str(value).strip(" \t")
        if _CONTROL.search(text.replace("\t", " ")):
            raise RefusedError(f"the header {name} has a line break or another control character in it")
        cleaned[name.lower()] = text
    return cleaned


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone; a name like 127.example.org is not."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def fold_address(address: str | None) -> str:
    """What counts as one client address: an IPv6 network of 64 bits belongs to one customer."""
    if address is None or ":" not in address:
        return address or ""
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    return str(parsed.ipv4_mapped or ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))
