"""`toolcrib connect`: add a server to the configuration of a client, or remove it.

`clients` knows the clients and their files, `edit` changes a file.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from toolcrib.cli.connect import clients, edit
from toolcrib.cli.connect.clients import CLIENTS, DEFAULT_NAME, Client, Entry, Scope, is_toolcrib
from toolcrib.cli.options import (
    Command,
    CommandError,
    Targets,
    complete_from,
    exclusive,
    json_option,
    named_targets,
    parse_headers,
    targets_argument,
)
from toolcrib.cli.output import Terminal, shorten_paths
from toolcrib.cli.table import NAME, Column, print_table
from toolcrib.cli.text import STATE_STYLES, suggest
from toolcrib.config import load_config
from toolcrib.config.atomic_file import PRIVATE
from toolcrib.errors import ConfigurationError, suggest_file
from toolcrib.sources.foreign.program import is_script
from toolcrib.sources.targets import parse_target, resolve_target, settings_files

EXAMPLES = """
toolcrib connect cursor                   the targets of toolcrib.toml
toolcrib connect claude-desktop tools.py  the client starts the server
toolcrib connect vscode --url http://127.0.0.1:8000/mcp
toolcrib keys create ana | toolcrib connect vscode --url ... --key -
toolcrib connect codex tools.py --print   print the entry, write nothing
toolcrib connect cursor --remove
toolcrib connect --list                   list clients and their servers
"""
_COLUMNS = (
    replace(NAME, heading="CLIENT"),
    Column("FOUND", wraps=False, styles=STATE_STYLES),
    Column("SCOPE", wraps=False),
    Column("TOOLCRIB"),
    Column("FILE", wraps=False, style={"dim": True}),
)
_SECRET_KEYS = (*edit.ENV_KEYS, *edit.HEADER_KEYS)
_USE_VARIABLE = "--header 'Authorization: Bearer ${env:NAME}'"


@dataclass(frozen=True, slots=True)
class Destination:
    """Where an entry is written; `scope` is None if the user named the file."""

    client: Client
    scope: Scope | None
    file: Path
    name: str

    def print_json(self, terminal: Terminal, state: str, **more: Any) -> None:
        data = {"client": self.client.key, "scope": self.scope, "file": str(self.file), "name": self.name}
        terminal.json({**data, "state": state, **more})


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("client", required=False, shell_complete=complete_from([item.key for item in CLIENTS]))
@targets_argument
@json_option
@click.option("--url", metavar="URL", help="Connect to a running server.")
@click.option("--key", metavar="KEY", help="With --url: the API key to send, or - to read it from stdin.")
@click.option("--header", "headers", multiple=True, metavar="'K: V'", help="With --url: HTTP header to send.")
@click.option("--name", metavar="NAME", help="Name in the client.  [default: of the server or file]")
@click.option("--scope", type=click.Choice(["user", "project"]), help="For the user, or for this folder.")
@click.option("--file", metavar="PATH", help="Edit this file instead of the client's own.")
@click.option("--env", multiple=True, metavar="KEY=VALUE", help="Environment variable; repeatable.")
@click.option("--print", "only_print", is_flag=True, help="Print the entry and its file, write nothing.")
@click.option("--remove", is_flag=True, help="Remove the entry.")
@click.option("--force", is_flag=True, help="Replace or remove a different entry of that name.")
@click.option("--list", "only_list", is_flag=True, help="List the clients and their toolcrib servers.")
def connect(
    terminal: Terminal,
    client: str | None,
    targets: Targets,
    as_json: bool,
    url: str | None,
    key: str | None,
    headers: Sequence[str],
    name: str | None,
    scope: Scope | None,
    file: str | None,
    env: Sequence[str],
    only_print: bool,
    remove: bool,
    force: bool,
    only_list: bool,
) -> int:
    """Add a server to the configuration of a client.

    CLIENT is claude-desktop, claude-code, cursor, vscode, gemini, codex, goose or windsurf. Everything else
    in its file is kept; before the first change the file is copied to NAME.bak. JSON with comments, and the
    YAML of goose, is not changed: the entry is printed with its place.

    A TARGET is a Python file, folder, module, module:object or toolcrib.toml.
    """
    chosen = next((item for item in CLIENTS if item.key == client), None)
    if only_list and (chosen or client is None):
        return _list([chosen] if chosen else CLIENTS, as_json, terminal)
    if chosen is None:
        keys = [item.key for item in CLIENTS]
        text = "Missing argument 'CLIENT'" if client is None else f"Unknown client: {client}"
        raise CommandError(text, suggest(client or "", keys))
    if only_print and remove:
        raise exclusive("--print", "--remove")
    if not chosen.editor.is_writable and remove:
        text = f"The file of {chosen.title} is not edited"
        raise CommandError(text, f"remove the entry {chosen.editor.place} from {chosen.user_file()}")
    only_print = only_print or not chosen.editor.is_writable
    if file is None:
        used_scope: Scope | None = scope or "user"
        path = chosen.file(scope or "user")
    elif scope is None:
        used_scope, path = None, Path(os.path.abspath(Path(file).expanduser()))
    else:
        raise exclusive("--file", "--scope")
    destination = Destination(chosen, used_scope, path, chosen.server_name(name or default_name(targets)))
    if used_scope == "project" and not only_print:
        _check_link(path)
    if remove:
        return _remove(destination, url, force, as_json, terminal)
    server = _parse_server(targets, url, env, _read_headers(headers, key))
    clients.check_name(destination.name)
    entry = chosen.entry(server, destination.name)
    _warn_of_auth(targets, server, terminal)
    if not only_print:
        return _write(destination, entry, force, as_json, terminal)
    if as_json:
        destination.print_json(terminal, "printed", entry=entry)
    else:
        terminal.json_line(
            chosen.editor.show(destination.name, entry)
        )  # its escapes are valid in all formats
        terminal.message("note", f"add this to {path}, {chosen.editor.place}")
    return 0


def _check_link(file: Path) -> None:
    """Raise CommandError if a link, which may come with the checkout, leads to a file outside of it."""
    here = Path.cwd()
    root = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)
    real = Path(os.path.realpath(file))
    if not real.is_relative_to(os.path.realpath(root)):
        raise CommandError(f"{file} leads out of this project, to {real}", f"name that file: --file {real}")


# --- the server --------------------------------------------------------------------------------------


def _read_headers(given: Sequence[str], key: str | None) -> dict[str, str]:
    """Return the headers of the options; a key is sent as a bearer token."""
    headers = parse_headers(given)
    if key is not None:
        key = sys.stdin.readline().strip() if key == "-" else key.strip()
        if not key:
            raise CommandError("The key is empty", "--key KEY, or --key - and the key on stdin")
        if any(name.lower() == "authorization" for name in headers):
            raise exclusive("--key", "--header 'Authorization: ...'")
        headers["Authorization"] = f"Bearer {key}"
    for name, value in headers.items():
        if not f"{name}{value}".isprintable() or not name.isascii():
            raise CommandError(f"Invalid header {name!r}", "use printable characters on one line")
    return headers


def _parse_server(targets: Targets, url: str | None, env: Sequence[str], headers: Mapping[str, str]) -> Entry:
    if url is None and headers:
        raise CommandError("--key and --header require --url", "a server that the client starts needs no key")
    if url is None:
        return stdio_command(targets, _parse_env(env))
    if targets:
        raise CommandError(f"--url cannot be combined with {' '.join(targets)}")
    if env:
        raise CommandError("--env cannot be combined with --url", "set it where the server runs")
    entry: Entry = {"url": clients.check_url(url)}
    return {**entry, "headers": dict(headers)} if headers else entry


def _warn_of_auth(targets: Targets, server: Entry, terminal: Terminal) -> None:
    """Warn where [auth] of a toolcrib.toml makes the entry work in another way than it looks."""
    for file in settings_files(targets):
        try:
            config = load_config(file)
        except ConfigurationError:
            continue  # `serve` reports it
        auth = None if config.policy is None else config.policy.auth
        if auth is None:
            continue
        if "command" in server:
            text = (
                f"{shorten_paths(str(file))} has [auth], but a server that the client starts asks for no key"
            )
            hint = (
                "its caller is 'local': `toolcrib explain --as local` shows what that may call; "
                "to use a key, serve over HTTP and connect with --url URL --key KEY"
            )
            terminal.message("warning", text, hint)
        elif auth.keys is not None and "headers" not in server and clients.is_local(server):
            if urlsplit(server["url"]).port != (config.http.port or 8000):
                continue  # another server
            text = f"{shorten_paths(str(file))} has [auth]: the server will refuse this client with 401"
            terminal.message("warning", text, "add --key KEY; `toolcrib keys create NAME` makes one")


def _parse_env(pairs: Sequence[str]) -> dict[str, str]:
    env: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key or "\0" in pair:
            raise CommandError(f"--env must be KEY=VALUE, got {pair!r}")
        env[key] = value
    return env


def stdio_command(
    targets: Targets, env: Mapping[str, str] | None = None, options: Sequence[str] = ()
) -> Entry:
    """Return the entry of `toolcrib serve --stdio` with these targets and options.

    Paths in it are absolute, because clients have another PATH and folder. Raises CommandError for a target
    that does not exist. Nothing is imported.
    """
    here = Path.cwd()
    variables = dict(env or {})
    found = [_make_absolute(target, here) for target in named_targets(targets)]
    if any(_is_module(target, [str(here)]) for target in found):
        # `serve` also finds modules in the current folder, and clients have another one.
        variables.setdefault("PYTHONPATH", str(here))
    command, *words = clients.find_program(sys.executable, sysconfig.get_path("scripts"))
    made = Targets.of([*found, *options], targets.arguments)
    entry: Entry = {"command": command, "args": [*words, "serve", "--stdio", *made.words]}
    return {**entry, "env": variables} if variables else entry


def _make_absolute(target: str, here: Path) -> str:
    if "://" in target:
        raise CommandError(f"{target} is a URL", f"for a running server, use --url {target}")
    found = parse_target(resolve_target(target, here))
    if found.path is None:
        is_known = is_script(target) or _is_module(found.text, [str(here), *sys.path])
        if not is_known:
            raise CommandError(f"No such file, folder or module: {target}", suggest_file(target))
        return found.text
    if found.is_missing:
        name = target.removesuffix(f":{found.name}")
        raise CommandError(f"No such file: {name}", suggest_file(name))
    return os.path.normpath(found.path) + (f":{found.name}" if found.name else "")


def _is_module(target: str, folders: Iterable[str]) -> bool:
    """Return whether the package of a module is in one of the folders, without importing it."""
    top = target.partition(":")[0].partition(".")[0]
    return top.isidentifier() and PathFinder.find_spec(top, list(folders)) is not None


def default_name(targets: Sequence[str]) -> str:
    """Return the name in the first toolcrib.toml, or of the first target."""
    config = next(iter(settings_files(targets)), None)
    if config is not None and config.is_file() and (name := load_config(config).name):
        return clients.name_from(name)
    if not targets:
        return DEFAULT_NAME
    first = parse_target(resolve_target(targets[0], Path.cwd()))
    if first.path is None:
        return clients.name_from(first.module or first.text)
    is_file = first.path.suffix in (".py", ".toml")
    return clients.name_from(first.path.stem if is_file else first.path.resolve().name)


# --- actions -----------------------------------------------------------------------------------------


def _write(
    destination: Destination, entry: dict[str, Any], force: bool, as_json: bool, terminal: Terminal
) -> int:
    client, name, file = destination.client, destination.name, destination.file
    headers = [value for key in edit.HEADER_KEYS for value in entry.get(key, {}).values()]
    is_secret = any("${" not in value for value in headers)
    facts = edit.read(file).facts if is_secret and os.name != "nt" else None
    if facts is not None and facts.st_mode & 0o077:
        text = f"Other users can read {file}, and the entry contains a secret header"
        raise CommandError(
            text, f"chmod 600 {shlex.quote(str(file))}, or refer to a variable: {_USE_VARIABLE}"
        )
    # The file of a project is shared: it gets the mode of any new file.
    mode = None if destination.scope == "project" and not is_secret else PRIVATE
    done = edit.connect(client.editor, file, name, entry, force=force, mode=mode)
    next_step = client.next_step_in_project if destination.scope == "project" else client.next_step
    if as_json:
        destination.print_json(terminal, done.state, entry=entry, **_outcome_json(done), next=next_step)
    elif done.state == "different":
        terminal.message("error", f"{client.title} has a different server '{name}' in {file}")
        _print_entry("existing", _mask_secrets(done.existing), terminal)
        _print_entry("new", _mask_secrets(entry, edit.HEADER_KEYS), terminal)
        terminal.message("hint", "use another name with --name, or replace it with --force")
    elif done.state == "already-connected":
        terminal.message("note", f"already connected: '{name}' in {file}")
    else:
        if done.backup:
            terminal.message("note", f"backup of the original file: {done.backup}")
        secrets = [name for key in _SECRET_KEYS for name in entry.get(key, ())]
        if destination.scope == "project" and secrets:
            names = ", ".join(secrets)
            terminal.message("warning", f"the values of {names} are in a file shared with the project")
        url = clients.url_of(entry)
        if url and urlsplit(url).path in ("", "/"):
            terminal.message("warning", f"{url} has no path; toolcrib serve uses /mcp")
        terminal.message("note", f"{done.state} '{name}' in {file}", next_step)
    return 1 if done.state == "different" else 0


def _remove(destination: Destination, url: str | None, force: bool, as_json: bool, terminal: Terminal) -> int:
    def is_ours(entry: Any) -> bool:
        has_url = url is not None and isinstance(entry, Mapping) and url in entry.values()
        return force or has_url or is_toolcrib(entry) or clients.is_local(entry)

    client, name, file = destination.client, destination.name, destination.file
    done = edit.disconnect(client.editor, file, name, is_ours)
    if as_json:
        destination.print_json(terminal, done.state, **_outcome_json(done))
    elif done.state == "foreign":
        terminal.message("error", f"'{name}' in {file} does not look like a toolcrib server")
        _print_entry("existing", _mask_secrets(done.existing), terminal)
        terminal.message("hint", "remove it anyway with --force")
    elif done.state == "not-connected":
        terminal.message("note", f"not connected: no '{name}' in {file}")
    else:
        terminal.message("note", f"removed '{name}' from {file}", f"restart {client.title}")
    return 1 if done.state == "foreign" else 0


def _list(chosen: Sequence[Client], as_json: bool, terminal: Terminal) -> int:
    found: list[dict[str, Any]] = []
    rows = []
    for client in chosen:
        files: list[dict[str, Any]] = []
        for scope in ("user", "project") if client.project_file else ("user",):
            file, names, error = client.file(scope), [], None
            try:
                servers = edit.list_servers(client.editor, file) if client.editor.is_writable else {}
                names = [item for item in map(_describe_entry, servers, servers.values()) if item is not None]
            except ConfigurationError as problem:
                error = str(problem)
            state = {"exists": file.exists(), "servers": names, "error": error}
            files.append({"scope": scope, "file": str(file), **state})
            shown = "unreadable" if error else ", ".join(names) or "-"
            is_found = "yes" if client.is_found() else "no"
            rows.append((client.key, is_found, scope, shown, shorten_paths(str(file))))
        facts = {"client": client.key, "title": client.title, "found": client.is_found()}
        found.append({**facts, "files": files})
    if as_json:
        terminal.json({"clients": found})
        return 0
    for error in [file["error"] for each in found for file in each["files"] if file["error"]]:
        terminal.message("warning", error)
    print_table(_COLUMNS, rows, terminal)
    return 0


def _describe_entry(name: str, entry: Any) -> str | None:
    """Return the name of an entry that may be a toolcrib server, with the host of one that has a URL."""
    url = clients.url_of(entry)
    if isinstance(url, str):  # its path may hold a secret
        return f"{name} (at {urlsplit(url).netloc.rpartition('@')[2] or url})"
    return name if name == DEFAULT_NAME or is_toolcrib(entry) else None


def _outcome_json(done: edit.Outcome) -> dict[str, Any]:
    backup = str(done.backup) if done.backup else None
    return {"existing": _mask_secrets(done.existing), "backup": backup}


def _mask_secrets(entry: Any, keys: Sequence[str] = _SECRET_KEYS) -> Any:
    """Return an entry without the values of its headers, and of its environment if it is somebody else's."""
    if not isinstance(entry, Mapping):
        return entry
    return {
        key: dict.fromkeys(value, "***") if key in keys and isinstance(value, Mapping) else value
        for key, value in entry.items()
    }


def _print_entry(label: str, entry: Any, terminal: Terminal) -> None:
    """Print an entry on one line with whole paths, where the difference may be."""
    terminal.echo_err(f"  {label}: {json.dumps(entry, ensure_ascii=False, default=str)}")
