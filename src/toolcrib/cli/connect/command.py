"""`toolcrib connect`: writes a server into a client's configuration, and takes it out again.

Knows what the words of the command mean: targets become absolute, a name is found where none is given. What
clients want and how their files are changed is in `toolcrib.cli.connect`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from toolcrib.cli import connect as clients
from toolcrib.cli.connect import Client, HttpServer, Machine, Outcome, Scope, Server, StdioServer
from toolcrib.cli.options import Command, Failure, takes_json, takes_targets
from toolcrib.cli.output import Terminal, shorten_paths
from toolcrib.cli.text import suggest
from toolcrib.config import FILE_NAME, load_config
from toolcrib.errors import ConfigurationError
from toolcrib.sources.targets import resolve_target

SAMPLES = "toolcrib.samples"
EXAMPLES = """
toolcrib connect cursor                   toolcrib.toml, or the samples
toolcrib connect claude-desktop tools.py  the client starts the server
toolcrib connect vscode --url http://127.0.0.1:8000/mcp
toolcrib connect codex tools.py --print   show the entry, write nothing
toolcrib connect cursor --remove
toolcrib connect --list                   which clients are here
"""
_SECRET = ("env", "headers", "http_headers")  # an entry's values that are nobody's business


@dataclass(frozen=True, slots=True)
class Place:
    """Where an entry goes. `scope` is None where the user named the file."""

    client: Client
    scope: Scope | None
    file: Path
    name: str

    def to_json(self, state: str, **more: Any) -> dict[str, Any]:
        facts = {"client": self.client.key, "scope": self.scope, "file": str(self.file), "name": self.name}
        return {**facts, "state": state, **more}


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("client", required=False)
@takes_targets
@takes_json
@click.option("--url", metavar="URL", help="Connect to a server that runs already.")
@click.option(
    "--name", metavar="NAME", help="What the client calls it; else the server's or the file's name."
)
@click.option("--scope", type=click.Choice(["user", "project"]), help="For you (default) or in this folder.")
@click.option("--file", metavar="PATH", help="Change this file instead of the client's own.")
@click.option("--env", multiple=True, metavar="KEY=VALUE", help="A variable for the server; any number.")
@click.option("--print", "only_print", is_flag=True, help="Show the entry and where it goes, write nothing.")
@click.option("--remove", is_flag=True, help="Take the entry out again.")
@click.option("--force", is_flag=True, help="Replace or remove a different entry of that name.")
@click.option("--list", "only_list", is_flag=True, help="Show which clients are here and what they know.")
def connect(
    terminal: Terminal,
    client: str | None,
    targets: Sequence[str],
    as_json: bool,
    url: str | None,
    name: str | None,
    scope: Scope | None,
    file: str | None,
    env: Sequence[str],
    only_print: bool,
    remove: bool,
    force: bool,
    only_list: bool,
) -> int:
    """Write a server into the configuration of a client.

    CLIENT is claude-desktop, claude-code, cursor, vscode, gemini or codex. Everything else in its file stays
    as it is, comments too; before the first change the file is copied to NAME.bak.

    A TARGET is a Python file, a folder, a module, module:object or a toolcrib.toml.
    """
    if only_list:
        return _list([_find(client)] if client else clients.CLIENTS, as_json, terminal)
    if client is None:
        raise Failure("Missing argument 'CLIENT'", f"one of {', '.join(one.key for one in clients.CLIENTS)}")
    if only_print and remove:
        raise Failure("--print and --remove do not go together", "--print shows what would be written")
    if file is not None and scope is not None:
        raise Failure("--file already says where", "drop --scope")
    chosen = _find(client)
    if remove:
        place = _place(chosen, scope, file, name or default_name(targets))
        return _remove(place, url, force, as_json, terminal)
    server = _read_server(targets, url, env)
    place = _place(chosen, scope, file, clients.check_name(name or default_name(targets)))
    entry = clients.entry_for(chosen, server)
    if only_print:
        return _print(place, entry, as_json, terminal)
    return _write(place, entry, force, as_json, terminal)


def _find(name: str) -> Client:
    found = clients.find_client(name)
    if found is None:
        raise Failure(f"Unknown client: {name}", suggest(name, [client.key for client in clients.CLIENTS]))
    return found


def _place(client: Client, scope: Scope | None, file: str | None, name: str) -> Place:
    if file is not None:
        return Place(client, None, Path(os.path.abspath(Path(file).expanduser())), name)
    return Place(client, scope or "user", client.file(Machine.here(), scope or "user"), name)


# --- what to connect ---------------------------------------------------------------------------------


def _read_server(targets: Sequence[str], url: str | None, env: Sequence[str]) -> Server:
    if url is None:
        return launch(targets, _read_env(env))
    if targets:
        raise Failure("--url is for a server that runs already", f"drop {' '.join(targets)}, or --url")
    if env:
        raise Failure("--env is for a server that the client starts", "set it where the server runs")
    return HttpServer(clients.check_url(url))


def launch(targets: Sequence[str], env: Mapping[str, str] | None = None) -> StdioServer:
    """The command that serves these targets on stdio, from whatever folder a client starts it in.

    Raises Failure for a target that is not there. Nothing is imported.
    """
    here = Path.cwd()
    variables = dict(env or {})
    found = [_locate(target, here) for target in targets or _default_targets()]
    if any(_is_module(target, [str(here)]) for target in found):
        # `serve` looks for modules in the current folder too, and a client has another one.
        variables.setdefault("PYTHONPATH", str(here))
    return clients.stdio_server(found, variables)


def _default_targets() -> list[str]:
    return [FILE_NAME] if Path(FILE_NAME).is_file() else [SAMPLES]


def _locate(target: str, here: Path) -> str:
    """A target as it is found from anywhere."""
    if "://" in target:
        raise Failure(f"{target} is an address", f"for a server that runs already: --url {target}")
    found = resolve_target(target, here)
    if not os.path.isabs(found):
        if not _is_module(found, [str(here), *sys.path]):
            raise Failure(f"There is no file, folder or module {target}")
        return found
    path, colon, name = found.rpartition(":")
    if not colon or os.path.exists(found):
        path, colon, name = found, "", ""
    if not os.path.exists(path):
        raise Failure(f"There is no file {target.removesuffix(colon + name)}")
    return os.path.normpath(path) + colon + name


def _is_module(target: str, folders: Iterable[str]) -> bool:
    """Whether a module's package is in one of the folders. Nothing is imported to find out."""
    top = target.partition(":")[0].partition(".")[0]
    return top.isidentifier() and PathFinder.find_spec(top, list(folders)) is not None


