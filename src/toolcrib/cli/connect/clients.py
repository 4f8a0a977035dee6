"""The supported clients: where their configuration files are and what an entry looks like."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from toolcrib.cli.connect.json_file import COMMENTED, LENIENT, PLAIN, JsonEditor
from toolcrib.cli.connect.toml_file import TomlEditor
from toolcrib.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Machine:
    """The environment that decides where files are; `folder` is the project folder.

    Passed in, so that paths of other platforms can be tested.
    """

    platform: str
    home: Path
    folder: Path
    environ: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def here(cls) -> Machine:
        return cls(sys.platform, Path.home(), Path.cwd(), os.environ)

    @property
    def application_data(self) -> Path:
        """The folder for configuration of desktop applications."""
        match self.platform:
            case "win32":
                return self.variable("APPDATA") or self.home / "AppData" / "Roaming"
            case "darwin":
                return self.home / "Library" / "Application Support"
            case _:
                return self.variable("XDG_CONFIG_HOME") or self.home / ".config"

    @property
    def local_data(self) -> Path:
        """The folder for local application data on Windows."""
        return self.variable("LOCALAPPDATA") or self.home / "AppData" / "Local"

    def variable(self, name: str) -> Path | None:
        """Return the folder in an environment variable; None where it is unset or empty."""
        value = self.environ.get(name, "").strip()
        return Path(value) if value else None


DEFAULT_NAME = "toolcrib"
MAX_NAME = 32  # clients prefix tool names with it, and allow 64 characters in all
# Codex and Claude Code accept letters, digits, - and _; Gemini CLI splits names at the first _.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_RESERVED = frozenset({"claude-browser", "claude-in-chrome", "claude-preview", "computer-use", "workspace"})
_PROGRAM = "from toolcrib.cli import main; main()"
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class StdioServer:
    """A server that the client starts and uses over stdin and stdout."""

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A running server."""

    url: str


Server = StdioServer | HttpServer


def stdio_server(targets: Iterable[str] = (), env: Mapping[str, str] | None = None) -> StdioServer:
    """Return `toolcrib serve --stdio` with an absolute path: clients have another PATH and current folder.

    Paths in `targets` must be absolute.
    """
    command, *first = find_program(sys.executable, sysconfig.get_path("scripts"))
    return StdioServer(command, (*first, "serve", "--stdio", *targets), dict(env or {}))


def find_program(python: str, scripts: str) -> list[str]:
    """Return the installed `toolcrib` command of this environment, or the interpreter with a program.

    Links are not followed: the interpreter of a virtual environment links to one outside it.
    """
    python = os.path.abspath(python)
    for folder in (os.path.dirname(python), scripts):
        for name in ("toolcrib", "toolcrib.exe"):
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                return [path]
    return [python, "-c", _PROGRAM]


def check_name(name: str) -> str:
    """Return a name that every client accepts. Raises ConfigurationError."""
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise ConfigurationError(
            f"Invalid server name {name!r}",
            hint=f"use at most {MAX_NAME} letters, digits and hyphens: {name_from(name)}",
        )
    if name.lower() in _RESERVED:
        raise ConfigurationError(f"The name {name!r} is reserved by Claude Code", hint="use another one")
    return name


def name_from(text: str) -> str:
    """Return a valid name for any text."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:MAX_NAME].strip("-") or DEFAULT_NAME
    return f"{name}-tools"[:MAX_NAME] if name.lower() in _RESERVED else name


def check_url(url: str) -> str:
    """Return a valid URL of a server. Raises ConfigurationError."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or not url.isascii() or any(letter.isspace() for letter in url):
        raise ConfigurationError(
            f"Invalid server URL {url!r}", hint="use a URL such as http://127.0.0.1:8000/mcp"
        )
    return url


def is_toolcrib(entry: Any) -> bool:
    """Return whether an entry starts toolcrib."""
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
    """Return whether an entry points to a server on this machine."""
    url = entry.get("url", entry.get("httpUrl")) if isinstance(entry, Mapping) else None
    try:
        return isinstance(url, str) and urlsplit(url).hostname in _LOOPBACK
    except ValueError:
        return False


Scope = Literal["user", "project"]


class Editor(Protocol):
    """Edits a file format; `put` and `drop` return the whole new text."""

    def servers(self, text: str) -> dict[str, Any]: ...
    def put(self, text: str, name: str, entry: dict[str, Any]) -> str: ...
    def drop(self, text: str, name: str) -> str: ...
    def show(self, name: str, entry: dict[str, Any]) -> str: ...


@dataclass(frozen=True, slots=True)
class Client:
    """`http_key` is None where the file supports no URLs, `project_file` where there is only a user file.

    `stdio_type` and `http_type` are the values of `type` in an entry, if any. `mark` exists once the client
    has run.
    """

    key: str
    title: str
    editor: Editor
    user_file: Callable[[Machine], Path]
    mark: Callable[[Machine], Path]
    next_step: str
    project_file: str | None = None
    next_step_in_project: str = ""
    http_key: str | None = "url"
    stdio_type: str | None = None
    http_type: str | None = None
    aliases: tuple[str, ...] = ()

    def file(self, machine: Machine, scope: Scope) -> Path:
        """Return the file of a scope. Raises ConfigurationError where the client has none."""
        if scope == "user":
            return self.user_file(machine)
        if self.project_file is None:
            raise ConfigurationError(
                f"{self.title} has no project configuration", hint="omit --scope project"
            )
        return machine.folder / self.project_file

    def scopes(self) -> tuple[Scope, ...]:
        return ("user",) if self.project_file is None else ("user", "project")

    def next_step_for(self, scope: Scope) -> str:
        return self.next_step_in_project if scope == "project" else self.next_step

    def is_found(self, machine: Machine) -> bool:
        return self.mark(machine).exists() or self.user_file(machine).exists()


