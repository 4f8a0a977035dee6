"""`toolcrib audit`: search, follow and verify the audit log.

Works while a server writes, and changes nothing. Values that a caller could have chosen are escaped.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from toolcrib.cli.options import Command, CommandError, F, Time, format_examples, json_option
from toolcrib.cli.output import Progress, Terminal, shorten_paths
from toolcrib.cli.text import (
    STATE_STYLES,
    Styled,
    count,
    join,
    one_line,
    style,
    suggest,
    width_of,
    wrap,
)
from toolcrib.config import FILE_NAME, load_default_config
from toolcrib.config.settings import Audit
from toolcrib.dispatch.calls import OUTCOMES
from toolcrib.policy.audit.checkpoints import checkpoints_path
from toolcrib.policy.audit.reader import AuditReader, Verdict, open_log
from toolcrib.state.base import AuditStore

EXAMPLES = """
toolcrib audit query --limit 20 --follow      the last records, and new ones
toolcrib audit query --since 1h --outcome denied,throttled
toolcrib audit query --as 'key:*' --tool 'refund*' --since 2026-05-04
toolcrib audit query --id 3f9a1b2c4d1         one call, by the id in the log
toolcrib audit verify --file audit.db --key-file /safe/audit.key
toolcrib audit query --since 2026-05-01 --limit 0 --json > may.jsonl
"""
PATH = click.Path(path_type=Path)
_CALL_KINDS = ("call", "intent")
_HIDDEN_FIELDS = frozenset(
    {
        "seq",
        "stream",
        "at",
        "kind",
        "id",
        "request",
        "principal",
        "roles",
        "tool",
        "version",
        "definition",
        "decision",
    }
    | {"rule", "outcome", "code", "duration_ms", "arguments_bytes", "arguments_digest", "result_bytes"}
    | {"more", "hash"}
)
"""Fields that the line of a record does not repeat."""
_POLL_S = 0.25
_WIDE = 110
"""Terminals with fewer columns get a shorter form of the records."""
_INDENT = 8

Record = Mapping[str, Any]


@click.group(epilog=format_examples(EXAMPLES))
def audit() -> None:
    """Search, follow and verify the audit log.

    The log is --file, else `file` under [audit] in toolcrib.toml. Times are UTC.
    """


# --- the log and its filters -------------------------------------------------------------------------


def find_store(given: Path | None) -> AuditStore | None:
    """Return where the records of a fleet are; None for a log in a file."""
    config = load_default_config()
    if given is not None or config.fleet is None or config.policy is None or config.policy.audit is None:
        return None
    from toolcrib.fleet.state import open_database  # delayed: most logs are files

    database = open_database(config.fleet)
    from toolcrib.state.postgresql.audit import PostgreSQLAudit  # an extra, which is there

    return PostgreSQLAudit(database)


def find_log(given: Path | None) -> Audit:
    """Return the log that `--file` or the configuration names. Raises CommandError."""
    policy = load_default_config().policy
    configured = None if policy is None else policy.audit
    if configured is not None and (
        given is None or os.path.realpath(configured.file) == os.path.realpath(given)
    ):
        return configured
    if given is None:
        hint = f'use --file PATH, or add to {FILE_NAME}:\n    [audit]\n    file = "audit.db"'
        raise CommandError("No audit log configured", hint)
    return Audit(given.expanduser())


def check_exists(log: Audit) -> None:
    if not os.path.isfile(log.file):
        raise CommandError(f"No audit log: {_name(log)}", "a server creates it when it starts")


def open_reader(log: Audit, store: AuditStore | None) -> AuditReader:
    """Open a log for reading, which needs no key."""
    if store is None:
        check_exists(log)
    return AuditReader(Path(log.file), None, Path(log.file), store=store)


def _name(log: Audit) -> str:
    return shorten_paths(str(log.file))


def file_option(function: F) -> F:
    text = f"Log file, instead of the one in {FILE_NAME}."
    return click.option("--file", type=PATH, metavar="PATH", help=text)(function)


def _parse_outcomes(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> set[str] | None:  # noqa: ARG001
    outcomes = {word.strip() for text in given for word in text.split(",") if word.strip()}
    for word in outcomes.difference(OUTCOMES):
        raise CommandError(f"Unknown outcome: {word}", suggest(word, OUTCOMES))
    if "cancelled" in outcomes:
        outcomes.add("disconnected")  # a caller who disconnected has cancelled
    return outcomes or None


def filter_options(function: F) -> F:
    """Add the options that are passed on to `AuditReader.records`."""
    outcomes = f"Only these outcomes: {', '.join(OUTCOMES)}."
    for option in (
        click.option("--id", metavar="ID", help="Only the call with this id."),
        click.option("--code", metavar="CODE", help="Only calls with this error code."),
        click.option("--outcome", multiple=True, metavar="WORDS", callback=_parse_outcomes, help=outcomes),
        click.option("--tool", metavar="GLOB", help="Only calls of these tools."),
        click.option(
            "--as", "principal", metavar="GLOB", help="Only this caller: local, key:ana, 'oauth:*'."
        ),
        click.option("--until", type=Time(-1), metavar="WHEN", help="Only before this time."),
        click.option(
            "--since", type=Time(-1), metavar="WHEN", help="Only from this time: 30m, 1h, 7d, 2026-05-04."
        ),
    ):
        function = option(function)
    return function


# --- the commands ------------------------------------------------------------------------------------


@audit.command(cls=Command, examples=EXAMPLES)
@filter_options
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=100,
    metavar="N",
    help="Only the newest; 0 for all.  [default: 100]",
)
@click.option("-f", "--follow", is_flag=True, help="Wait for new records until interrupted.")
@file_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one record per line.")
def query(
    terminal: Terminal, limit: int, follow: bool, file: Path | None, as_json: bool, **filters: Any
) -> int:
    """Search records; the oldest is printed first."""
    log = find_log(file)
    reader = open_reader(log, find_store(file))
    seen = reader.last_seqs()
    newest = list(reader.records(**filters, newest_first=True, limit=limit + 1))
    for record in reversed(newest[:limit]) if limit else reader.records(**filters):
        _print(record, as_json, terminal)
        seen[record["stream"]] = max(record["seq"], seen.get(record["stream"], 0))
    if limit and len(newest) > limit:
        terminal.message("note", f"only the newest {limit} are shown", "--limit 0 shows all")
    if follow:
        for record in reader.follow(seen, pause, **filters):
            _print(record, as_json, terminal)
    elif not newest:
        terminal.message("note", f"no matching records in {_name(log)}")
    return 0


@audit.command(cls=Command, examples=EXAMPLES)
@click.option("--key-file", type=PATH, metavar="PATH", help="Key of the log.")
@click.option("--checkpoints", type=PATH, metavar="PATH", help="A copy of the checkpoints, to compare too.")
@file_option
@json_option
def verify(
    terminal: Terminal, key_file: Path | None, checkpoints: Path | None, file: Path | None, as_json: bool
) -> int:
    """Verify that no record was changed, moved, added or removed.

    Every record is chained to the previous one, and checkpoints signed with the key fix the state of the
    chain. Without the key, only the chain is verified. Records after the last checkpoint are chained but not
    yet protected by the key. Someone who can write the checkpoints can truncate them; a copy reveals that.
    Exit code 0: valid. 1: not valid, or checkpoints are missing.
    """
    log = find_log(file)
    checkpoints_file = None if log.checkpoints is None else Path(log.checkpoints)
    store = find_store(file)
    if store is None and not checkpoints_path(Path(log.file), checkpoints_file).is_file():
        check_exists(log)
    reader = open_log(
        log.file,
        key_file.expanduser() if key_file else log.key_file,
        log.checkpoints,
        copy=checkpoints.expanduser() if checkpoints else None,
        store=store,
        may_begin_late=store is not None and log.removes_records,
    )
    total = sum(reader.last_seqs().values())
    with Progress(terminal, "verifying records") as progress:
        verdict = reader.verify(lambda done: progress(done, total))
    if as_json:
        problems = [problem._asdict() for problem in verdict.problems]
        terminal.json({"file": str(log.file), **asdict(verdict), "problems": problems})
    else:
        _print_verdict(log, verdict, terminal)
    return 0 if verdict.is_sound else 1


def pause() -> None:
    time.sleep(_POLL_S)


# --- output ------------------------------------------------------------------------------------------


def _print(record: Record, as_json: bool, terminal: Terminal) -> None:
    if as_json:
        terminal.json(record, indent=None)
    else:
        terminal.echo(format_line(record, terminal.width))


def format_line(record: Record, width: int | None = None) -> Styled:
    """Return a record on one line: number, time, outcome, caller, tool, duration, reason.

    On a narrow terminal the milliseconds are left out, and what does not fit is on lines below.
    """
    is_narrow = width is not None and width < _WIDE
    number, time_at = one_line(record.get("seq", "?")), format_at(record.get("at"))
    if is_narrow:
        time_at = time_at.partition(".")[0]
    start = f"{number:>{5 if is_narrow else 7}}  {time_at}  "
    kind = record.get("kind")
    if kind not in _CALL_KINDS:
        fields = [(key, value) for key, value in record.items() if key not in _HIDDEN_FIELDS]
        rest = ", ".join(f"{one_line(key)} {one_line(value)}" for key, value in fields if value is not None)
        label, style_label, rest = f"[{one_line(kind)}] ", {"dim": True}, rest
    else:
        label = "started" if kind == "intent" else one_line(record.get("outcome", "?"))
        style_label = STATE_STYLES.get(label, {})
        label = f"{label:<{10 if is_narrow else 14}}"
        rest = _describe_call(record, (12, 16) if is_narrow else (16, 20))
    lines = [rest.rstrip()]
    indent = width_of(start) + width_of(label) + 1
    if width is not None and indent + width_of(lines[0]) > width:
        if max(map(width_of, rest.split(" "))) <= width - indent:
            lines = wrap(rest, width - indent)
        else:
            indent = _INDENT
            lines = ["", *wrap(rest, width - indent)]
    label = label if lines[0] else label.rstrip()
    text = join(start, style(label, **style_label), f" {lines[0]}" if lines[0] else "")
    return join(text, *(f"\n{' ' * indent}{line}" for line in lines[1:]))


def _describe_call(record: Record, widths: tuple[int, int]) -> str:
    """Return caller, tool, duration and reason of a call; the first two are padded."""
    tool = one_line(record.get("tool", "?"))
    if record.get("version"):
        tool = f"{tool}@{one_line(record['version'])}"
    parts = [f"{one_line(record.get('principal', '?')):<{widths[0]}}", f"{tool:<{widths[1]}}"]
    if isinstance(spent_ms := record.get("duration_ms"), int | float):
        parts.append(f"{spent_ms:.1f} ms")
    if record.get("code"):
        parts.append(one_line(record["code"]))
    if record.get("rule") and record.get("decision") not in (None, "allowed"):
        parts.append(f"by {one_line(record['rule'])}")
    if record.get("values"):
        parts.append(one_line(json.dumps(record["values"], ensure_ascii=False)))
    return " ".join(parts)


def format_at(at: Any) -> str:
    return one_line(at or "?").replace("T", " ").removesuffix("Z")


def _print_verdict(log: Audit, verdict: Verdict, terminal: Terminal) -> None:
    records = "no records"
    if verdict.records:
        records = f"{count(verdict.records, 'record')} in {count(verdict.streams, 'stream')}"
    checkpoints = f"{count(verdict.checkpoints_checked, 'checkpoint')} compared"
    result = style(_describe_verdict(verdict), **STATE_STYLES["ok" if verdict.is_sound else "NOT valid"])
    terminal.echo(f"{_name(log)}: ", result, f": {records}; {checkpoints}")
    for problem in verdict.problems:
        terminal.echo(f"  {problem.kind}: {problem.words}")
    if verdict.removed:
        terminal.message("note", f"{count(verdict.removed, 'record')} were removed because of their age")
    if not verdict.is_keyed:
        text = "without the key, only the chain of records is verified, not who wrote them"
        terminal.message("note", text, "use --key-file PATH if the key is kept elsewhere")
    elif verdict.is_sound and verdict.unsealed:
        late = count(verdict.unsealed, "record")
        place = " after the last checkpoint" if verdict.proven_at else ""
        text = f"{late}{place} not signed yet: someone who can write the file could have made them"
        terminal.message("note", text)


def _describe_verdict(verdict: Verdict) -> str:
    """Claim no more than is proven."""
    if not verdict.is_sound:
        return "NOT valid"
    if not verdict.is_keyed:
        return "valid as far as can be verified without the key"
    if not verdict.unsealed:
        return "valid"
    if verdict.proven_at is None:
        return "not signed yet"
    return f"valid up to the last checkpoint ({format_at(verdict.proven_at)})"
