"""Rules for hints: a tool that destroys, sends or pays says so, and none says the contrary of its name.

Knows English verbs at the head of a name. A client decides by hints whether a person is asked first.
"""

from __future__ import annotations

from collections.abc import Iterator

from toolcrib.catalog.lint.phrases import word_set
from toolcrib.catalog.lint.rule import Remark, Rule, Subject, quote
from toolcrib.definition import find_unfit_annotations

DESTROYS = word_set(
    "delete remove drop destroy erase purge wipe truncate kill terminate uninstall revoke format reset"
    " unlink overwrite shred deprovision prune evict rm"
)
REACHES_OUT = word_set(
    "send pay transfer publish post email tweet refund charge purchase buy sell order withdraw deploy"
    " merge push release broadcast wire donate trade"
)
RUNS = word_set("execute exec eval shell")
READS = word_set(
    "get list find search read fetch show describe count lookup view query check inspect browse peek"
    " summarize"
)
_HINTS = ("readOnlyHint", "destructiveHint")
# "query" and "check" may do anything; these only look.
_ONLY_LOOKS = READS - {"query", "check", "fetch"}


def find_unmarked_risk(subject: Subject) -> Iterator[Remark]:
    verb = _risky_verb(subject)
    said = subject.definition.annotations
    if verb is not None and not any(isinstance(said.get(hint), bool) for hint in _HINTS):
        yield Remark(
            f"'{subject.name}' has no hint on whether it is destructive, and '{verb}' sounds as if it were",
            _hint(subject, "destructive=True, or destructive=False where it can be undone"),
        )


def find_doubtful_hints(subject: Subject) -> Iterator[Remark]:
    said = subject.definition.annotations
    verb = _risky_verb(subject)
    if said.get("readOnlyHint") is True and verb is not None:
        yield Remark(
            f"'{subject.name}' is marked read-only, but '{verb}' changes things",
            _hint(subject, "drop read_only, or rename the tool"),
        )
    elif said.get("destructiveHint") is True and said.get("readOnlyHint") is not True:
        first = next(iter(subject.name_words), "")
        if first in _ONLY_LOOKS:
            yield Remark(
                f"'{subject.name}' is marked destructive, but '{first}' only looks",
                _hint(subject, "read_only=True, or a name that says what it destroys"),
            )
    if said.get("readOnlyHint") is True and said.get("destructiveHint") is True:
        yield Remark(f"'{subject.name}' is marked both read-only and destructive", "drop one of the two")


def find_unfit_hints(subject: Subject) -> Iterator[Remark]:
    said = subject.definition.annotations
    for key, kind in find_unfit_annotations(said):
        yield Remark(
            f"Annotation '{key}' of '{subject.name}' must be {kind}, and is {quote(repr(said[key]))}"
        )


def _risky_verb(subject: Subject) -> str | None:
    """The verb that a name begins with, past a namespace; nouns further back mean nothing."""
    words = subject.name_words
    if (
        not words
        or words[0] in READS
        or words[-1] in ("status", "history", "list", "info", "count", "schema")
    ):
        return None
    if words[0] in DESTROYS | REACHES_OUT | RUNS:
        return words[0] if len(words) > 1 or words[0] in DESTROYS | {"send", "pay", "exec", "eval"} else None
    if len(words) > 2 and words[1] in DESTROYS | {"send", "pay", "execute", "publish", "deploy"}:
        return words[1]  # shop_delete_order
    return words[-1] if len(words) > 1 and words[-1] in DESTROYS - {"reset", "format", "order"} else None


def _hint(subject: Subject, words: str) -> str:
    if not subject.has_own_schema:
        return f"say it: {words}" if "=" in words else words
    return (
        words.replace("destructive=True", 'say it: annotations {"destructiveHint": true}')
        .replace("destructive=False", "false")
        .replace("read_only=True", 'say it: annotations {"readOnlyHint": true}')
    )


RULES = (
    Rule(
        "unmarked-risk",
        "warning",
        "A name that sounds dangerous, and no hint whether it is",
        "Clients ask a person before a destructive call; policies go by the mark. Without one, each guesses.",
        "say it: destructive=True, or destructive=False where it can be undone",
        find_unmarked_risk,
    ),
    Rule(
        "doubtful-hint",
        "warning",
        "A hint says the contrary of the name",
        "A tool that calls itself read-only is run without asking; one that only looks should not need"
        " asking.",
        "correct the hint, or the name",
        find_doubtful_hints,
    ),
    Rule(
        "unfit-hint",
        "warning",
        "An annotation is of a type that the protocol does not give it",
        "A client refuses the list of tools for it, or takes any text for a yes.",
        "true or false for a hint, text for the title",
        find_unfit_hints,
        in_check=True,
    ),
)
