"""`toolcrib audit`: reads the record of calls, finds in it, checks that it is whole, and hands it on.

Works while a server writes, and changes nothing. Knows the words of the commands; how records are kept and
proven is in `toolcrib.policy.audit`, how they look in `toolcrib.cli.audit`.

Times as people write them: `30d`, `1h`, `2027-01-01`, `2027-01-01T12:00`.

What names no zone is UTC, as everything that is printed is. Knows words for times; refuses to know what
happens then.

Records of calls as people and programs read them: lines, JSON, CSV.

Whatever a caller could have chosen is made harmless first: for a terminal, and for a spreadsheet, which takes
some texts for formulas. Knows records as data; refuses to know where they are kept.

Records on their way out: to a file that is complete or not there, or to standard output.

Knows files and forms; refuses to know which records are wanted.

Which log the words of a command line mean, and which of its records.

Knows options and where settings name a log; refuses to know what is done with the records.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, TypedDict

import click

from toolcrib.cli.options import Command, F, Failure, show_examples, takes_json
from toolcrib.cli.output import Terminal, shorten_paths, telling
from toolcrib.cli.text import count, one_line, safe, suggest
from toolcrib.config import FILE_NAME, load_config
from toolcrib.config.atomic_file import open_new
from toolcrib.policy.audit.checkpoints import checkpoints_path
from toolcrib.policy.audit.reader import AuditReader, open_log
from toolcrib.policy.audit.verify import Verdict
from toolcrib.policy.outcome import OUTCOMES
from toolcrib.validation import codec

DAY_S = 86_400.0
_UNITS_S = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": DAY_S, "w": 7 * DAY_S, "y": 365 * DAY_S}
_SPAN = re.compile(r"(\d{1,9})\s*([a-z]+)")
_LAST_S = 253_402_300_799.0  # the end of the year 9999, as far as dates go


def read_ahead(option: str, text: str, now_s: float) -> float:
    """A moment that comes: so long from now, or a date."""
    return _read(option, text, now_s, 1)


def read_back(option: str, text: str, now_s: float) -> float:
    """A moment that has been: so long ago, or a date."""
    return _read(option, text, now_s, -1)


def _read(option: str, text: str, now_s: float, sign: int) -> float:
    word = text.strip()
    span = _SPAN.fullmatch(word.lower())
    try:
        if span is not None and span[2] in _UNITS_S:
            moment_s = now_s + sign * int(span[1]) * _UNITS_S[span[2]]
        else:
            moment = datetime.fromisoformat(word)
            moment_s = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        hint = "write a time such as 30d, 12h, 2027-01-01 or 2027-01-01T12:00 (UTC)"
        raise Failure(f"{option} {text!r} is no time", hint) from None
    if not 0 <= moment_s <= _LAST_S:
        raise Failure(f"{option} {text!r} is out of reach", "write a time between 1970 and 9999")
    return moment_s


def show_day(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%d")


def show_moment(wall_s: float, now_s: float) -> str:
    """The day, and the time of day where the day alone would not say enough."""
    if abs(wall_s - now_s) >= 2 * DAY_S:
        return show_day(wall_s)
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%d %H:%M")


def show_span(seconds: float) -> str:
    """A length of time in its largest unit: `90 days`, `3 hours`."""
    for noun, size_s in (("day", DAY_S), ("hour", 3600.0), ("minute", 60.0)):
        if seconds >= 2 * size_s:
            return f"{round(seconds / size_s)} {noun}s"
    return count(round(seconds), "second")


Record = Mapping[str, Any]

COLUMNS = (
    "seq",
    "at",
    "kind",
    "id",
    "request",
    "principal",
    "tool",
    "version",
    "definition",
    "decision",
    "rule",
    "outcome",
    "code",
    "duration_ms",
    "arguments_bytes",
    "arguments_digest",
    "result_bytes",
    "values",
    "more",
    "hash",
)
"""Of CSV. `more` has what a record says besides, as JSON."""
_CALLS = ("call", "intent")
_UNTOLD = {*COLUMNS} - {"values"} | {"roles"}
_FORMULAS = ("=", "+", "-", "@", "\t")


def show_line(record: Record) -> str:
    """One record on one line: number, time, how it ended, who, what, how long, why."""
    kind = record.get("kind")
    start = f"{one_line(record.get('seq', '?')):>7}  {show_time(record.get('at'))}"
    if kind not in _CALLS:
        return f"{start}  [{one_line(kind)}]  {_show_rest(record)}".rstrip()
    outcome = "begins" if kind == "intent" else one_line(record.get("outcome", "?"))
    tool = one_line(record.get("tool", "?"))
    if record.get("version"):
        tool = f"{tool}@{one_line(record['version'])}"
    words = [f"{outcome:<14}", f"{one_line(record.get('principal', '?')):<16}", f"{tool:<20}"]
    if isinstance(spent_ms := record.get("duration_ms"), int | float):
        words.append(f"{spent_ms:.1f} ms")
    said = [one_line(record["code"])] if record.get("code") else []
    if record.get("rule") and record.get("decision") not in (None, "allowed"):
        said.append(f"by {one_line(record['rule'])}")
    if record.get("values"):
        said.append(one_line(json.dumps(record["values"], ensure_ascii=False)))
    return f"{start}  {' '.join([*words, *said])}".rstrip()


def to_json_line(record: Record) -> str:
    """JSON on one line, in characters that no terminal can be steered with."""
    return json.dumps(record, separators=(",", ":")).replace("\x7f", "\\u007f")


def to_csv_line(cells: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([_to_cell(cell) for cell in cells])
    return text.getvalue()


def to_cells(record: Record) -> list[Any]:
    more = {key: value for key, value in record.items() if key not in COLUMNS}
    return [more or None if column == "more" else record.get(column) for column in COLUMNS]


def _to_cell(value: Any) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    text = safe(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return f"'{text}" if text.startswith(_FORMULAS) else text


def show_time(at: Any) -> str:
    return one_line(at or "?").replace("T", " ").removesuffix("Z")


def _show_rest(record: Record) -> str:
    """What a record says that is not of a call."""
    facts = ((key, value) for key, value in record.items() if key not in _UNTOLD and value is not None)
    return ", ".join(f"{one_line(key)} {one_line(value)}" for key, value in facts)


def find_speller(form: str, output: str | None, terminal: Terminal) -> Callable[[Record], str]:
    """How a record is written. What goes to a file is, as JSON, the very line of the log."""
    if form == "csv":
        return lambda record: to_csv_line(to_cells(record))
    encoding = (getattr(terminal.out, "encoding", None) or "utf-8").lower().replace("-", "")
    if output is None and (terminal.out.isatty() or encoding != "utf8"):
        return lambda record: f"{to_json_line(record)}\n"
    return lambda record: f"{codec.write(record).decode()}\n"


@contextmanager
def writing(output: str | None, terminal: Terminal) -> Iterator[Callable[[str], object]]:
    """To a file that is there when it is complete, and for its owner only; or to standard output."""
    if output is None:
        yield terminal.content
        return
    path = Path(os.path.realpath(Path(output).expanduser()))
    if path.exists() and not path.is_file():
        raise Failure(f"{output} is not a file", "leave -o out for standard output")
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(6).hex()}.tmp")
    with _saying(output):
        file = _open_new(draft)

    def write(text: str) -> None:
        with _saying(output):
            file.write(text)

    try:
        yield write
        with _saying(output):
            file.close()
            os.replace(draft, path)
    finally:
        for tidy in (file.close, draft.unlink):
            with suppress(OSError):  # after success there is nothing left; after trouble, that is told
                tidy()


@contextmanager
def _saying(output: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Failure(f"{output} cannot be written: {error.strerror}") from None


def _open_new(path: Path) -> IO[str]:
    return open(open_new(path), "w", encoding="utf-8", newline="")


_ALSO = {"cancelled": "disconnected"}  # a caller who has gone is one who cancelled


@dataclass(frozen=True, slots=True)
class Place:
    """Where the log is, and what proves it, as far as the settings say."""

    file: Path
    key_file: Path | None = None
    checkpoints: Path | None = None

    @property
    def shown(self) -> str:
        return shorten_paths(str(self.file))

    def read(self) -> AuditReader:
        """For reading alone, which needs no key."""
        self.check()
        return AuditReader(self.file, None, self.file)

    def check(self) -> None:
        if not self.file.is_file():
            raise Failure(f"There is no audit log {self.shown}", "a server makes it when it starts")


class Filters(TypedDict):
    """The options of `takes_filters`, as a command gets them."""

    since: str | None
    until: str | None
    who: str | None
    tool: str | None
    outcomes: Sequence[str]
    code: str | None
    id_: str | None


def takes_file(function: F) -> F:
    words = f"The log, in place of what {FILE_NAME} says."
    return click.option("--file", metavar="PATH", help=words)(function)


def takes_filters(function: F) -> F:
    for option in (
        click.option("--id", "id_", metavar="ID", help="The call of this id."),
        click.option("--code", metavar="CODE", help="With this code of an error."),
        click.option(
            "--outcome", "outcomes", multiple=True, metavar="WORDS", help=f"Ended so: {', '.join(OUTCOMES)}."
        ),
        click.option("--tool", metavar="GLOB", help="Of tools of this name."),
        click.option("--as", "who", metavar="GLOB", help="By this caller: local, key:ana, 'oauth:*'."),
        click.option("--until", metavar="WHEN", help="Before then."),
        click.option("--since", metavar="WHEN", help="From then on: 30m, 1h, 7d, 2026-05-04, ...T10:00."),
    ):
        function = option(function)
    return function


def find_log(given: str | None) -> Place:
    config = load_config(Path(FILE_NAME), os.environ) if Path(FILE_NAME).is_file() else None
    options = None if config is None or config.policy is None else config.policy.audit
    named = None
    if options is not None:
        paths = (options.file, options.key_file, options.checkpoints)
        named = Place(Path(paths[0]), *(None if path is None else Path(path) for path in paths[1:]))
    if given is None:
        if named is None:
            hint = f'name it: --file PATH, or in {FILE_NAME}:\n    [audit]\n    file = "audit.db"'
            raise Failure("No audit log is named", hint)
        return named
    path = Path(given).expanduser()
    is_same = named is not None and os.path.realpath(named.file) == os.path.realpath(path)
    return named if named is not None and is_same else Place(path)


def read_filters(given: Filters) -> dict[str, Any]:
    """The keywords of `AuditReader.records`."""
    now_s = time.time()
    since, until = given["since"], given["until"]
    return {
        "since": None if since is None else read_back("--since", since, now_s),
        "until": None if until is None else read_back("--until", until, now_s),
        "principal": given["who"],
        "tool": given["tool"],
        "outcome": _read_outcomes(given["outcomes"]),
        "code": given["code"],
        "id": given["id_"],
    }


def _read_outcomes(given: Sequence[str]) -> set[str] | None:
    words = {word.strip() for text in given for word in text.split(",") if word.strip()}
    for word in words:
        if word not in OUTCOMES:
            raise Failure(f"Unknown outcome: {word}", suggest(word, OUTCOMES))
    return (words | {_ALSO[word] for word in words & _ALSO.keys()}) or None


@contextmanager
def reading(place: Place) -> Iterator[None]:
    """Trouble with a file becomes words."""
    try:
        yield
    except BrokenPipeError:
        raise  # whoever read the output has seen enough
    except OSError as error:
        name = error.filename or place.file
        raise Failure(f"{name}: {error.strerror or error}") from None


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
    if not checkpoints_path(place.file, place.checkpoints).is_file():
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
def _telling(terminal: Terminal, reader: AuditReader) -> Iterator[Callable[[int], None] | None]:
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
