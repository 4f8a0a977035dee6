"""`toolcrib keys`: makes API keys, lists them, ends them. A key is shown once, when it is made.

Knows the words of the commands and where the file of keys is; what a key is and how the file is kept is in
`toolcrib.policy.auth`.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from toolcrib.cli import table as render
from toolcrib.cli.audit import read_ahead, show_day, show_moment, show_span
from toolcrib.cli.options import Command, F, Failure, show_examples, takes_json
from toolcrib.cli.output import Terminal, shorten_paths
from toolcrib.cli.text import count, suggest
from toolcrib.config import FILE_NAME, Config, load_config
from toolcrib.policy.auth.api_keys import (
    PREFIX,
    InvalidKeyError,
    Key,
    KeyFile,
    NameTakenError,
    is_complete_key,
)

USUAL_NAME = "toolcrib.keys.json"
USUAL_LIFE = "90d"
CREATE = """
toolcrib keys create ana                          good for 90 days
toolcrib keys create ci --scope orders:read --expires 2027-01-01
toolcrib keys create ops --role support --expires never
KEY=$(toolcrib keys create ana)                   only the key is printed
"""
LIST = """
toolcrib keys list
toolcrib keys list --json                         for programs
"""
REVOKE = """
toolcrib keys revoke ana
toolcrib keys revoke 3f9a1b2c                     by the id that list shows
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the keys are, and whether a server that is started here asks for them."""

    file: KeyFile
    config: Config | None
    is_named: bool

    @property
    def shown(self) -> str:
        return shorten_paths(str(self.file.path))


EXAMPLES = """
toolcrib keys create ana --scope orders:write --expires 30d
toolcrib keys list
toolcrib keys revoke ana
"""


@click.group(epilog=show_examples(EXAMPLES))
def keys() -> None:
    """Make, list and revoke API keys for callers over HTTP.

    The file holds no key, only what tells a good one from a bad one: --file, else `keys` under [auth] in
    toolcrib.toml, else toolcrib.keys.json here.
    """


def takes_file(function: F) -> F:
    return click.option(
        "--file", metavar="PATH", help=f"The file of keys, in place of what {FILE_NAME} says."
    )(function)


@keys.command(cls=Command, examples=CREATE)
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="What it is good for; any number.")
@click.option("--role", "roles", multiple=True, metavar="ROLE", help="A role of its holder; any number.")
@click.option(
    "--expires",
    default=USUAL_LIFE,
    metavar="WHEN",
    help=f"30d, 12h, 2027-01-01 (UTC) or never; {USUAL_LIFE} as usual.",
)
@takes_file
@takes_json
def create(
    terminal: Terminal,
    name: str,
    scopes: Sequence[str],
    roles: Sequence[str],
    expires: str,
    file: str | None,
    as_json: bool,
) -> int:
    """Make a key and print it, this once.

    Rules know its holder as `key:NAME`. Running servers take it within a second.
    """
    place = find_file(file)
    now_s = time.time()
    until_s = None if expires.strip().lower() == "never" else read_ahead("--expires", expires, now_s)
    if until_s is not None and until_s <= now_s:
        raise Failure(f"--expires {expires!r} has passed", "write a time to come: 30d, or a date")
    try:
        secret, key = place.file.create(name, scopes, roles, until_s)
    except NameTakenError as error:
        hint = f"choose another name, or end that one: {_spell('revoke', name, file)}"
        raise Failure(str(error), hint) from None
    except InvalidKeyError as error:
        raise Failure(str(error)) from None
    try:
        if as_json:
            terminal.json({"secret": secret, "key": _to_json(key, now_s), "file": str(place.file.path)})
        else:
            terminal.data(secret)
    except OSError:
        place.file.revoke(key.id)  # nobody has seen it
        raise
    if not as_json:
        _say_created(place, key, now_s, terminal)
    if not place.is_named:
        hint = f"have the server ask for keys, in {FILE_NAME}:\n{_name_file(place.file.path)}"
        terminal.say("note", f"no {FILE_NAME} here names {place.shown}", hint)
    return 0


@keys.command("list", cls=Command, examples=LIST)
@takes_file
@takes_json
def list_keys(terminal: Terminal, file: str | None, as_json: bool) -> int:
    """List the keys: whose, for what, until when."""
    place = find_file(file)
    now_s = time.time()
    entries = place.file.entries()
    if as_json:
        terminal.json({"file": str(place.file.path), "keys": [_to_json(key, now_s) for key in entries]})
        return 0
    if entries:
        headings = ("NAME", "ID", "KEY", "SCOPES", "ROLES", "CREATED", "EXPIRES", "STATE")
        render.list_rows(headings, [_row(key, now_s) for key in entries], terminal)
    else:
        terminal.say("note", f"there are no keys in {place.shown}", _spell("create", "NAME", file))
    return 0


@keys.command(cls=Command, examples=REVOKE)
@click.argument("name", metavar="NAME|ID")
@takes_file
@takes_json
def revoke(terminal: Terminal, name: str, file: str | None, as_json: bool) -> int:
    """End a key, by its name or its id.

    Running servers refuse it within a second. A key itself will do in place of its name, where it was found
    somewhere and nobody knows whose it is.
    """
    place = find_file(file)
    if name.startswith(PREFIX) and not is_complete_key(name):
        raise Failure("This is not a whole key: cut off, or mistyped", "name the key, or give all of it")
    try:
        ended = place.file.revoke(name)
    except LookupError:
        entries = [key for key in place.file.entries() if key.revoked is None]
        if name.startswith(PREFIX):
            raise Failure(f"This key is not in {place.shown}", "another file may have it: --file") from None
        is_id = any(key.id.startswith(name[:4]) for key in entries)
        hint = suggest(name, [key.id if is_id else key.name for key in entries])
        raise Failure(f"Unknown key: {name}", hint or f"no key in {place.shown} is active") from None
    if as_json:
        now_s = time.time()
        terminal.json({"file": str(place.file.path), "revoked": [_to_json(key, now_s) for key in ended]})
    elif ended:
        words = " and ".join(f"'{key.name}' ({key.id})" for key in ended)
        terminal.say("note", f"revoked {words}; running servers refuse it within a second")
    else:
        terminal.say("note", "it was revoked before; nothing to do")
    return 0


def find_file(given: str | None) -> Place:
    """The file of keys, and what the settings here say of it."""
    config = load_config(Path(FILE_NAME), os.environ) if Path(FILE_NAME).is_file() else None
    policy = None if config is None else config.policy
    named = None if policy is None or policy.auth is None else policy.auth.keys
    path = Path(given).expanduser() if given else Path(named or USUAL_NAME)
    is_named = named is not None and os.path.realpath(named) == os.path.realpath(path)
    return Place(KeyFile(path), config, is_named)


def _say_created(place: Place, key: Key, now_s: float, terminal: Terminal) -> None:
    if key.expires is None:
        life = "it never expires"
    else:
        life = f"it expires {show_moment(key.expires, now_s)} UTC, in {show_span(key.expires - now_s)}"
    terminal.say("note", f"key '{key.name}' ({key.id}) is in {place.shown}; {life}")
    rights = [f"{count(len(words), noun)}: {', '.join(words)}" for noun, words in _rights(key) if words]
    if rights:
        terminal.say("note", f"it has {'; '.join(rights)}")
    terminal.say("note", "the key is shown this once, and kept nowhere: keep it where secrets belong")
    entry = {"type": "http", "url": _address(place.config), "headers": {"Authorization": "Bearer KEY"}}
    name = (place.config and place.config.name) or "toolcrib"
    snippet = f"{json.dumps(name)}: {json.dumps(entry)}"
    header = "clients send it as `Authorization: Bearer KEY` or `X-API-Key: KEY`"
    terminal.say("note", f"{header}; in the configuration of one:\n    {snippet}")


def _rights(key: Key) -> tuple[tuple[str, Sequence[str]], ...]:
    return ("scope", key.scopes), ("role", key.roles)


def _address(config: Config | None) -> str:
    http = None if config is None else config.http
    host = (http and http.host) or "127.0.0.1"
    port = (http and http.port) or 8000
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{(http and http.path) or '/mcp'}"


def _name_file(path: Path) -> str:
    return f"    [auth]\n    keys = {json.dumps(shorten_paths(str(path)), ensure_ascii=False)}"


def _row(key: Key, now_s: float) -> tuple[str, ...]:
    return (
        key.name,
        key.id,
        f"{key.prefix}...",
        ", ".join(key.scopes) or "-",
        ", ".join(key.roles) or "-",
        show_day(key.created),
        "never" if key.expires is None else show_moment(key.expires, now_s),
        key.state(now_s),
    )


def _to_json(key: Key, now_s: float) -> dict[str, Any]:
    return {**key.to_json(), "state": key.state(now_s)}


def _spell(command: str, word: str, file: str | None) -> str:
    """A command for hints."""
    words = ["toolcrib", "keys", command, word, *(["--file", file] if file else [])]
    return shlex.join(words)
