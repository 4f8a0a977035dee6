"""The supported clients: their configuration files and the form of an entry."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from toolcrib.cli.connect.edit import COMMAND_KEYS, URL_KEYS, Editor, JsonEditor, TomlEditor, YamlEditor
from toolcrib.errors import ConfigurationError

DEFAULT_NAME = "toolcrib"
MAX_NAME = 32  # clients prefix tool names with it, and allow 64 characters in all
# Codex and Claude Code accept letters, digits, - and _; Gemini CLI splits names at the first _.
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9-]{{0,{MAX_NAME - 1}}}")
_PROGRAM = "from toolcrib.cli import main; main()"
_URL = re.compile(r"https?://(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::\d{1,5})?(?:[/?#][!-~]*)?", re.ASCII)
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


Entry = dict[str, Any]
"""A server in its plain form: `command`, `args` and perhaps `env`, or `url` and perhaps `headers`."""


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
    if not _NAME.fullmatch(name):
        hint = f"use at most {MAX_NAME} letters, digits and hyphens: {name_from(name)}"
        raise ConfigurationError(f"Invalid server name {name!r}", hint=hint)
    return name


def name_from(text: str) -> str:
    """Return a valid name for any text."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:MAX_NAME].strip("-") or DEFAULT_NAME


def check_url(url: str) -> str:
    """Return a valid URL of a server. Raises ConfigurationError."""
    if not _URL.fullmatch(url):
        hint = "use a URL such as http://127.0.0.1:8000/mcp"
        raise ConfigurationError(f"Invalid server URL {url!r:.200}", hint=hint)
    if found := re.search(r"\$(?:\{[^}]*\}?|[A-Za-z_]\w*)", url):
        hint = "clients would send its value to the host; use --header 'Authorization: Bearer ${env:NAME}'"
        raise ConfigurationError(f"The server URL contains the variable {found[0]:.80}", hint=hint)
    return url


def is_toolcrib(entry: Any) -> bool:
    """Return whether an entry starts toolcrib."""
    if not isinstance(entry, Mapping):
        return False
    args = entry.get("args")
    words = args if isinstance(args, list) else []
    command = next((entry[key] for key in COMMAND_KEYS if key in entry), None)
    name = re.split(r"[/\\]", str(command))[-1].lower()
    return name in ("toolcrib", "toolcrib.exe") or _PROGRAM in words or "toolcrib" in words[:-1]


def url_of(entry: Any) -> Any:
    """Return the URL in an entry, or None."""
    found = [entry[key] for key in URL_KEYS if key in entry] if isinstance(entry, Mapping) else []
    return found[0] if found else None


def is_local(entry: Any) -> bool:
    """Return whether an entry points to a server on this machine."""
    url = url_of(entry)
    try:
        return isinstance(url, str) and urlsplit(url).hostname in _LOOPBACK
    except ValueError:
        return False


Scope = Literal["user", "project"]


@dataclass(frozen=True, slots=True)
class Client:
    """A client and its files: `user_file`, and `project_file` if it has one for projects.

    `http_key` is None if its files support no URLs, `headers_key` is for HTTP headers. `stdio_type` and
    `http_type` are the values of `type` in an entry, if any. `renamed` maps keys of a command to the client's
    own, `presets` are in every new entry, and `has_names` adds the server's name, in lower case. Variables in
    `refused_env` are not passed to servers.
    """

    key: str
    title: str
    editor: Editor
    user_file: Callable[[], Path]
    next_step: str
    project_file: str | None = None
    next_step_in_project: str = ""
    http_key: str | None = "url"
    headers_key: str = "headers"
    stdio_type: str | None = None
    http_type: str | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    presets: Mapping[str, Any] = field(default_factory=dict)
    has_names: bool = False
    refused_env: frozenset[str] = frozenset()

    def server_name(self, name: str) -> str:
        """Return the key of a server in this client's file."""
        return name.lower() if self.has_names else name

    def file(self, scope: Scope) -> Path:
        """Return the file of a scope. Raises ConfigurationError if the client has none."""
        if scope == "user":
            return self.user_file()
        if self.project_file is None:
            raise ConfigurationError(
                f"{self.title} has no project configuration", hint="omit --scope project"
            )
        return Path.cwd() / self.project_file

    def is_found(self) -> bool:
        """Return whether the file of the client is here, or the folder that it made for it."""
        file = self.user_file()
        return file.exists() or (file.parent != Path.home() and file.parent.is_dir())

    def entry(self, server: Entry, name: str) -> Entry:
        """Return a server as this client writes it. Raises ConfigurationError if it is not supported."""
        if "command" in server:
            if refused := sorted(self.refused_env.intersection(server.get("env", ()))):
                hint = "name a file instead of a module" if refused == ["PYTHONPATH"] else "omit it"
                text = f"{self.title} does not pass {', '.join(refused)} to servers"
                raise ConfigurationError(text, hint=hint)
            found = {self.renamed.get(key, key): value for key, value in server.items()}
            kind = self.stdio_type
        elif self.http_key is None:
            raise ConfigurationError(
                f"{self.title} does not support URLs in its configuration file",
                hint="omit --url: it then starts the server",
            )
        else:
            found, kind = {self.http_key: server["url"]}, self.http_type
            if server.get("headers"):
                found[self.headers_key] = dict(server["headers"])
        own = {"name": name} if self.has_names else {}
        return {**self.presets, **({"type": kind} if kind else {}), **own, **found}


