"""Which log the words of a command line mean, and which of its records.

Knows options and where settings name a log; refuses to know what is done with the records.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import click

from toolcrib.cli.frame import F, Failure
from toolcrib.cli.moment import read_back
from toolcrib.cli.terminal import shorten_paths
from toolcrib.cli.words import suggest
from toolcrib.config import FILE_NAME, load_config
from toolcrib.policies.audit.reading import Reader
from toolcrib.policies.outcome import OUTCOMES

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

    def read(self) -> Reader:
        """For reading alone, which needs no key."""
        self.check()
        return Reader(self.file, None, self.file)

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
    """The keywords of `Reader.records`."""
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