def entry_for(client: Client, server: Server) -> dict[str, Any]:
    """Return the entry of a server. Raises ConfigurationError where the client supports no URLs."""
    match server:
        case StdioServer(command, args, env):
            kind = {"type": client.stdio_type} if client.stdio_type else {}
            more: dict[str, Any] = {"env": dict(env)} if env else {}
            return {**kind, "command": command, "args": list(args), **more}
        case HttpServer(url):
            if client.http_key is None:
                raise ConfigurationError(
                    f"{client.title} does not support URLs in its configuration file",
                    hint="omit --url: it then starts the server",
                )
            return {**({"type": client.http_type} if client.http_type else {}), client.http_key: url}


def snippet(name: str, server: Server) -> str:
    """Return an entry as most clients accept it, ready to paste."""
    match server:
        case StdioServer(command, args, env):
            entry: dict[str, Any] = {
                "command": command,
                "args": list(args),
                **({"env": dict(env)} if env else {}),
            }
        case HttpServer(url):
            entry = {"type": "http", "url": url}
    return JsonEditor("mcpServers").show(name, entry)


def _claude_desktop(machine: Machine) -> Path:
    """On Windows the packaged application uses its own copy of the roaming folder."""
    usual = machine.application_data / "Claude" / "claude_desktop_config.json"
    if machine.platform != "win32":
        return usual
    packages = sorted((machine.local_data / "Packages").glob("Claude_*"))
    files = [package / "LocalCache" / "Roaming" / "Claude" / usual.name for package in packages]
    return next((file for file in files if file.exists()), files[0] if files else usual)


def _claude_code(machine: Machine) -> Path:
    return (machine.variable("CLAUDE_CONFIG_DIR") or machine.home) / ".claude.json"


def _vscode(machine: Machine) -> Path:
    if portable := machine.variable("VSCODE_PORTABLE"):
        return portable / "user-data" / "User" / "mcp.json"
    return (machine.variable("VSCODE_APPDATA") or machine.application_data) / "Code" / "User" / "mcp.json"


def _gemini(machine: Machine) -> Path:
    return (machine.variable("GEMINI_CLI_HOME") or machine.home) / ".gemini" / "settings.json"


def _codex(machine: Machine) -> Path:
    return (machine.variable("CODEX_HOME") or machine.home / ".codex") / "config.toml"


CLIENTS = (
    Client(
        "claude-desktop",
        "Claude Desktop",
        JsonEditor("mcpServers", PLAIN),
        _claude_desktop,
        mark=lambda machine: _claude_desktop(machine).parent,
        http_key=None,
        next_step="restart Claude Desktop; Settings > Developer shows the server",
    ),
    Client(
        "claude-code",
        "Claude Code",
        JsonEditor("mcpServers", PLAIN),
        _claude_code,
        mark=lambda machine: machine.variable("CLAUDE_CONFIG_DIR") or machine.home / ".claude",
        project_file=".mcp.json",
        stdio_type="stdio",
        http_type="http",
        next_step="restart claude; /mcp shows the server",
        next_step_in_project="start claude in this folder and approve the server; /mcp shows it",
    ),
    Client(
        "cursor",
        "Cursor",
        JsonEditor("mcpServers", LENIENT),
        lambda machine: machine.home / ".cursor" / "mcp.json",
        mark=lambda machine: machine.home / ".cursor",
        project_file=".cursor/mcp.json",
        stdio_type="stdio",
        next_step="enable it in Cursor's settings, Tools & MCP; restart Cursor if it is missing",
        next_step_in_project="open this folder in Cursor and enable it in the settings, Tools & MCP",
    ),
    Client(
        "vscode",
        "VS Code",
        JsonEditor("servers", LENIENT),
        _vscode,
        mark=lambda machine: _vscode(machine).parent,
        project_file=".vscode/mcp.json",
        stdio_type="stdio",
        http_type="http",
        next_step="run 'MCP: List Servers' from VS Code's command palette and start it",
        next_step_in_project="open this folder in VS Code and start it with 'MCP: List Servers'",
        aliases=("vs-code", "code"),
    ),
    Client(
        "gemini",
        "Gemini CLI",
        JsonEditor("mcpServers", COMMENTED),
        _gemini,
        mark=lambda machine: _gemini(machine).parent,
        project_file=".gemini/settings.json",
        http_key="httpUrl",
        next_step="restart gemini; /mcp shows the server",
        next_step_in_project="start gemini in this folder and trust it; /mcp shows the server",
        aliases=("gemini-cli",),
    ),
    Client(
        "codex",
        "Codex",
        TomlEditor("mcp_servers"),
        _codex,
        mark=lambda machine: _codex(machine).parent,
        project_file=".codex/config.toml",
        next_step="restart codex; /mcp shows the server",
        next_step_in_project="start codex in this folder and trust it; /mcp shows the server",
    ),
)


def find_client(name: str) -> Client | None:
    """Return a client by its key, title or alias."""
    wanted = name.casefold().replace(" ", "-").replace("_", "-")
    for client in CLIENTS:
        if wanted in (client.key, client.title.casefold().replace(" ", "-"), *client.aliases):
            return client
    return None
