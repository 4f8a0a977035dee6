"""`toolcrib keys`: create, list and revoke API keys. A key is shown once, when it is created."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import time
from collections.abc import Coroutine, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from toolcrib.cli.options import Command, CommandError, F, Time, format_examples, json_option
from toolcrib.cli.output import Terminal, shorten_paths
from toolcrib.cli.table import NAME, Column, print_table
from toolcrib.cli.text import STATE_STYLES, format_time, suggest
from toolcrib.config import FILE_NAME, Config, load_default_config
from toolcrib.errors import ConfigurationError
from toolcrib.policy.auth.api_keys import (
    PREFIX,
    InvalidKeyError,
    KeyFile,
    NameTakenError,
    create_key,
    hash_secret,
    is_complete_key,
    state_of,
    to_json,
)
from toolcrib.state import sqlite_path
from toolcrib.state.base import Key, KeyStore, StateUnavailable, run_now

if TYPE_CHECKING:
    from toolcrib.state.postgresql.database import Database
    from toolcrib.state.sqlite.state import SQLiteState

T = TypeVar("T")

DEFAULT_FILE = "toolcrib.keys.json"
DEFAULT_LIFETIME = "90d"
REPLICAS_S = 5.0
"""How long revoking a key waits for the replicas of a fleet."""
EXAMPLES = """
toolcrib keys create ana                          valid for 90 days
toolcrib keys create ci --scope orders:read --expires 2027-01-01
toolcrib keys create ops --role support --expires never
KEY=$(toolcrib keys create ana)                   only the key is printed
toolcrib keys list --json                         for programs
toolcrib keys revoke ana
toolcrib keys revoke 3f9a1b2c                     by the id that list shows
"""
_COLUMNS = (
    NAME,
    Column("ID", wraps=False),
    Column("KEY", wraps=False),
    Column("SCOPES"),
    Column("ROLES"),
    Column("CREATED", wraps=False),
    Column("EXPIRES", wraps=False),
    Column("STATE", wraps=False, styles=STATE_STYLES),
)


@click.group(epilog=format_examples(EXAMPLES))
def keys() -> None:
    """Create, list and revoke API keys for HTTP callers.

    They are kept as hashes: in --file, else where `keys` under [auth] in toolcrib.toml says (a file, or
    "state" for the database of [state] url or of [fleet]), else in toolcrib.keys.json in the current folder.
    """


class Keys:
    """The keys in a file, in the database of `[state] url`, or in that of a fleet."""

    def __init__(
        self, store: KeyStore, place: str, state: SQLiteState | None = None, fleet: Database | None = None
    ) -> None:
        self.store = store
        self.place = place
        self._state = state or fleet
        self._fleet = fleet

    @classmethod
    def open(cls, keys: Path | str | None, config: Config) -> Keys:
        """Open what `[auth] keys` names. Raises ConfigurationError."""
        if str(keys) != "state":
            path = Path(keys or DEFAULT_FILE)
            return cls(KeyFile(path), str(path))
        if config.fleet is not None:
            from toolcrib.fleet.state import open_database  # delayed: few servers are replicas

            database, schema = open_database(config.fleet), config.fleet.db_schema
            from toolcrib.state.postgresql.keys import PostgreSQLKeys  # an extra, which is there

            return cls(PostgreSQLKeys(database), f"the schema {schema} of PostgreSQL", fleet=database)
        from toolcrib.state.sqlite.state import SQLiteState  # delayed: loads SQLite

        if config.state is None or (file := sqlite_path(config.state)) is None:
            hint = 'name a database: [state]\n    url = "sqlite:///state.db"'
            raise ConfigurationError("there is no database for keys", key="state.url", hint=hint)
        state = SQLiteState(file)
        return cls(state.keys, str(file), state)

    def run(self, method: Coroutine[Any, Any, T]) -> T:
        """Return the result of a method of the store."""
        return run_now(method) if self._state is None else asyncio.run(self._finish(method, self._state))

    async def _finish(self, method: Coroutine[Any, Any, T], state: SQLiteState | Database) -> T:
        try:
            return await method
        except StateUnavailable as error:
            raise CommandError(f"Cannot use the keys: {error}") from None
        finally:
            await state.close()

    def wait_for_replicas(self, version: int) -> list[str] | None:
        """Return the replicas of a fleet that do not know a version of the keys in time; None without a
        fleet."""
        if self._fleet is None:
            return None
        from toolcrib.fleet.membership import wait_until_known

        late = self.run(wait_until_known(self._fleet, "keys", version, within_s=REPLICAS_S))
        return [f"{each.process} ({each.facts.get('host')})" for each in late]

    def read(self) -> Sequence[Key]:
        found = self.run(self.store.read())
        return () if found is None else found[1]


def _open(given: str | None, config: Config | None = None) -> tuple[Keys, bool]:
    """Return the keys, and whether the configuration of the current folder uses them."""
    config = config or load_default_config()
    named = None if config.policy is None or config.policy.auth is None else config.policy.auth.keys
    if given is None:
        return Keys.open(named, config), named is not None
    path = Path(given).expanduser()
    is_configured = named is not None and os.path.realpath(named) == os.path.realpath(path)
    return Keys(KeyFile(path), str(path)), is_configured


def file_option(function: F) -> F:
    text = f"Key file, instead of the one in {FILE_NAME}."
    return click.option("--file", metavar="PATH", help=text)(function)


@keys.command(cls=Command, examples=EXAMPLES)
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="Scope of the key; repeatable.")
@click.option("--role", "roles", multiple=True, metavar="ROLE", help="Role of its holder; repeatable.")
@click.option(
    "--expires",
    "expires_s",
    type=Time(1),
    default=DEFAULT_LIFETIME,
    metavar="WHEN",
    help=f"30d, 12h, 2027-01-01 (UTC) or never.  [default: {DEFAULT_LIFETIME}]",
)
@file_option
@json_option
def create(
    terminal: Terminal,
    name: str,
    scopes: Sequence[str],
    roles: Sequence[str],
    expires_s: float,
    file: str | None,
    as_json: bool,
) -> int:
    """Create a key and print it once.

    Rules know its holder as `key:NAME`. Running servers accept it within a second.
    """
    config = load_default_config()
    keys, is_configured = _open(file, config)
    now_s = time.time()
    if expires_s <= now_s:
        raise CommandError("The time of --expires is in the past", "use a duration or a date")
    try:
        expires = None if expires_s == inf else expires_s
        secret, key = keys.run(create_key(keys.store, name, scopes, roles, expires))
    except (NameTakenError, InvalidKeyError) as error:
        revoke_it = f"choose another name, or revoke that key: {_command('revoke', name, file)}"
        hint = revoke_it if isinstance(error, NameTakenError) else None
        raise CommandError(str(error), hint) from None
    try:
        if as_json:
            terminal.json({"secret": secret, "key": _to_json(key, now_s), "file": keys.place})
        else:
            terminal.echo(secret)
    except OSError:
        keys.run(keys.store.revoke(key.id))  # it could not be shown
        raise
    if not as_json:
        _print_created(keys, key, now_s, terminal)
        _print_example(config, terminal)
    if not is_configured:
        used = _name(keys)
        value = json.dumps(used, ensure_ascii=False)
        code = f"or in code: Policy(auth=Auth(keys={value}))"
        hint = f"to require keys, add this to {FILE_NAME}:\n    [auth]\n    keys = {value}\n{code}"
        terminal.message("note", f"no {FILE_NAME} in this folder uses {used} yet", hint)
    return 0


@keys.command("list", cls=Command, examples=EXAMPLES)
@file_option
@json_option
def list_keys(terminal: Terminal, file: str | None, as_json: bool) -> int:
    """List the keys with their scopes, roles and expiry."""
    keys, _ = _open(file)
    now_s = time.time()
    entries = keys.read()
    if as_json:
        terminal.json({"file": keys.place, "keys": [_to_json(key, now_s) for key in entries]})
    elif entries:
        print_table(_COLUMNS, [_row(key, now_s) for key in entries], terminal)
    else:
        terminal.message("note", f"no keys in {_name(keys)}", _command("create", "NAME", file))
    return 0


@keys.command(cls=Command, examples=EXAMPLES)
@click.argument("name", metavar="NAME|ID")
@file_option
@json_option
def revoke(terminal: Terminal, name: str, file: str | None, as_json: bool) -> int:
    """Revoke a key by name or id.

    Running servers refuse it within a second. The key itself is accepted instead of its name, for a key that
    was found somewhere.
    """
    keys, _ = _open(file)
    if name.startswith(PREFIX) and not is_complete_key(name):
        raise CommandError("Incomplete or mistyped key", "give its name, or the whole key")
    word = hash_secret(name) if name.startswith(PREFIX) else name
    version, revoked = keys.run(keys.store.revoke(word))
    if not revoked:
        entries = keys.read()
        if not any(word in (key.name, key.hash, key.id) for key in entries):
            if word != name:
                raise CommandError(f"This key is not in {_name(keys)}", "try another file: --file")
            valid = [key.name for key in entries if key.revoked_ms is None]
            hint = suggest(name, valid) or f"{_name(keys)} has no active key"
            raise CommandError(f"Unknown key: {name}", hint)
    late = keys.wait_for_replicas(version)
    if as_json:
        now_s = time.time()
        shown = [_to_json(key, now_s) for key in revoked]
        more = {} if late is None else {"late": late}
        terminal.json({"file": keys.place, "revoked": shown, **more})
    elif revoked:
        names = " and ".join(f"'{key.name}' ({key.id})" for key in revoked)
        when = "running servers refuse it within a second" if late is None else "every replica refuses it"
        terminal.message("note", f"revoked {names}; {when}" if not late else f"revoked {names}")
    else:
        terminal.message("note", "already revoked")
    if late:
        text = f"not confirmed by {', '.join(late)}"
        hint = "toolcrib fleet status shows them; a replica without PostgreSQL accepts no keys after a minute"
        terminal.message("warning", text, hint)
    return 1 if late else 0


def _print_created(keys: Keys, key: Key, now_s: float, terminal: Terminal) -> None:
    expiry = "never" if key.expires_ms is None else f"{format_time(key.expires_ms / 1000, now_s)} UTC"
    terminal.message("note", f"key '{key.name}' ({key.id}) added to {_name(keys)}; expires: {expiry}")
    for noun, words in (("scopes", key.scopes), ("roles", key.roles)):
        if words:
            terminal.message("note", f"{noun}: {', '.join(words)}")
    terminal.message("note", "the key is not stored and cannot be shown again: keep it in a safe place")


def _print_example(config: Config, terminal: Terminal) -> None:
    """Print what to paste into a client."""
    http = config.http
    host = http.host or "127.0.0.1"
    url = f"http://{f'[{host}]' if ':' in host else host}:{http.port or 8000}{http.path or '/mcp'}"
    entry = {"type": "http", "url": url, "headers": {"Authorization": "Bearer KEY"}}
    text = "clients send it as `Authorization: Bearer KEY` or `X-API-Key: KEY`; example"
    terminal.message("note", f"{text}:\n    {json.dumps(config.name or 'toolcrib')}: {json.dumps(entry)}")


def _name(keys: Keys) -> str:
    return shorten_paths(keys.place)


def _row(key: Key, now_s: float) -> tuple[str, ...]:
    return (
        key.name,
        key.id,
        f"{key.prefix}...",
        ", ".join(key.scopes) or "-",
        ", ".join(key.roles) or "-",
        format_time(key.created_ms / 1000),
        "never" if key.expires_ms is None else format_time(key.expires_ms / 1000, now_s),
        state_of(key, now_s),
    )


def _to_json(key: Key, now_s: float) -> dict[str, Any]:
    return {**to_json(key), "state": state_of(key, now_s)}


def _command(command: str, word: str, file: str | None) -> str:
    return shlex.join(["toolcrib", "keys", command, word, *(["--file", file] if file else [])])
