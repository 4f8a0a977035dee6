"""The clients toolcrib can write itself into: where their files are, how an entry looks, what to do next.

One row each; the facts are the clients' own. Knows paths and shapes; refuses to open a file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from toolcrib.clients.json_editor import JsonEditor
from toolcrib.clients.jsonc_scan import COMMENTED, LENIENT, PLAIN
from toolcrib.clients.machine import Machine
from toolcrib.clients.server import HttpServer, Server, StdioServer
from toolcrib.clients.toml_editor import TomlEditor
from toolcrib.errors import ConfigurationError

Scope = Literal["user", "project"]


class Editor(Protocol):
    """What a file format can do; `put` and `drop` return the whole new text."""

    def servers(self, text: str) -> dict[str, Any]: ...
    def put(self, text: str, name: str, entry: dict[str, Any]) -> str: ...
    def drop(self, text: str, name: str) -> str: ...
    def show(self, name: str, entry: dict[str, Any]) -> str: ...


@dataclass(frozen=True, slots=True)
class Client:
    """`http_key` is None where the file takes no address; `project_file` None where there is one file only.

    `stdio_type` and `http_type` are what an entry says of its transport, if anything. `mark` is what lies
    there once the client has run.
    """

    key: str
    title: str
    editor: Editor
    user_file: Callable[[Machine], Path]
    mark: Callable[[Machine], Path]
    project_file: str | None
    http_key: str | None
    stdio_type: str | None
    http_type: str | None
    next_step: str
    next_step_in_project: str = ""
    aliases: tuple[str, ...] = ()

    def file(self, machine: Machine, scope: Scope) -> Path:
        """Raises ConfigurationError where there is no such file."""
        if scope == "user":
            return self.user_file(machine)
        if self.project_file is None:
            raise ConfigurationError(
                f"{self.title} has one configuration, the user's", hint="leave out --scope project"
            )
        return machine.folder / self.project_file

    def scopes(self) -> tuple[Scope, ...]:
        return ("user",) if self.project_file is None else ("user", "project")

    def say_next(self, scope: Scope) -> str:
        return self.next_step_in_project if scope == "project" else self.next_step

    def is_found(self, machine: Machine) -> bool:
        return self.mark(machine).exists() or self.user_file(machine).exists()


def entry_for(client: Client, server: Server) -> dict[str, Any]:
    """What the client wants to read about a server. Raises ConfigurationError where it takes no address."""
    match server:
        case StdioServer(command, args, env):
            kind = {"type": client.stdio_type} if client.stdio_type else {}
            more: dict[str, Any] = {"env": dict(env)} if env else {}
            return {**kind, "command": command, "args": list(args), **more}
        case HttpServer(url):
            if client.http_key is None:
                raise ConfigurationError(
                    f"{client.title} takes no address in its file, only commands",
                    hint="leave out --url: it then starts the server itself",
                )
            return {**({"type": client.http_type} if client.http_type else {}), client.http_key: url}


def snippet(name: str, server: Server) -> str:
    """An entry as most clients read it, ready to paste."""
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
    """On Windows the packaged application sees its own copy of the roaming folder, and only that."""
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
        project_file=None,
        http_key=None,
        stdio_type=None,
        http_type=None,
        next_step="quit Claude Desktop and open it again; Settings, Developer shows the server",
    ),
    Client(
        "claude-code",
        "Claude Code",
        JsonEditor("mcpServers", PLAIN),
        _claude_code,
        mark=lambda machine: machine.variable("CLAUDE_CONFIG_DIR") or machine.home / ".claude",
        project_file=".mcp.json",
        http_key="url",
        stdio_type="stdio",
        http_type="http",
        next_step="start claude anew; /mcp shows the server",
        next_step_in_project="start claude in this folder and approve the server; /mcp shows it",
    ),
    Client(
        "cursor",
        "Cursor",
        JsonEditor("mcpServers", LENIENT),
        lambda machine: machine.home / ".cursor" / "mcp.json",
        mark=lambda machine: machine.home / ".cursor",
        project_file=".cursor/mcp.json",
        http_key="url",
        stdio_type="stdio",
        http_type=None,
        next_step="switch it on in Cursor's settings, Tools & MCP; restart Cursor if it is not there",
        next_step_in_project="open this folder in Cursor and switch it on in the settings, Tools & MCP",
    ),
    Client(
        "vscode",
        "VS Code",
        JsonEditor("servers", LENIENT),
        _vscode,
        mark=lambda machine: _vscode(machine).parent,
        project_file=".vscode/mcp.json",
        http_key="url",
        stdio_type="stdio",
        http_type="http",
        next_step="run 'MCP: List Servers' from VS Code's command palette and start it there",
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
        stdio_type=None,
        http_type=None,
        next_step="start gemini anew; /mcp shows the server",
        next_step_in_project="start gemini in this folder, which it must trust; /mcp shows the server",
        aliases=("gemini-cli",),
    ),
    Client(
        "codex",
        "Codex",
        TomlEditor("mcp_servers"),
        _codex,
        mark=lambda machine: _codex(machine).parent,
        project_file=".codex/config.toml",
        http_key="url",
        stdio_type=None,
        http_type=None,
        next_step="start codex anew; /mcp shows the server",
        next_step_in_project="start codex in this folder, which it must trust; /mcp shows the server",
    ),
)


def find_client(name: str) -> Client | None:
    """A client by its key, its title or another word for it."""
    wanted = name.casefold().replace(" ", "-").replace("_", "-")
    for client in CLIENTS:
        if wanted in (client.key, client.title.casefold().replace(" ", "-"), *client.aliases):
            return client
    return None
