"""Where a server is to be found: binds its sockets, spells its address, and says who is in the way.

Knows sockets and what the system tells of them; refuses to know what is served.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from toolcrib.cli.options import Failure
from toolcrib.http_client import is_loopback
from toolcrib.transports.http.server import bind

_TRIES = 20
_ANYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # nosec B104  # told from, not bound to
_LISTENS = "0A"
_LONGEST = 80
_SPREADS = sys.platform == "linux"


def open_door(host: str, port: int) -> list[socket.socket]:
    """Bound sockets; nobody can connect before they listen. Raises Failure with a way out."""
    try:
        sockets = bind(host, port)
    except socket.gaierror:
        raise Failure(f"There is no host {host}", "--host takes an address or a name of this machine")
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise taken(host, port)
        if error.errno == errno.EACCES:
            raise Failure(f"Port {port} may not be used by you", "ports from 1024 up are for everybody")
        if error.errno == errno.EADDRNOTAVAIL:
            raise Failure(f"{host} is no address of this machine", "--host 127.0.0.1 always is")
        raise Failure(f"{host} port {port} cannot be used: {error.strerror}")
    return sockets


def taken(host: str, port: int) -> Failure:
    """Who has the port, and which one is free."""
    who = find_occupant(port)
    return Failure(
        f"Port {port} is taken{f' by {who}' if who else ''}",
        f"use another one, --port {_find_free(host, port)}, or any that is free, --port 0",
    )


def share_door(sockets: Sequence[socket.socket]) -> None:
    """Let others of ours be bound to the same addresses."""
    if _SPREADS:
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


def open_again(sockets: Sequence[socket.socket]) -> list[socket.socket]:
    """Sockets for one more process. Where the system spreads connections over sockets of one address, it gets
    its own: processes that wait at the same one are woken in order, so the first would do all the work."""
    if not _SPREADS:
        return [each.dup() for each in sockets]
    found: list[socket.socket] = []
    try:
        for each in sockets:
            other = socket.socket(each.family, each.type, each.proto)
            found.append(other)
            for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
                other.setsockopt(socket.SOL_SOCKET, option, 1)
            if each.family == socket.AF_INET6:
                other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            other.bind(each.getsockname())
            other.setblocking(False)
    except OSError:
        for other in found:
            other.close()
        raise
    return found


def address_of(each: socket.socket, host: str, path: str) -> str:
    """The address of a bound socket as somebody on this machine would type it."""
    bound, port = each.getsockname()[:2]
    try:
        ipaddress.ip_address(host)
        shown = _ANYWHERE.get(bound, bound)
    except ValueError:
        shown = host or _ANYWHERE[bound]  # a name stays a name
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}{path}"


def is_public(sockets: Sequence[socket.socket]) -> bool:
    """Whether other machines can reach it."""
    return any(not is_loopback(each.getsockname()[0]) for each in sockets)


def find_occupant(port: int) -> str | None:
    """Who listens on a port, where the system lets us know: Linux does, for one's own processes."""
    inodes = set(_list_inodes(port))
    if not inodes:
        return None
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(link) in inodes for link in (folder / "fd").iterdir()):
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                shown = words.strip()[:_LONGEST] or "a program"
                return f"process {folder.name} ({shown}{'...' if len(words.strip()) > _LONGEST else ''})"
        except OSError:
            continue  # it is somebody else's, or has ended
    return None


def _list_inodes(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text("ascii").splitlines()[1:]
        except (OSError, UnicodeDecodeError):
            continue
        for fields in map(str.split, lines):
            if int(fields[1].rpartition(":")[2], 16) == port and fields[3] == _LISTENS:
                yield f"socket:[{fields[9]}]"


def _find_free(host: str, taken: int) -> int:
    for port in range(taken + 1, min(taken + _TRIES, 65536)):
        try:
            for each in bind(host, port):
                each.close()
        except OSError:
            continue
        return port
    return 0
