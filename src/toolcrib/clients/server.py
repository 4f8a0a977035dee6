"""A server as a client is told of it: a command to start or an address to call, and a name.

Knows how toolcrib is started and which names every client takes. Refuses to know clients and files.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import urlsplit

from toolcrib.errors import ConfigurationError

DEFAULT_NAME = "toolcrib"
MAX_NAME = 32  # clients put it before the names of tools, and 64 characters must hold both
# Codex and Claude Code take letters, digits, - and _; Gemini CLI takes a name apart at its first _.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_TAKEN = frozenset({"claude-browser", "claude-in-chrome", "claude-preview", "computer-use", "workspace"})
_PROGRAM = "from toolcrib.cli import main; main()"
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class StdioServer:
    """A program that the client starts and speaks to over its standard streams."""

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A server that runs already."""

    url: str


Server = StdioServer | HttpServer


def stdio_server(targets: Iterable[str] = (), env: Mapping[str, str] | None = None) -> StdioServer:
    """`toolcrib serve --stdio`, with an absolute path: clients have a PATH and a folder of their own.

    `targets` must say where they are from anywhere.
    """
    command, *first = find_program(sys.executable, sysconfig.get_path("scripts"))
    return StdioServer(command, (*first, "serve", "--stdio", *targets), dict(env or {}))


def find_program(python: str, scripts: str) -> list[str]:
    """The installed command of this interpreter's environment, or the interpreter told to run it.

    Links are not followed: behind the link of a virtual environment is another one's interpreter.
    """
    python = os.path.abspath(python)
    for folder in (os.path.dirname(python), scripts):
        for name in ("toolcrib", "toolcrib.exe"):
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                return [path]
    return [python, "-c", _PROGRAM]


def check_name(name: str) -> str:
    """The name, if every client takes it. Raises ConfigurationError."""
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise ConfigurationError(
            f"{name!r} is not a name that every client takes",
            hint=f"use letters, digits and hyphens, at most {MAX_NAME}: {name_from(name)}",
        )
    if name.lower() in _TAKEN:
        raise ConfigurationError(f"Claude Code keeps the name {name!r} for itself", hint="use another one")
    return name


def name_from(text: str) -> str:
    """A valid name made of any text."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:MAX_NAME].strip("-") or DEFAULT_NAME
    return f"{name}-tools"[:MAX_NAME] if name.lower() in _TAKEN else name


def check_url(url: str) -> str:
    """The address, if it is one. Raises ConfigurationError."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or not url.isascii() or any(letter.isspace() for letter in url):
        raise ConfigurationError(
            f"{url!r} is not the address of a server", hint="it looks like http://127.0.0.1:8000/mcp"
        )
    return url


def is_toolcrib(entry: Any) -> bool:
    """Whether an entry that was found somewhere starts toolcrib."""
    if not isinstance(entry, Mapping):
        return False
    command, args = entry.get("command"), entry.get("args")
    if not isinstance(command, str):
        return False
    names = {PurePosixPath(command).name.lower(), PureWindowsPath(command).name.lower()}
    if names & {"toolcrib", "toolcrib.exe"}:
        return True
    words = [item for item in args if isinstance(item, str)] if isinstance(args, list) else []
    return words[:2] in (["-c", _PROGRAM], ["-m", "toolcrib"]) or "toolcrib" in words[:-1]


def is_local(entry: Any) -> bool:
    """Whether an entry that was found somewhere leads to a server on this machine."""
    url = entry.get("url", entry.get("httpUrl")) if isinstance(entry, Mapping) else None
    try:
        return isinstance(url, str) and urlsplit(url).hostname in _LOOPBACK
    except ValueError:
        return False
