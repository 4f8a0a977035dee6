"""`toolcrib lock`: pin definitions in a lock file, so that changes are seen before they are served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

import click

from toolcrib.catalog.diff import GRADES
from toolcrib.catalog.diff.compare import compare
from toolcrib.catalog.lock import Lock
from toolcrib.cli.catalog import ToolSource, find_lock, source_options
from toolcrib.cli.diff import format_changes
from toolcrib.cli.options import Command, CommandError, exclusive, json_option
from toolcrib.cli.output import Progress, Terminal
from toolcrib.cli.text import count, suggest
from toolcrib.registry.selection import KINDS, count_kinds, label_of, name_kinds

EXAMPLES = """
toolcrib lock tools.py                       write toolcrib.lock
toolcrib lock tools.py --check               in a pipeline: is it current?
toolcrib lock tools.py --update find_orders  accept the changes of one tool
toolcrib lock shop.py --update 'prompt:*'    accept those of all prompts
toolcrib lock shop/ --static                 without importing it
toolcrib lock http://127.0.0.1:8000/mcp      the tools of a running server
toolcrib lock                                the targets of toolcrib.toml
"""


@click.command(cls=Command, examples=EXAMPLES)
@source_options()
@json_option
@click.option("--output", metavar="FILE", help="Lock file.  [default: from toolcrib.toml, or toolcrib.lock]")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if the lock file is out of date.")
@click.option("--update", multiple=True, metavar="NAME", help="Only this one (name or glob); repeatable.")
@click.option("--partial", is_flag=True, help="Lock the valid tools although others have errors.")
def lock(
    terminal: Terminal,
    source: ToolSource,
    as_json: bool,
    output: str | None,
    check: bool,
    update: Sequence[str],
    partial: bool,
) -> int:
    """Pin the definitions of tools, resources and prompts in a lock file.

    Commit the file with your code. `toolcrib serve --locked` serves only what it pins, `toolcrib diff` shows
    what changed since. It covers names, descriptions, schemas, hints and scopes, and the files of skills, but
    not code and not the content of other resources. A NAME is that of a tool, prompt:NAME or resource:URI.
    Exit code 1: not written, or out of date.

    A TARGET is a Python file, folder, module, module:object, toolcrib.toml or the URL of an MCP server.
    """
    if check and update:
        raise exclusive("--check", "--update")
    file, _ = find_lock(source.targets, output)
    old = Lock.load(file) if file.exists() else None
    if old is None and update:
        raise CommandError(f"Cannot update {file}: no such file", "write it first, without --update")
    found = source.collect(terminal, with_unlisted=True)
    found.drop_duplicates()
    for error in found.errors:
        terminal.finding(error)
    if found.errors and not (partial and found.everything):
        hint = "fix them, or lock the others with --partial" if found.everything else None
        terminal.message("error", f"Not locked: {count(len(found.errors), 'problem')}", hint)
        return 1
    with Progress(terminal, "locking tools") as progress:
        new = Lock.of(progress.track(found.everything), file)
    if old is not None and (check or update):
        is_remote = source.remote is not None
        new = _restrict(new, old, is_remote, terminal) if check else _update(old, new, update)
    with Progress(terminal, "comparing tools") as progress:
        comparison = compare(old.tools if old is not None else (), new.tools, progress)
    is_changed = old is None or old.kinds != new.kinds or _pins_json(old) != _pins_json(new)
    if is_changed and not check:
        new.save(file)
    if as_json:
        terminal.json(
            {
                "file": str(file),
                "written": is_changed and not check,
                "up_to_date": not is_changed or not check,
                **_count_by_kind(new),
                "counts": {grade: comparison.counts[grade] for grade in reversed(GRADES)},
                "changes": [change.to_json() for change in comparison.changes],
                "findings": [finding.to_json() for finding in found.findings],
            }
        )
    elif not is_changed:
        terminal.message("note", f"{file} is up to date: {_count_pins(new)}")
    else:
        suspicious = comparison.at_least("suspicious")
        if old is not None or suspicious:
            shown = comparison if old is not None else replace(comparison, changes=suspicious)
            for line in format_changes(shown):
                terminal.echo_err(line)
        if not check:
            terminal.message("note", f"{file} written: {_count_pins(new)}")
        elif old is None:
            terminal.message("error", f"No such file: {file}", "write it: run this without --check")
        else:
            hint = "review the changes, then accept them: run this without --check, or with --update NAME"
            terminal.message("error", f"{file} is out of date", hint)
    return 1 if check and is_changed else 0


def _pins_json(lock: Lock) -> dict[object, object]:
    return {key: pin.to_json() for key, pin in lock.pins.items()}


def _count_by_kind(lock: Lock) -> dict[str, int]:
    kinds = [pin.kind for pin in lock.pins.values()]
    return {f"{kind}s": kinds.count(kind) for kind in KINDS}


def _count_pins(lock: Lock) -> str:
    return count_kinds(map(label_of, lock.tools))


def _restrict(new: Lock, old: Lock, is_remote: bool, terminal: Terminal) -> Lock:
    """Return the part of a lock that the old one covers. One of an older toolcrib covers tools only, and a
    running server tells neither files nor scopes."""
    pins = {key: pin for key, pin in new.pins.items() if pin.kind in old.kinds}
    if len(pins) < len(new.pins):
        others = [pin.tool for pin in new.pins.values() if pin.kind not in old.kinds]
        text = f"{old.file} is of an older toolcrib and does not cover {count_kinds(map(label_of, others))}"
        terminal.message("warning", text, "`toolcrib lock` pins them too")
    for key in (pins.keys() & old.pins.keys()) if is_remote else ():
        pins[key] = replace(pins[key], source=old.pins[key].source, scopes=old.pins[key].scopes)
    return replace(new, pins=pins, kinds=old.kinds)


def _update(old: Lock, new: Lock, names: Sequence[str]) -> Lock:
    """Return the old lock with the current definitions of some tools, removed ones included. It then covers
    their kinds, too."""
    known = dict.fromkeys(key[0] for key in (*old.pins, *new.pins))
    tools = [*old.tools, *new.tools]
    for name in names:
        if not any(fnmatchcase(other, name) for other in known):
            raise CommandError(f"Unknown {name_kinds(name, tools)}: {name}", suggest(name, known))

    def is_named(key: tuple[str, str | None]) -> bool:
        return any(fnmatchcase(key[0], name) for name in names)

    kept = {key: pin for key, pin in old.pins.items() if not is_named(key)}
    updated = {key: pin for key, pin in new.pins.items() if is_named(key)}
    kinds = old.kinds | {pin.kind for pin in updated.values()}
    return replace(old, pins=kept | updated, kinds=kinds)
