"""Rules for tool annotations: risky tools are marked, and no mark contradicts the name.

The rules know English verbs at the start of a name. Clients use hints to decide whether to ask the user.
"""

from __future__ import annotations

from collections.abc import Iterator

from toolcrib.catalog.lint.rule import LintedTool, Problem, quote, word_set
from toolcrib.definition import find_wrong_annotations

_DESTRUCTIVE = word_set(
    "delete remove drop destroy erase purge wipe truncate kill terminate uninstall revoke format reset"
    " unlink overwrite shred deprovision prune evict rm"
)
_EXTERNAL_EFFECT = word_set(
    "send pay transfer publish post email tweet refund charge purchase buy sell order withdraw deploy"
    " merge push release broadcast wire donate trade"
)
_RISKY = _DESTRUCTIVE | _EXTERNAL_EFFECT | {"execute", "exec", "eval", "shell"}
_RISKY_ALONE = _DESTRUCTIVE | {"send", "pay", "exec", "eval"}
_RISKY_AFTER_NAMESPACE = _DESTRUCTIVE | {"send", "pay", "execute", "publish", "deploy"}
_RISKY_AT_END = _DESTRUCTIVE - {"reset", "format"}
_NOUNS_AT_END = frozenset({"status", "history", "list", "info", "count", "schema"})
_READS_ONLY = word_set(
    "get list find search read show describe count lookup view inspect browse peek summarize"
)
_READS = _READS_ONLY | {"query", "check", "fetch"}  # the last three may do more


def find_unmarked_risk(tool: LintedTool) -> Iterator[Problem]:
    verb = _risky_verb(tool)
    annotations = tool.definition.annotations
    is_marked = any(isinstance(annotations.get(hint), bool) for hint in ("readOnlyHint", "destructiveHint"))
    if verb is not None and not is_marked:
        yield Problem(
            f"'{tool.name}' sounds destructive ('{verb}') and is not marked as such or as harmless",
            'set annotations {"destructiveHint": true}, or false where it can be undone'
            if tool.has_own_schema
            else None,
        )


def find_doubtful_hints(tool: LintedTool) -> Iterator[Problem]:
    is_read_only = tool.definition.annotations.get("readOnlyHint") is True
    is_destructive = tool.definition.annotations.get("destructiveHint") is True
    verb = _risky_verb(tool)
    first_word = next(iter(tool.name_words), "")
    if is_read_only and verb is not None:
        yield Problem(
            f"'{tool.name}' is marked read-only, but '{verb}' suggests otherwise",
            "remove read_only, or rename the tool",
        )
    elif is_destructive and not is_read_only and first_word in _READS_ONLY:
        mark = 'annotations {"readOnlyHint": true}' if tool.has_own_schema else "read_only=True"
        yield Problem(
            f"'{tool.name}' is marked destructive, but '{first_word}' suggests that it only reads",
            f"set {mark}, or choose a name that says what it destroys",
        )
    if is_read_only and is_destructive:
        yield Problem(f"'{tool.name}' is marked both read-only and destructive", "remove one of the two")


def find_invalid_annotations(tool: LintedTool) -> Iterator[Problem]:
    annotations = tool.definition.annotations
    for key, kind in find_wrong_annotations(annotations):
        value = quote(repr(annotations[key]))
        yield Problem(f"Annotation '{key}' of '{tool.name}' must be {kind}, not {value}")


def _risky_verb(tool: LintedTool) -> str | None:
    """Return the risky verb at the start of the name, or after a namespace, or at its end."""
    words = tool.name_words
    if not words or words[0] in _READS or words[-1] in _NOUNS_AT_END:
        return None
    if words[0] in _RISKY:
        return words[0] if len(words) > 1 or words[0] in _RISKY_ALONE else None
    if len(words) > 2 and words[1] in _RISKY_AFTER_NAMESPACE:
        return words[1]  # shop_delete_order
    return words[-1] if len(words) > 1 and words[-1] in _RISKY_AT_END else None
