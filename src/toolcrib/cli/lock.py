"""`toolcrib lock`: pin tool definitions in a lock file, so that changes are seen before they are served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

import click

from toolcrib.catalog.diff import GRADES
from toolcrib.catalog.diff.compare import Comparison, compare
from toolcrib.catalog.lock import Drift, Lock, Pin, SkillPin
from toolcrib.cli.catalog import ToolSource, find_lock, source_options
from toolcrib.cli.diff import format_changes
from toolcrib.cli.options import Command, CommandError, exclusive, json_option
from toolcrib.cli.output import Progress, Terminal
from toolcrib.cli.text import count, suggest
from toolcrib.sources.skills import Skill

EXAMPLES = """
toolcrib lock tools.py                       write toolcrib.lock
toolcrib lock tools.py --check               in a pipeline: is it current?
toolcrib lock tools.py --update find_orders  accept the changes of one tool
toolcrib lock shop/ --static                 without importing it
toolcrib lock http://127.0.0.1:8000/mcp      the tools of a running server
toolcrib lock                                the targets of toolcrib.toml
"""


@click.command(cls=Command, examples=EXAMPLES)
@source_options()
@json_option
@click.option("--output", metavar="FILE", help="Lock file.  [default: from toolcrib.toml, or toolcrib.lock]")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if the lock file is out of date.")
@click.option(
    "--update", multiple=True, metavar="NAME", help="Only this tool or skill (name or glob); repeatable."
)
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
    """Pin tool definitions in a lock file.

    Commit the file with your code. `toolcrib serve --locked` serves only what it pins, `toolcrib diff` shows
    what changed since. It covers names, descriptions, schemas, hints and scopes, not code, and every file of
    skills. Exit code 1: not written, or out of date.

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
    if found.is_sample:
        raise CommandError("No targets to lock", "name a file, a folder or a module")
    for error in found.errors:
        terminal.finding(error)
    if found.errors and not (partial and found.tools):
        hint = "fix them, or lock the other tools with --partial" if found.tools else None
        terminal.message("error", f"Not locked: {count(len(found.errors), 'problem')}", hint)
        return 1
    with Progress(terminal, "locking tools") as progress:
        new = Lock.of(progress.track(found.tools), file, found.skills or ())
    if old is not None:
        new = _keep(old, new, update, has_skills=found.skills is not None)
    with Progress(terminal, "comparing tools") as progress:
        comparison = compare(old.tools if old is not None else (), new.tools, progress)
    is_changed = old is None or _pins_json(old) != _pins_json(new)
    skills = _compare_skills(old, new, found.skills or ())
    if is_changed and not check:
        new.save(file)
    if as_json:
        terminal.json(
            {
                "file": str(file),
                "written": is_changed and not check,
                "up_to_date": not is_changed or not check,
                "tools": len(new.pins),
                "skills": len(new.skills),
                "changed_skills": skills,
                "counts": {grade: comparison.counts[grade] for grade in reversed(GRADES)},
                "changes": [change.to_json() for change in comparison.changes],
                "findings": [finding.to_json() for finding in found.findings],
            }
        )
    elif not is_changed:
        terminal.message("note", f"{file} is up to date: {_count_pins(new)}")
    else:
        _print_changes(comparison, skills, terminal, is_first=old is None)
        if not check:
            terminal.message("note", f"{file} written: {_count_pins(new)}")
        elif old is None:
            terminal.message("error", f"No such file: {file}", "write it: run this without --check")
        else:
            hint = "review the changes, then accept them: run this without --check, or with --update NAME"
            terminal.message("error", f"{file} is out of date", hint)
    return 1 if check and is_changed else 0


def _print_changes(
    comparison: Comparison, skills: Sequence[str], terminal: Terminal, *, is_first: bool
) -> None:
    """Print what changed. Of a first lock, where everything is new, only what is suspicious."""
    suspicious = comparison.at_least("suspicious")
    if not is_first or suspicious:
        for line in format_changes(replace(comparison, changes=suspicious) if is_first else comparison):
            terminal.echo_err(line)
    for change in skills:
        terminal.echo_err(change)


def _pins_json(lock: Lock) -> dict[object, object]:
    pinned: dict[object, object] = {key: pin.to_json() for key, pin in lock.pins.items()}
    pinned.update({uri: pin.to_json() for uri, pin in lock.skills.items()})
    return pinned


def _count_pins(lock: Lock) -> str:
    tools = count(len(lock.pins), "tool")
    return f"{tools}, {count(len(lock.skills), 'skill')}" if lock.skills else tools


def _compare_skills(old: Lock | None, new: Lock, skills: Sequence[Skill]) -> list[str]:
    """Return a line for each skill that the new lock has otherwise than the old one."""
    if old is None:
        return []
    here = [skill for skill in skills if old.skills.get(skill.uri) != new.skills.get(skill.uri)]
    drift = old.check_skills(here, Drift(old))
    gone = [pin for pin in drift.missing_skills if pin.uri not in new.skills]
    lines = [f"skill {skill.name}: {difference}" for skill, difference in drift.skills]
    return lines + [f"skill {pin.name}: it is gone" for pin in gone]


def _keep(old: Lock, new: Lock, update: Sequence[str], *, has_skills: bool) -> Lock:
    """Return the new lock with what is to stay as it was. A scan and a running server do not show skills."""
    new = new if has_skills else replace(new, skills=old.skills)
    return _update(old, new, update) if update else new


def _update(old: Lock, new: Lock, names: Sequence[str]) -> Lock:
    """Return the old lock with some tools and skills as they are now, removed ones included."""
    skills = {pin.name: None for pin in (*old.skills.values(), *new.skills.values())}
    known = dict.fromkeys(key[0] for key in (*old.pins, *new.pins)) | skills
    for name in names:
        if not any(fnmatchcase(other, name) for other in known):
            raise CommandError(f"Unknown tool: {name}", suggest(name, known))

    def is_named(pin: Pin | SkillPin) -> bool:
        return any(fnmatchcase(pin.name, name) for name in names)

    pins = {key: pin for key, pin in old.pins.items() if not is_named(pin)}
    pins |= {key: pin for key, pin in new.pins.items() if is_named(pin)}
    pinned = {uri: pin for uri, pin in old.skills.items() if not is_named(pin)}
    pinned |= {uri: pin for uri, pin in new.skills.items() if is_named(pin)}
    return replace(old, pins=pins, skills=pinned)