def default_name(targets: Sequence[str]) -> str:
    """The name in the first toolcrib.toml, or what the first target is called."""
    target = next((item for item in targets if item.endswith(".toml")), None)
    if not targets and Path(FILE_NAME).is_file():
        target = FILE_NAME
    if target is not None and Path(target).is_file() and (name := load_config(Path(target)).name):
        return clients.name_from(name)
    if not targets:
        return clients.DEFAULT_NAME
    place, colon, _ = targets[0].rpartition(":")
    first = place if colon and place and not Path(targets[0]).exists() else targets[0]
    path = Path(resolve_target(first, Path.cwd()))
    if not path.is_absolute():
        return clients.name_from(first)
    return clients.name_from(path.stem if path.suffix in (".py", ".toml") else path.resolve().name)


def _read_env(pairs: Sequence[str]) -> dict[str, str]:
    env: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key or "\0" in pair:
            raise Failure(f"--env wants KEY=VALUE, got {pair!r}")
        env[key] = value
    return env


# --- what to do --------------------------------------------------------------------------------------


def _print(place: Place, entry: dict[str, Any], as_json: bool, terminal: Terminal) -> int:
    if as_json:
        terminal.json(place.to_json("printed", entry=entry))
        return 0
    terminal.json_line(place.client.editor.show(place.name, entry))  # escapes that TOML has as well
    terminal.say("note", f"it goes into {place.file}")
    return 0


def _write(place: Place, entry: dict[str, Any], force: bool, as_json: bool, terminal: Terminal) -> int:
    act = clients.replace if force else clients.connect
    mode = clients.SHARED if place.scope == "project" else clients.PRIVATE
    done = act(place.client, place.file, place.name, entry, mode=mode)
    if as_json:
        next_step = place.client.say_next(place.scope or "user")
        backup = str(done.backup) if done.backup else None
        facts = {"entry": entry, "existing": _without_secrets(done.existing), "backup": backup}
        terminal.json(place.to_json(done.state, **facts, next=next_step))
    else:
        _tell(place, entry, done, terminal)
    return 1 if done.state == "different" else 0