def _folder_of(variable: str, default: str = "") -> Path:
    """Return the folder in an environment variable, or one below the home folder."""
    return Path(os.environ.get(variable, "").strip() or Path.home() / default)


def _application_data() -> Path:
    """Return the folder for configuration of desktop applications."""
    match sys.platform:
        case "win32":
            return _folder_of("APPDATA", "AppData/Roaming")
        case "darwin":
            return Path.home() / "Library" / "Application Support"
        case _:
            return _folder_of("XDG_CONFIG_HOME", ".config")


def _claude_desktop() -> Path:
    """On Windows the packaged application uses its own copy of the roaming folder."""
    usual = _application_data() / "Claude" / "claude_desktop_config.json"
    # The folder exists on Windows only.
    packages = sorted((_folder_of("LOCALAPPDATA", "AppData/Local") / "Packages").glob("Claude_*"))
    files = [package / "LocalCache" / "Roaming" / "Claude" / usual.name for package in packages]
    return next((file for file in files if file.exists()), files[0] if files else usual)


def _goose() -> Path:
    """Goose follows the XDG folders on macOS too."""
    root = os.environ.get("GOOSE_PATH_ROOT", "")
    if os.path.isabs(root):
        return Path(root) / "config" / "config.yaml"
    if sys.platform == "win32":
        return _application_data() / "Block" / "goose" / "config" / "config.yaml"
    return _folder_of("XDG_CONFIG_HOME", ".config") / "goose" / "config.yaml"


_GEMINI_TRUST = "unless the folder is not trusted: /permissions changes that"

CLIENTS = (
    Client(
        "claude-desktop",
        "Claude Desktop",
        JsonEditor("mcpServers"),
        _claude_desktop,
        http_key=None,
        next_step="restart Claude Desktop; Settings > Developer shows the server",
    ),
    Client(
        "claude-code",
        "Claude Code",
        JsonEditor("mcpServers"),
        lambda: _folder_of("CLAUDE_CONFIG_DIR") / ".claude.json",
        project_file=".mcp.json",
        stdio_type="stdio",
        http_type="http",
        next_step="restart claude; /mcp shows the server",
        next_step_in_project="start claude in this folder and approve the server; /mcp shows it",
    ),
    Client(
        "cursor",
        "Cursor",
        JsonEditor("mcpServers"),
        lambda: Path.home() / ".cursor" / "mcp.json",
        project_file=".cursor/mcp.json",
        stdio_type="stdio",
        next_step="enable it in Cursor's settings, Tools & MCP; restart Cursor if it is missing",
        next_step_in_project="open this folder in Cursor and enable it in the settings, Tools & MCP",
    ),
    Client(
        "vscode",
        "VS Code",
        JsonEditor("servers"),
        lambda: _application_data() / "Code" / "User" / "mcp.json",
        project_file=".vscode/mcp.json",
        stdio_type="stdio",
        http_type="http",
        next_step="run 'MCP: List Servers' from VS Code's command palette and start it",
        next_step_in_project="open this folder in VS Code and start it with 'MCP: List Servers'",
    ),
    Client(
        "gemini",
        "Gemini CLI",
        JsonEditor("mcpServers"),
        lambda: _folder_of("GEMINI_CLI_HOME") / ".gemini" / "settings.json",
        project_file=".gemini/settings.json",
        http_key="httpUrl",
        next_step=f"restart gemini; /mcp shows the server, {_GEMINI_TRUST}",
        next_step_in_project=f"start gemini in this folder; /mcp shows the server, {_GEMINI_TRUST}",
    ),
    Client(
        "codex",
        "Codex",
        TomlEditor("mcp_servers"),
        lambda: _folder_of("CODEX_HOME", ".codex") / "config.toml",
        project_file=".codex/config.toml",
        headers_key="http_headers",
        next_step="restart codex; /mcp shows the server",
        next_step_in_project="start codex in this folder and trust it; /mcp shows the server",
    ),
    Client(
        "goose",
        "Goose",
        YamlEditor("extensions"),
        _goose,
        http_key="uri",
        stdio_type="stdio",
        http_type="streamable_http",
        renamed={"command": "cmd", "env": "envs"},
        presets={"enabled": True, "description": "Tools served by toolcrib", "timeout": 300},
        has_names=True,
        # Among others: these are the ones that people set.
        refused_env=frozenset(
            {"PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LD_PRELOAD", "TEMP", "TMP"}
        ),
        next_step="start a new session; `goose configure` and the settings list the server",
    ),
    Client(
        "windsurf",
        "Windsurf",
        JsonEditor("mcpServers"),
        lambda: Path.home() / ".codeium" / "windsurf" / "mcp_config.json",
        http_key="serverUrl",
        next_step="refresh the MCP servers in Windsurf's Cascade panel, or restart Windsurf",
    ),
)
