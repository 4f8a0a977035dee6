"""`toolcrib diff`: what changed between two catalogs, and whether anybody has to follow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from toolcrib.catalog.compare import GRADES, Comparison, compare
from toolcrib.cli.changes import print_changes, to_markdown
from toolcrib.cli.frame import Command, Failure, takes_json
from toolcrib.cli.sides import (
    COMMAND,
    Manner,
    find_commit,
    find_lock,
    find_range,
    is_lock,
    load_lock,
    load_side,
    take_stock,
)
from toolcrib.cli.stock import Stock
from toolcrib.cli.targets import is_address
from toolcrib.cli.terminal import Terminal
from toolcrib.cli.words import count
from toolcrib.client.dialect import VERSIONS

EXAMPLES = """
toolcrib diff                          the lock against the tools here
toolcrib diff tools.py                 the lock against this file
toolcrib diff main tools.py            a commit against the file as it is
toolcrib diff HEAD~3..HEAD             two commits; read, not run
toolcrib diff v1.0:shop v2.0:shop      a folder in both
toolcrib diff old.lock http://127.0.0.1:8000/mcp
toolcrib diff 'cmd:python old.py' 'cmd:python new.py'
toolcrib diff main.. --markdown        for a comment on a pull request
"""
HERE = "the tools here"


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("sides", nargs=-1, metavar="[OLD] [NEW]")
@takes_json
@click.option("--markdown", is_flag=True, help="Print Markdown for a review.")
@click.option(
    "--fail-on",
    type=click.Choice([*reversed(GRADES), "never"]),
    default="breaking",
    show_default=True,
    help="Exit code 1 for changes of this grade, or worse.",
)
@click.option(
    "--lock", "lock_file", metavar="FILE", help="The lock; toolcrib.lock, or what toolcrib.toml says."
)
@click.option("--static", is_flag=True, help="Read the source of targets; import and run nothing.")
@click.option("--header", "headers", multiple=True, metavar="'K: V'", help="Send this header to an address.")
@click.option("--protocol", type=click.Choice(["auto", *VERSIONS]), help="The version of MCP to speak.")
def diff(
    terminal: Terminal,
    sides: Sequence[str],
    as_json: bool,
    markdown: bool,
    fail_on: str,
    lock_file: str | None,
    static: bool,
    headers: Sequence[str],
    protocol: str | None,
) -> int:
    """Show what changed between two catalogs.

    OLD and NEW are each a target (a Python file, a folder, a module, a toolcrib.toml, a file that describes
    tools), a lock file, the address of a running MCP server, cmd: and a command that starts one, or a git
    commit, REVISION or REVISION:PATH. With one, the lock is OLD; a commit alone is compared with the tools
    here. With none, the lock is compared with the tools of toolcrib.toml.

    Changes are cosmetic, compatible, breaking or suspicious, in this order. Exit code 1: there are some of
    the grade of --fail-on, or worse.
    """
    if as_json and markdown:
        raise Failure("--json and --markdown do not go together", "drop one of them")
    if len(sides) > 2:
        raise Failure(f"There are {len(sides)} sides", "give two at most: OLD NEW")
    words = list(sides)
    if (headers or protocol) and not any(is_address(w) or w.startswith(COMMAND) for w in words):
        raise Failure("--header and --protocol are for a running server", "name its address")
    manner = Manner(static, headers, protocol)
    old, new = _load(words, lock_file, manner, terminal)
    _say_trouble((old, new), terminal)
    comparison = compare(old.tools, new.tools)
    if as_json:
        terminal.json(_to_json(comparison, old, new))
    elif markdown:
        terminal.data(to_markdown(comparison, old.label, new.label))
    else:
        print_changes(comparison, terminal)
    if fail_on == "never":
        return 0
    return 1 if new.errors or comparison.at_least(next(grade for grade in GRADES if grade == fail_on)) else 0


def _load(words: list[str], lock_file: str | None, manner: Manner, terminal: Terminal) -> tuple[Stock, Stock]:
    if len(words) == 1 and (ends := find_range(words[0])) is not None:
        words = [end or "" for end in ends]
    elif len(words) == 1 and not is_lock(words[0]) and find_commit(words[0]) is not None:
        words = [words[0], ""]  # as `git diff REVISION` means what is here, too
    if len(words) == 2:
        if lock_file is not None:
            raise Failure("--lock has no place beside two sides", "name it as one of them")
        return _load_both(words[0], words[1], manner, terminal)
    targets = words if words and not is_lock(words[0]) else ()
    if words and not targets:
        path = Path(words[0])  # the one word is a lock: the tools here against it
    else:
        path, _ = find_lock([t for t in targets if t.endswith(".toml")], lock_file)
    if not targets:
        return load_lock(path), _load_here(manner, terminal)
    new = load_side(targets[0], terminal, manner)  # what is not there is said before that there is no lock
    return load_lock(path), new


def _load_both(first: str, second: str, manner: Manner, terminal: Terminal) -> tuple[Stock, Stock]:
    """Where one side is a commit, which can only be read, the other is read and not run, too."""
    if any(word and not is_lock(word) and find_commit(word) is not None for word in (first, second)):
        manner = Manner(True, manner.headers, manner.protocol)
    loaded = [
        load_side(word, terminal, manner, beside) if word else _load_here(manner, terminal)
        for word, beside in ((first, second or None), (second, first or None))
    ]
    return loaded[0], loaded[1]


def _load_here(manner: Manner, terminal: Terminal) -> Stock:
    """The tools of the toolcrib.toml here; where there is only a commit to compare with, of the folder."""
    stock = take_stock(terminal, (), manner)
    if stock.is_sample:
        if not manner.static:
            raise Failure("There is no toolcrib.toml here that says where the tools are", "name them as NEW")
        stock = take_stock(terminal, (".",), manner)
    stock.label = HERE
    return stock


def _say_trouble(stocks: tuple[Stock, Stock], terminal: Terminal) -> None:
    for stock in stocks:
        for error in stock.errors:
            terminal.tell(error)
        if stock.errors:
            words = f"{count(len(stock.errors), 'problem')} in {stock.label}: what is wrong is not compared"
            terminal.say("warning", words)


def _to_json(comparison: Comparison, old: Stock, new: Stock) -> dict[str, object]:
    findings = [finding for stock in (old, new) for finding in stock.findings]
    return {
        "old": {"name": old.label, "tools": comparison.before},
        "new": {"name": new.label, "tools": comparison.after},
        "counts": comparison.counts,
        "worst": comparison.worst,
        "advice": comparison.advice,
        "changes": [change.to_json() for change in comparison.changes],
        "findings": [finding.to_json() for finding in findings],
    }
