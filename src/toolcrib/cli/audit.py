"""`toolcrib audit`: reads the record of calls, finds in it, checks that it is whole, and hands it on.

Works while a server writes, and changes nothing. Knows the words of the commands; how records are kept and
proven is in `toolcrib.policies.audit`, how they look in `toolcrib.cli.ledger`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from toolcrib.cli.extract import find_speller, writing
from toolcrib.cli.frame import Command, Failure, show_examples, takes_json
from toolcrib.cli.ledger import COLUMNS, Record, show_line, show_time, to_csv_line, to_json_line
from toolcrib.cli.progress import telling
from toolcrib.cli.records import Filters, Place, find_log, read_filters, reading, takes_file, takes_filters
from toolcrib.cli.terminal import Terminal
from toolcrib.cli.words import count
from toolcrib.policies.audit.checkpoint import find_seals
from toolcrib.policies.audit.reading import Reader, open_log
from toolcrib.policies.audit.verification import Verdict

TAIL = """
toolcrib audit tail                    the last 20
toolcrib audit tail -n 100 --follow    and those that come
"""
QUERY = """
toolcrib audit query --since 1h --outcome denied,throttled
toolcrib audit query --as 'key:*' --tool 'refund*' --since 2026-05-04
toolcrib audit query --id 3f9a1b2c4d1  one call, by the id that logs have
"""
VERIFY = """
toolcrib audit verify                  the log that toolcrib.toml names
toolcrib audit verify --file audit.db --key-file /safe/audit.key
"""
EXPORT = """
toolcrib audit export --to csv -o may.csv --since 2026-05-01 --until 2026-06-01
toolcrib audit export --to jsonl       to standard output
"""
_POLL_S = 0.25


EXAMPLES = """
toolcrib audit tail --follow                  what happens now
toolcrib audit query --since 1h --outcome denied
toolcrib audit verify                         is it whole?
toolcrib audit export --to csv -o calls.csv
"""


@click.group(epilog=show_examples(EXAMPLES))
def audit() -> None:
    """Read, search, verify and export the record of calls.

    The log is --file, else `file` under [audit] in toolcrib.toml. Times are UTC.
    """


# --- the commands ------------------------------------------------------------------------------------


@audit.command(cls=Command, examples=TAIL)
@click.option("-n", "lines", type=click.IntRange(0), default=20, metavar="N", help="So many; 20 as usual.")
@click.option("-f", "--follow", is_flag=True, help="Go on with those that come, until interrupted.")
@takes_file
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs, one record on each line.")
def tail(terminal: Terminal, lines: int, follow: bool, file: str | None, as_json: bool) -> int:
    """Show the last records."""
    place = find_log(file)
    show = _shower(as_json, terminal)
    with reading(place):
        reader = place.read()
        last_seq = reader.last_seq()
        for record in reversed(list(reader.records(newest_first=True, limit=lines))):
            show(record)
            last_seq = max(last_seq, record["seq"])
        if follow:
            for record in reader.follow(last_seq, pause):
                show(record)
        elif not last_seq:
            terminal.say("note", f"there are no records in {place.shown}")
    return 0


@audit.command(cls=Command, examples=QUERY)
@takes_filters
@click.option(
    "--limit", type=click.IntRange(0), default=100, metavar="N", help="The newest so many (100); 0: all."
)
@takes_file
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs, one record on each line.")
def query(terminal: Terminal, limit: int, file: str | None, as_json: bool, **filters: Any) -> int:
    """Find records, the oldest of them first."""
    place = find_log(file)
    show = _shower(as_json, terminal)
    wanted = read_filters(Filters(**filters))  # type: ignore[typeddict-item]
    found, is_cut = 0, False
    with reading(place):
        reader = place.read()
        records: Iterator[Record] = reader.records(**wanted)
        if limit:
            newest = list(reader.records(**wanted, newest_first=True, limit=limit + 1))
            is_cut = len(newest) > limit
            records = reversed(newest[:limit])
        for record in records:
            show(record)
            found += 1
    if not found:
        terminal.say("note", f"no record in {place.shown} fits")
    if is_cut:
        terminal.say("note", f"these are the newest {limit}; there are more", "--limit 0 shows all")
    return 0


@audit.command(cls=Command, examples=VERIFY)
@click.option("--key-file", metavar="PATH", help="The key of the log.")
@click.option(
    "--checkpoints", metavar="PATH", help="A copy of the checkpoints that was kept elsewhere: counts too."
)
@takes_file
@takes_json
def verify(
    terminal: Terminal, key_file: str | None, checkpoints: str | None, file: str | None, as_json: bool
) -> int:
    """Prove that the record is whole: nothing changed, moved, added or missing.

    Every record is chained to the one before, and checkpoints, sealed with the key, say what the chain was.
    Without the key it is only proven that the records fit each other. What came after the last checkpoint
    fits, and is not proven yet. Whoever can write the checkpoints can cut them off: a copy finds that. Exit
    code 0: sound. 1: not, or checkpoints are missing.
    """
    place = find_log(file)
    if not find_seals(place.file, place.checkpoints).is_file():
        place.check()
    with reading(place):
        reader = open_log(
            place.file,
            Path(key_file).expanduser() if key_file else place.key_file,
            place.checkpoints,
            copy=Path(checkpoints).expanduser() if checkpoints else None,
        )
        with _telling(terminal, reader) as progress:
            verdict = reader.verify(progress)
    if as_json:
        problems = [problem._asdict() for problem in verdict.problems]
        terminal.json({"file": str(place.file), **asdict(verdict), "problems": problems})
    else:
        _say_verdict(place, verdict, terminal)
    return 0 if verdict.is_sound else 1


@audit.command(cls=Command, examples=EXPORT)
@click.option("--to", "form", type=click.Choice(["jsonl", "csv"]), required=True, help="In which form.")
@click.option("-o", "--output", metavar="FILE", help="Where to; else to standard output.")
@takes_filters
@takes_file
@takes_json
def export(
    terminal: Terminal, form: str, output: str | None, file: str | None, as_json: bool, **filters: Any
) -> int:
    """Write records to a file, the oldest first.

    jsonl is what the log holds, line for line: all of it can be verified again, with the checkpoints of the
    log. csv is for spreadsheets.
    """
    place = find_log(file)
    wanted = read_filters(Filters(**filters))  # type: ignore[typeddict-item]
    if as_json and output is None:
        raise Failure("--json says what was written where", "add -o FILE, or drop --json")
    if output is not None and os.path.realpath(output) == os.path.realpath(place.file):
        raise Failure("The log cannot be written over", "choose another name behind -o")
    written = 0
    with reading(place):
        records = place.read().records(**wanted)
        with writing(output, terminal) as write:
            if form == "csv":
                write(to_csv_line(COLUMNS))
            spell = find_speller(form, output, terminal)
            for record in records:
                write(spell(record))
                written += 1
    if as_json:
        terminal.json({"file": str(place.file), "output": output, "form": form, "records": written})
    elif output is not None:
        terminal.say("note", f"{count(written, 'record')} written to {output}")
    return 0


def _shower(as_json: bool, terminal: Terminal) -> Callable[[Record], None]:
    """Prints a record, as a line of JSON or of words."""
    if as_json:
        return lambda record: terminal.json_line(to_json_line(record))
    return lambda record: terminal.data(show_line(record))


def pause() -> None:
    time.sleep(_POLL_S)


# --- words and files ---------------------------------------------------------------------------------


@contextmanager
def _telling(terminal: Terminal, reader: Reader) -> Iterator[Callable[[int], None] | None]:
    """Say how far it is, where somebody waits and looks."""
    with telling(terminal) as tell:
        total = 0 if tell is None else reader.last_seq()
        yield tell and (lambda done: tell(lambda: f"checked {done} of about {count(total, 'record')}"))


def _say_verdict(place: Place, verdict: Verdict, terminal: Terminal) -> None:
    if verdict.records:
        span = f"{count(verdict.records, 'record')}, {verdict.first_seq} to {verdict.last_seq}"
    else:
        span = "no records"
    fits = f"{count(verdict.checkpoints_checked, 'checkpoint')} compared"
    terminal.data(f"{place.shown}: {_state(verdict)}: {span}; {fits}")
    for problem in verdict.problems:
        accepted = " (accepted)" if problem.is_accepted else ""
        terminal.data(f"  {problem.kind}{accepted}: {problem.words}")
    if verdict.pruned_before is not None:
        terminal.say("note", f"records before {verdict.pruned_before} were ended because of their age")
    if not verdict.is_keyed:
        words = "without its key this proves that the records fit each other, not who wrote them"
        terminal.say("note", words, "--key-file PATH, where the key is kept elsewhere")
    elif verdict.is_sound and verdict.proven_through < verdict.last_seq:
        late = count(verdict.last_seq - verdict.proven_through, "record")
        words = f"{late} after it are chained" if verdict.proven_through else f"{late} are chained"
        terminal.say("note", f"{words}, but not yet sealed: whoever can write the file could have made them")


def _state(verdict: Verdict) -> str:
    """No more than is proven."""
    if not verdict.is_sound:
        return "NOT sound"
    if not verdict.is_keyed:
        return "sound as far as can be told without its key"
    if verdict.proven_through == verdict.last_seq:
        return "sound"
    if not verdict.proven_through:
        return "not sealed yet"
    moment = "" if verdict.proven_at is None else f", {show_time(verdict.proven_at)}"
    return f"sound up to the last checkpoint (record {verdict.proven_through}{moment})"
