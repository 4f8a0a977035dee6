"""`toolcrib fleet`: the replicas that share PostgreSQL and Redis, and the tables that they need."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.options import Command, CommandError, format_examples, json_option
from toolcrib.cli.output import Terminal
from toolcrib.cli.table import Column, print_table
from toolcrib.cli.text import STATE_STYLES, count, format_time, suggest
from toolcrib.config import FILE_NAME, load_default_config
from toolcrib.config.settings import Fleet
from toolcrib.fleet.membership import Replica, mark_draining, read_replicas
from toolcrib.fleet.state import open_database, requiring_drivers, resolve_reference
from toolcrib.state.base import StateUnavailable

if TYPE_CHECKING:
    from toolcrib.state.postgresql.database import Transaction

EXAMPLES = """
toolcrib fleet migrate           create or update the tables
toolcrib fleet status            the replicas, and how each of them works
toolcrib fleet status --json     for programs
toolcrib fleet drain 3f9a1b2c    end one replica after its calls
"""
_COLUMNS = (
    Column("REPLICA", wraps=False),
    Column("HOST", wraps=False),
    Column("PID", wraps=False),
    Column("VERSION", wraps=False),
    Column("STARTED", wraps=False),
    Column("SEEN", wraps=False),
    Column("STATE", wraps=False, styles={**STATE_STYLES, "live": STATE_STYLES["ok"]}),
    Column("ENGINES"),
)


@click.group(epilog=format_examples(EXAMPLES))
def fleet() -> None:
    """Show and manage the replicas of a server.

    The settings are those of [fleet] in the toolcrib.toml of the current folder.
    """


def _find_fleet() -> Fleet:
    found = load_default_config().fleet
    if found is None:
        lines = 'postgres = "env:TOOLCRIB_POSTGRES"', 'redis = "env:TOOLCRIB_REDIS"', 'key_file = "fleet.key"'
        hint = f"add to {FILE_NAME}:\n    [fleet]\n    " + "\n    ".join(lines)
        raise CommandError("No fleet configured", hint)
    return found


@fleet.command("migrate", cls=Command, examples=EXAMPLES)
@json_option
def migrate_tables(terminal: Terminal, as_json: bool) -> int:
    """Create or update the tables in PostgreSQL.

    Any number of replicas may be running. They refuse to start with tables that are too old or too new.
    """
    settings = _find_fleet()
    with requiring_drivers():
        from toolcrib.state.postgresql.database import migrate  # delayed: an extra
    try:
        applied = migrate(resolve_reference(settings.postgres, "fleet.postgres"), settings.db_schema)
    except StateUnavailable as error:
        raise CommandError(str(error), "is the server running, and may this user create tables?") from None
    if as_json:
        terminal.json({"schema": settings.db_schema, "applied": applied})
    elif applied:
        terminal.message("note", f"applied {', '.join(applied)} to the schema '{settings.db_schema}'")
    else:
        terminal.message("note", f"the tables in the schema '{settings.db_schema}' are up to date")
    return 0


@fleet.command(cls=Command, examples=EXAMPLES)
@json_option
def status(terminal: Terminal, as_json: bool) -> int:
    """List the replicas that have served in the last hour."""
    replicas = _run(read_replicas)
    if as_json:
        terminal.json({"replicas": [_to_json(each) for each in replicas]})
    elif replicas:
        print_table(_COLUMNS, [_row(each) for each in replicas], terminal)
        live = [each for each in replicas if each.is_live]
        terminal.message("note", f"{count(len(live), 'live replica')}")
    else:
        terminal.message("note", "no replica has served in the last hour", "toolcrib serve starts one")
    return 0


@fleet.command(cls=Command, examples=EXAMPLES)
@click.argument("replica")
@json_option
def drain(terminal: Terminal, replica: str, as_json: bool) -> int:
    """End one replica.

    It becomes not ready, finishes its calls within ten seconds, and ends. REPLICA may be the beginning of an
    id.
    """
    known = [each.process for each in _run(read_replicas) if each.is_live]
    found = [process for process in known if process.startswith(replica)]
    if len(found) != 1:
        problem = f"{count(len(found), 'replica')} begin with {replica}" if found else f"Unknown: {replica}"
        raise CommandError(problem, suggest(replica, known) or "toolcrib fleet status lists them")
    _run(lambda db: mark_draining(db, found[0]))
    if as_json:
        terminal.json({"draining": found[0]})
    else:
        terminal.message("note", f"{found[0]} ends within some seconds")
    return 0


def _run(act: Any) -> Any:
    """Return the result of a function of a transaction."""
    database = open_database(_find_fleet())
    from toolcrib.state.postgresql.database import check_schema  # delayed: an extra, which is there

    def check_and_act(db: Transaction) -> Any:
        check_schema(db)
        return act(db)

    async def run() -> Any:
        try:
            return await database.run(check_and_act)
        except StateUnavailable as error:
            raise CommandError(str(error)) from None
        finally:
            await database.close()

    return asyncio.run(run())


def _state_of(replica: Replica) -> str:
    if not replica.is_live:
        return "lost"
    return "draining" if replica.is_draining else "live"


def _row(replica: Replica) -> tuple[str, ...]:
    facts = replica.facts
    modes = facts.get("modes", {})
    return (
        replica.process,
        str(facts.get("host", "-")),
        str(facts.get("pid", "-")),
        str(facts.get("version", "-")),
        format_time(facts["started_ms"] / 1000, time.time()) if "started_ms" in facts else "-",
        f"{replica.age_ms / 1000:.1f} s ago",
        _state_of(replica),
        ", ".join(f"{name} {mode}" for name, mode in modes.items()) or "-",
    )


def _to_json(replica: Replica) -> dict[str, Any]:
    return {
        "replica": replica.process,
        "state": _state_of(replica),
        "seen_ms_ago": replica.age_ms,
        **replica.facts,
    }
