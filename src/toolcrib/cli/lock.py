"""`toolcrib lock`: write down what every tool says, so that whatever changes is seen before it is served."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import click

from toolcrib.catalog.diff.compare import GRADES, Comparison, compare
from toolcrib.catalog.lock import Lock
from toolcrib.cli.catalog import Stock, takes_stock
from toolcrib.cli.diff import Manner, find_lock, say_changes, take_stock
from toolcrib.cli.options import Command, Failure, takes_json
from toolcrib.cli.output import Terminal
from toolcrib.cli.text import count, suggest

EXAMPLES = """
toolcrib lock tools.py                       write toolcrib.lock
toolcrib lock tools.py --check               in a pipeline: still true?
toolcrib lock tools.py --update find_orders  accept one tool as it is
toolcrib lock shop/ --static                 from source, import nothing
toolcrib lock http://127.0.0.1:8000/mcp      what a running server offers
toolcrib lock                                the targets of toolcrib.toml
"""


@click.command(cls=Command, examples=EXAMPLES)
@takes_stock
@takes_json
@click.option("--output", metavar="FILE", help="The lock file; toolcrib.lock, or what toolcrib.toml says.")
@click.option("--check", is_flag=True, help="Change nothing; exit code 1 where the lock is not up to date.")
@click.option(
    "--update", multiple=True, metavar="NAME", help="Only this tool, or tools by a glob; any number."
)
@click.option("--partial", is_flag=True, help="Lock the good tools though others have errors.")
def lock(
    terminal: Terminal,
    targets: Sequence[str],
    as_json: bool,
    output: str | None,
    check: bool,
    update: Sequence[str],
    partial: bool,
    static: bool,
    command: str | None,
    headers: Sequence[str],
    protocol: str | None,
) -> int:
    """Write down what every tool says.

    Keep the file with your code. `toolcrib serve --locked` serves only what is in it, `toolcrib diff` shows
    what changed since. Names, descriptions, schemas, hints and scopes count; code does not. Exit code 1: not
    written, or not up to date.

    A TARGET is a Python file, a folder, a module, module:object, a toolcrib.toml or the address of a running
    MCP server.
    """
    if check and update:
        raise Failure("--check and --update do not go together", "--check changes nothing")
    file, _ = find_lock(targets, output)
    old = Lock.load(file) if file.exists() else None
    again = _spell(targets, output, static, command)
    if old is None and update:
        raise Failure(f"There is no {file} to update", f"write it first: {again}")
    stock = take_stock(terminal, targets, Manner(static, headers, protocol), command)
    if stock.is_sample:
        raise Failure("There is nothing of yours to lock here", _name_sources(old))
    if _is_refused(stock, partial, terminal):
        return 1
    new = Lock.of(stock.tools, file)
    if update and old is not None:
        new = _update(old, new, update)
    comparison = compare(old.tools if old is not None else (), new.tools)
    is_new = old is None or {k: p.to_json() for k, p in old.pins.items()} != {
        k: p.to_json() for k, p in new.pins.items()
    }
    if is_new and not check:
        new.save(file)
    if as_json:
        _print_json(file, new, comparison, is_new, check, stock, terminal)
    else:
        _say(file, old, new, comparison, is_new, check, again, terminal)
    return 1 if check and is_new else 0


def _spell(targets: Sequence[str], output: str | None, static: bool, command: str | None) -> str:
    """This command once more, for hints; without headers, which may be secret."""
    words = ["toolcrib", "lock", *targets, *(["--static"] if static else [])]
    for option, value in (("--command", command), ("--output", output)):
        words += [] if value is None else [option, value]
    return shlex.join(words)


def _name_sources(old: Lock | None) -> str:
    """What to name where nothing was: a lock knows what it was written from."""
    pins = () if old is None or old.file is None else old.pins.values()
    folder = Path() if old is None or old.file is None else old.file.parent
    paths = dict.fromkeys(str(folder / pin.source) for pin in pins if pin.source is not None)
    known = [path for path in paths if Path(path).is_file()]
    if len(known) == 1:
        return f"name the file, as before: toolcrib lock {shlex.quote(known[0])}"
    return "name a file, a folder or a module"


def _is_refused(stock: Stock, partial: bool, terminal: Terminal) -> bool:
    for error in stock.errors:
        terminal.tell(error)
    if not stock.errors or (partial and stock.tools):
        return False
    hint = "mend it, or lock the others with --partial" if stock.tools else None
    terminal.say("error", f"Not locked: {count(len(stock.errors), 'problem')}", hint)
    return True


def _update(old: Lock, new: Lock, names: Sequence[str]) -> Lock:
    """The old lock with the tools of some names as they are now, gone ones included."""
    known = dict.fromkeys(key[0] for key in (*old.pins, *new.pins))
    for name in names:
        if not any(fnmatchcase(other, name) for other in known):
            raise Failure(f"Unknown tool: {name}", suggest(name, known))

    def is_named(key: tuple[str, str | None]) -> bool:
        return any(fnmatchcase(key[0], name) for name in names)

    kept = {key: pin for key, pin in old.pins.items() if not is_named(key)}
    taken = {key: pin for key, pin in new.pins.items() if is_named(key)}
    return replace(old, pins=kept | taken)


def _say(
    file: Path,
    old: Lock | None,
    new: Lock,
    comparison: Comparison,
    is_new: bool,
    check: bool,
    again: str,
    terminal: Terminal,
) -> None:
    tools = count(len(new.pins), "tool")
    if not is_new:
        terminal.say("note", f"{file} is up to date: {tools}")
        return
    if old is not None:
        say_changes(comparison, terminal)
    elif odd := comparison.at_least("suspicious"):
        say_changes(replace(comparison, changes=odd), terminal)
    if not check:
        terminal.say("note", f"{file} written: {tools}")
    elif old is None:
        terminal.say("error", f"There is no {file}", f"write it: {again}")
    else:
        names = comparison.tools
        told = "".join(f" --update {shlex.quote(name)}" for name in names) if len(names) <= 3 else ""
        hint = f"review the changes, then accept them: {again}{told}"
        terminal.say("error", f"{file} is not up to date", hint)


def _print_json(
    file: Path, new: Lock, comparison: Comparison, is_new: bool, check: bool, stock: Stock, terminal: Terminal
) -> None:
    terminal.json(
        {
            "file": str(file),
            "written": is_new and not check,
            "up_to_date": not is_new or not check,
            "tools": len(new.pins),
            "counts": {grade: comparison.counts[grade] for grade in reversed(GRADES)},
            "changes": [change.to_json() for change in comparison.changes],
            "findings": [finding.to_json() for finding in stock.findings],
        }
    )