def _tell(place: Place, entry: dict[str, Any], done: Outcome, terminal: Terminal) -> None:
    title, name, file = place.client.title, place.name, place.file
    if done.state == "different":
        terminal.say("error", f"{title} has another server called '{name}' in {file}")
        _show_entry("there", _without_secrets(done.existing), terminal)
        _show_entry("wanted", entry, terminal)
        terminal.say("hint", "give it another name with --name, or replace it with --force")
        return
    if done.state == "already-connected":
        terminal.say("note", f"already connected: '{name}' is in {file}")
        return
    if done.backup:
        terminal.say("note", f"the file as it was is in {done.backup}")
    if place.scope == "project" and "env" in entry:
        terminal.say(
            "warning", f"the values of {', '.join(entry['env'])} are in a file that a project shares"
        )
    url = entry.get("url", entry.get("httpUrl"))
    if url and urlsplit(url).path in ("", "/"):
        terminal.say("warning", f"{url} names no path; toolcrib serve answers at /mcp")
    verb = "replaced" if done.state == "replaced" else "connected"
    terminal.say("note", f"{verb} '{name}' in {file}", place.client.say_next(place.scope or "user"))


def _remove(place: Place, url: str | None, force: bool, as_json: bool, terminal: Terminal) -> int:
    def is_ours(entry: Any) -> bool:
        is_named = url is not None and isinstance(entry, Mapping) and url in entry.values()
        return force or is_named or clients.is_toolcrib(entry) or clients.is_local(entry)

    done = clients.disconnect(place.client, place.file, place.name, is_ours)
    name, file = place.name, place.file
    if as_json:
        facts = {
            "existing": _without_secrets(done.existing),
            "backup": str(done.backup) if done.backup else None,
        }
        terminal.json(place.to_json(done.state, **facts))
    elif done.state == "foreign":
        terminal.say("error", f"'{name}' in {file} does not look like a toolcrib server")
        _show_entry("there", _without_secrets(done.existing), terminal)
        terminal.say("hint", "remove it all the same with --force")
    elif done.state == "not-connected":
        terminal.say("note", f"not connected: there is no '{name}' in {file}")
    else:
        terminal.say("note", f"removed '{name}' from {file}", f"restart {place.client.title}")
    return 1 if done.state == "foreign" else 0


def _list(chosen: Sequence[Client], as_json: bool, terminal: Terminal) -> int:
    machine = Machine.here()
    found = [_look_into(client, machine) for client in chosen]
    if as_json:
        terminal.json({"clients": found})
        return 0
    rows = [("CLIENT", "HERE", "SCOPE", "TOOLCRIB", "FILE")]
    for client in found:
        for file in client["files"]:
            names = "unreadable" if file["error"] else ", ".join(file["servers"]) or "-"
            here = "yes" if client["found"] else "no"
            rows.append((client["client"], here, file["scope"], names, shorten_paths(file["file"])))
            if file["error"]:
                terminal.say("warning", file["error"])
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        terminal.data("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _look_into(client: Client, machine: Machine) -> dict[str, Any]:
    files = []
    for scope in client.scopes():
        file = client.file(machine, scope)
        names, error = [], None
        try:
            servers = clients.list_servers(client, file)
            names = [name for name, entry in servers.items() if clients.is_toolcrib(entry)]
            names += [name for name in (clients.DEFAULT_NAME,) if name in servers and name not in names]
        except ConfigurationError as problem:
            error = str(problem)
        files.append(
            {"scope": scope, "file": str(file), "exists": file.exists(), "servers": names, "error": error}
        )
    found = client.is_found(machine)
    return {"client": client.key, "title": client.title, "found": found, "files": files}


def _without_secrets(entry: Any) -> Any:
    """An entry somebody else wrote, as it may be shown: keys and tokens are often in it."""
    if not isinstance(entry, Mapping):
        return entry
    return {
        key: dict.fromkeys(value, "***") if key in _SECRET and isinstance(value, Mapping) else value
        for key, value in entry.items()
    }


def _show_entry(label: str, entry: Any, terminal: Terminal) -> None:
    """On a line of its own, and with whole paths: the difference may be in one."""
    terminal.put(f"  {label}: {json.dumps(entry, ensure_ascii=False, default=str)}")
