"""`toolcrib lock`: pin definitions in a lock file, so that changes are seen before they are served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import click

from toolcrib.catalog.catalog import Catalog
from toolcrib.catalog.compare import Comparison, compare
from toolcrib.catalog.lock import Lock
from toolcrib.cli.catalog import ToolSource, find_lock, source_options
from toolcrib.cli.diff import exit_code, format_changes, parse_side, read_side, report, report_options
from toolcrib.cli.options import Command, CommandError, exclusive
from toolcrib.cli.output import Progress, Terminal
from toolcrib.cli.text import count, suggest
from toolcrib.registry.selection import KINDS, count_kinds, label_of, name_kinds

EXAMPLES = """
toolcrib lock tools.py                       write toolcrib.lock
toolcrib lock tools.py --check               in a pipeline: is it current?
toolcrib lock . --check --base origin/main   what a branch changes
toolcrib lock tools.py --update find_orders  accept the changes of one tool
toolcrib lock shop.py --update 'prompt:*'    accept those of all prompts
toolcrib lock shop/ --static                 without importing it
toolcrib lock http://127.0.0.1:8000/mcp      the tools of a running server
toolcrib lock                                the targets of toolcrib.toml
"""


@click.command(cls=Command, examples=EXAMPLES)
@source_options()
@report_options
@click.option("--output", metavar="FILE", help="Lock file.  [default: from toolcrib.toml, or toolcrib.lock]")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if the lock file is out of date.")
@click.option("--base", metavar="REV|FILE", help="With --check: compare with a commit or another lock file.")
@click.option("--update", multiple=True, metavar="NAME", help="Only this one (name or glob); repeatable.")
@click.option("--partial", is_flag=True, help="Lock the valid tools although others have errors.")
def lock(
    terminal: Terminal,
    source: ToolSource,
    as_json: bool,
    markdown: bool,
    fail_on: str | None,
    output: str | None,
    check: bool,
    base: str | None,
    update: Sequence[str],
    partial: bool,
) -> int:
    """Pin the definitions of tools, resources and prompts in a lock file.

    Commit the file with your code. `toolcrib serve --locked` serves only what it pins, `--check` shows what
    changed since, or since the commit or file of --base. It covers names, descriptions, schemas, hints and
    scopes, and the files of skills, but not code and not the content of other resources. A NAME is that of a
    tool, prompt:NAME or resource:URI. Exit code 1: not written, out of date, or with --fail-on, changes of
    this grade or worse.

    A TARGET is a Python file, folder, module, module:object, toolcrib.toml or the URL of an MCP server.
    """
    if check and update:
        raise exclusive("--check", "--update")
    for option, given in (("--base", base), ("--fail-on", fail_on), ("--markdown", markdown)):
        if given and not check:
            raise CommandError(f"{option} requires --check")
    file, _ = find_lock(source.targets, output)
    if base is not None:
        return _compare_with(base, source, terminal, as_json=as_json, markdown=markdown, fail_on=fail_on)
    old = Lock.load(file) if file.exists() else None
    if old is None and update:
        raise CommandError(f"Cannot update {file}: no such file", "write it first, without --update")
    found = source.open(terminal)
    found.drop_duplicates()
    if found.errors and not (partial and found.everything):
        for error in found.errors:
            terminal.finding(error)
        hint = "fix them, or lock the others with --partial" if found.everything else None
        terminal.message("error", f"Not locked: {count(len(found.errors), 'problem')}", hint)
        return 1
    with Progress(terminal, "locking tools") as progress:
        new = Lock.of(progress.track(found.everything), file)
    if old is not None and check and source.remote is not None:
        new = _without_unknown(new, old)
    elif old is not None and update:
        new = _update(old, new, update)
    with Progress(terminal, "comparing tools") as progress:
        comparison = compare(old.tools if old is not None else (), new.tools, progress)
    is_changed = old is None or _pins_json(old) != _pins_json(new)
    if is_changed and not check:
        new.save(file)
    before = Catalog(label=str(file))
    facts = {
        "file": str(file),
        "written": is_changed and not check,
        "up_to_date": not is_changed or not check,
    }
    if as_json or markdown:
        facts |= {f"{kind}s": [pin.kind for pin in new.pins.values()].count(kind) for kind in KINDS}
        report(comparison, before, found, terminal, as_json=as_json, markdown=markdown, **facts)
    else:
        _print(comparison, old, new, terminal, check=check, is_changed=is_changed)
    return (exit_code(comparison, fail_on) if fail_on else int(is_changed)) if check else 0


def _print(
    comparison: Comparison, old: Lock | None, new: Lock, terminal: Terminal, *, check: bool, is_changed: bool
) -> None:
    pins = count_kinds(map(label_of, new.tools))
    if not is_changed:
        terminal.message("note", f"{new.file} is up to date: {pins}")
        return
    suspicious = comparison.at_least("suspicious")
    if old is not None or suspicious:
        shown = comparison if old is not None else replace(comparison, changes=suspicious)
        for line in format_changes(shown):
            (terminal.echo if check else terminal.echo_err)(line)
    if not check:
        terminal.message("note", f"{new.file} written: {pins}")
    elif old is None:
        terminal.message("error", f"No such file: {new.file}", "write it: run this without --check")
    else:
        hint = "review the changes, then accept them: run this without --check, or with --update NAME"
        terminal.message("error", f"{new.file} is out of date", hint)


def _compare_with(
    base: str, source: ToolSource, terminal: Terminal, *, as_json: bool, markdown: bool, fail_on: str | None
) -> int:
    """Compare the targets with a commit or a lock file."""
    side = parse_side(base)
    if isinstance(side, str):
        raise CommandError(f"{base} is not a lock file or a commit", "compare targets with toolcrib diff")
    if not isinstance(side, Path) and source.remote is None:
        source = replace(source, static=True)  # a commit is never run, so that the other side is not either
    new = source.open(terminal)
    target = source.targets[0] if len(source.targets) == 1 else ""
    old = read_side(side, target, source, terminal)
    new.label = new.label or "current tools"
    with Progress(terminal, "comparing tools") as progress:
        comparison = compare(old.everything, new.everything, progress)
    report(comparison, old, new, terminal, as_json=as_json, markdown=markdown)
    return 1 if new.errors and fail_on != "never" else exit_code(comparison, fail_on)


def _pins_json(lock: Lock) -> dict[object, object]:
    return {key: pin.to_json() for key, pin in lock.pins.items()}


def _without_unknown(new: Lock, old: Lock) -> Lock:
    """Return a lock with the files and scopes of the old one: a running server does not tell them."""
    pins = dict(new.pins)
    for key in pins.keys() & old.pins.keys():
        pins[key] = replace(pins[key], source=old.pins[key].source, scopes=old.pins[key].scopes)
    return replace(new, pins=pins)


def _update(old: Lock, new: Lock, names: Sequence[str]) -> Lock:
    """Return the old lock with the current definitions of some tools, removed ones included."""
    known = dict.fromkeys(key[0] for key in (*old.pins, *new.pins))
    tools = [*old.tools, *new.tools]
    for name in names:
        if not any(fnmatchcase(other, name) for other in known):
            raise CommandError(f"Unknown {name_kinds(name, tools)}: {name}", suggest(name, known))

    def is_named(key: tuple[str, str | None]) -> bool:
        return any(fnmatchcase(key[0], name) for name in names)

    kept = {key: pin for key, pin in old.pins.items() if not is_named(key)}
    return replace(old, pins=kept | {key: pin for key, pin in new.pins.items() if is_named(key)})
