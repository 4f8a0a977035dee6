"""The lint rules: their table, running them over tools, ignoring findings, and writing them as SARIF.

The rules are listed in `data/rules.toml`. To add one, write its function in the module of its subject and add
an entry there. A package adds rules with an entry point in the group `toolcrib.lint` that names a `Rule` or a
sequence of them.

Findings are ignored by `code` or `code:TOOL` in settings and on the command line, or by comments:

    # toolcrib: ignore[long-description]     on the line of a decorator, of the def, or of the finding
    # toolcrib: ignore                       everything about that tool

Refused tools cannot be ignored. Source is read as text and syntax, and never run.
"""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import quote

from toolcrib.catalog.lint import injected, quality
from toolcrib.catalog.lint.rule import LintedTool, Problem, Rule
from toolcrib.component import Component
from toolcrib.errors import ConfigurationError, DefinitionError, Finding, SourceError, suggest
from toolcrib.options import SKILLS
from toolcrib.registry.plugins import load_plugins
from toolcrib.registry.resources import find_overlaps
from toolcrib.sources.source_text import parse_text, read_text
from toolcrib.validation import codec

# --- the table ----------------------------------------------------------------------------------------

ENTRY_POINTS = "toolcrib.lint"
_MODULES = {"quality": quality, "injected": injected}


_DATA = tomllib.loads(Path(__file__).with_name("data").joinpath("rules.toml").read_text("utf-8"))
for _entry in (entry for entries in _DATA["rules"].values() for entry in entries):
    for _key in _entry.keys() & {"check", "check_all"}:
        _module, _, _function = _entry[_key].partition(".")
        _entry[_key] = getattr(_MODULES[_module], _function)
GROUPS: Mapping[str, tuple[Rule, ...]] = MappingProxyType(
    {group: tuple(Rule(**entry) for entry in entries) for group, entries in _DATA["rules"].items()}
)
RULES: Mapping[str, Rule] = MappingProxyType({rule.code: rule for rules in GROUPS.values() for rule in rules})
"""The built-in rules by code."""

SUSPICION_RULES = tuple(
    rule for group in ("Injected instructions", "Secrets", "URLs", "Hidden text") for rule in GROUPS[group]
)
"""The rules for text that somebody may have injected."""
SUSPICIONS = frozenset(rule.code for rule in SUSPICION_RULES) - {"self-promotion"}
"""The codes that point at an attack. Honest servers promote themselves too."""

OTHERS: Mapping[str, str] = MappingProxyType(_DATA["other_codes"])
"""Codes of findings from reading and building tools, which have no rule; `*` means several."""


@cache
def load_groups() -> Mapping[str, tuple[Rule, ...]]:
    """Return the groups of rules, with rules of plugins in the group "Plugins"."""
    added = tuple(rule for name, plugin in load_plugins(ENTRY_POINTS) for rule in _check_plugin(name, plugin))
    return MappingProxyType({**GROUPS, "Plugins": added} if added else GROUPS)


@cache
def load_rules() -> Mapping[str, Rule]:
    """Return all rules by code, plugins included."""
    return MappingProxyType({rule.code: rule for rules in load_groups().values() for rule in rules})


def _check_plugin(name: str, plugin: object) -> tuple[Rule, ...]:
    rules = (
        (plugin,) if isinstance(plugin, Rule) else tuple(plugin) if isinstance(plugin, list | tuple) else ()
    )
    if not rules or not all(isinstance(rule, Rule) for rule in rules):
        raise ConfigurationError(f"The plugin '{name}' ({ENTRY_POINTS}) is not a Rule or a sequence of them")
    for rule in rules:
        if rule.code in RULES:
            raise ConfigurationError(f"The plugin '{name}' ({ENTRY_POINTS}) redefines the rule '{rule.code}'")
    return rules


def is_known(code: str) -> bool:
    return code in load_rules() or describe_other(code) is not None


def describe_other(code: str) -> str | None:
    """Return the meaning of a code of reading and building; None if there is no such code."""
    return next((text for pattern, text in OTHERS.items() if fnmatchcase(code, pattern)), None)


# --- source files -------------------------------------------------------------------------------------

_MIN_EXCERPT = 6


@dataclass(slots=True)
class Span:
    """The lines of a function or class: its first decorator, its `def`, its body and its end."""

    first: int
    head: int
    body: int
    last: int


@dataclass(slots=True)
class SourceText:
    """The lines of a file and, for Python, its definitions by the line that they begin in."""

    lines: list[str]
    spans: dict[int, Span]

    def find(self, excerpt: str, span: Span) -> int | None:
        """Return the first line of a definition with the beginning of a text, ignoring case and blanks."""
        wanted = " ".join(excerpt.split()).casefold()[:24]
        if len(wanted) < _MIN_EXCERPT:
            return None
        for number in range(span.first, min(span.last, len(self.lines)) + 1):
            if wanted in " ".join(self.lines[number - 1].split()).casefold():
                return number
        return None

    def find_parameter(self, name: str, span: Span) -> int | None:
        """Return the line where a parameter is described, or else where it is declared."""
        described = re.compile(
            rf"^\s*(?::param\s+(?:\w+\s+)?)?\*{{0,2}}{re.escape(name)}\s*(?:\([^)]*\))?\s*:"
        )
        declared = re.compile(rf"(?:^|[\s(,*]){re.escape(name)}\s*(?:[:,=)]|$)")
        last = min(span.last, len(self.lines))
        for pattern, numbers in (
            (described, range(span.body, last + 1)),
            (declared, range(span.head, span.body + 1)),
        ):
            for number in numbers:
                if pattern.search(self.lines[number - 1]):
                    return number
        return None


def read_source(file: str) -> SourceText | None:
    """Read a source file; return None if that fails."""
    try:
        return _read_version(file, os.stat(file).st_mtime_ns)
    except (OSError, ValueError, SourceError):
        return None


@lru_cache(maxsize=512)
def _read_version(file: str, mtime_ns: int) -> SourceText:  # noqa: ARG001 - part of the key
    path = Path(file)
    text = read_text(path)
    found = SourceText(text.split("\n"), {})
    nodes: list[ast.AST] = [parse_text(text, path)] if path.suffix in (".py", ".pyi") else []
    while nodes:
        for child in ast.iter_child_nodes(nodes.pop()):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                first = min([child.lineno, *(item.lineno for item in child.decorator_list)])
                span = Span(first, child.lineno, child.body[0].lineno, child.end_lineno or child.lineno)
                found.spans[first] = found.spans[span.head] = span
            if not isinstance(child, ast.expr):
                nodes.append(child)
    return found


# --- settings -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Choice:
    """A code and a glob of the tools it applies to: `undocumented-result:shop_*`."""

    code: str
    tools: str = "*"

    @classmethod
    def parse(cls, text: str) -> Choice:
        code, _, tools = text.partition(":")
        return cls(code.strip().lower(), tools.strip() or "*")

    def matches(self, finding: Finding) -> bool:
        return self.code == finding.code and (
            self.tools == "*" or fnmatchcase(finding.tool or "", self.tools)
        )


def can_be_ignored(finding: Finding) -> bool:
    return finding.level != "error" or finding.code in load_rules()


def is_chosen(finding: Finding, choices: Sequence[Choice]) -> bool:
    return any(choice.matches(finding) for choice in choices)


def find_unknown_codes(codes: Iterable[str], file: str | None, line: int | None) -> Iterator[Finding]:
    """Yield a finding for each code that no rule has."""
    for code in codes:
        if not is_known(code):
            rule = RULES["unknown-rule"]
            hint = suggest(code, load_rules(), rule.fix)
            yield Finding(rule.code, rule.level, f"Unknown rule '{code}'", file=file, line=line, hint=hint)


# --- comments -----------------------------------------------------------------------------------------

_COMMENT = re.compile(r"#\s*toolcrib:\s*ignore\b(?:\[(?P<codes>[^\]]*)\]?)?", re.IGNORECASE)


@dataclass(slots=True)
class IgnoreComment:
    """One comment; without codes it ignores everything."""

    line: int
    codes: frozenset[str]
    used: set[str] = field(default_factory=set)


class IgnoreComments:
    """The ignore comments of all files with findings or tools; each file is read once."""

    def __init__(self) -> None:
        self._files: dict[str, dict[int, IgnoreComment]] = {}

    def read(self, file: str) -> dict[int, IgnoreComment]:
        """Return the comments of a file by line."""
        comments = self._files.get(file)
        if comments is None:
            source = read_source(file)
            comments = self._files[file] = {} if source is None else _read_comments(source)
        return comments

    def ignore(self, finding: Finding, tool_line: int | None) -> bool:
        """Tell whether a comment on the finding's line, or at the head of its tool, ignores it."""
        if finding.file is None or not (comments := self.read(finding.file)):
            return False
        lines = {finding.line, tool_line}
        source = read_source(finding.file)
        span = source.spans.get(tool_line) if source is not None and tool_line else None
        if span is not None:
            lines.update(range(span.first, max(span.head + 1, span.body)))  # decorators and signature
        for line in lines:
            comment = comments.get(line or 0)
            if comment is not None and (not comment.codes or finding.code in comment.codes):
                comment.used.add(finding.code)
                return True
        return False

    def find_problems(self) -> Iterator[Finding]:
        """Yield findings about the comments: unknown codes, and codes that ignore nothing."""
        rule = RULES["unused-ignore"]
        for file, comments in self._files.items():
            for comment in comments.values():
                yield from find_unknown_codes(sorted(comment.codes), file, comment.line)
                unused = sorted(code for code in comment.codes - comment.used if is_known(code))
                if unused or not (comment.codes or comment.used):
                    what = f"{', '.join(unused)} findings" if unused else "findings"
                    message = f"There are no {what} to ignore here"
                    yield Finding(rule.code, rule.level, message, file=file, line=comment.line, hint=rule.fix)


def _read_comments(source: SourceText) -> dict[int, IgnoreComment]:
    if not any("toolcrib:" in line for line in source.lines):
        return {}
    comments = {}
    for line, text in _list_comments(source):
        found = _COMMENT.search(text)
        if found is not None:
            codes = (item.strip().lower() for item in (found["codes"] or "").split(","))
            comments[line] = IgnoreComment(line, frozenset(code for code in codes if code))
    return comments


def _list_comments(source: SourceText) -> Iterator[tuple[int, str]]:
    """Yield the comments of Python source, so that a docstring which shows one has no effect."""
    if not source.spans:
        yield from enumerate(source.lines, 1)
        return
    text = "\n".join(source.lines)
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    except (tokenize.TokenError, SyntaxError):
        return


# --- running rules ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ignored:
    """A finding that was ignored, by a comment in the source or by settings."""

    finding: Finding
    by: Literal["source", "settings"]


@dataclass(slots=True)
class Inspection:
    """The findings, ordered by file and line, and those that were ignored."""

    findings: list[Finding] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)


def inspect_tools(
    tools: Iterable[Component],
    *,
    found: Iterable[Finding] = (),
    ignore: Sequence[Choice] = (),
    error: Sequence[Choice] = (),
    use_comments: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Inspection:
    """Run every rule, also of plugins, and inspect the code of tools and the files of skills.

    Args:
        tools: The tools, resources and prompts to look at
        found: Findings from reading and building the tools, which can be ignored as well
        ignore: Findings to leave out
        error: Findings to raise to errors
        use_comments: Whether comments in the source may ignore findings. False for untrusted code, whose
            author may have written the comment next to an injected text.
        progress: Called now and then with the number of tools that were inspected, and of all
    """
    every = list(tools)
    linted, refused = _build([tool for tool in every if tool.extension != SKILLS])
    refused += find_overlaps([tool for tool in every if tool.kind == "resource"])
    refused += injected.inspect_skills(
        [tool for tool in every if tool.extension == SKILLS], SUSPICION_RULES, SUSPICIONS
    )
    sources = [tool.definition.source for tool in linted]
    lines = {(source.file, tool.reference): source.line for source, tool in zip(sources, linted, strict=True)}
    comments = IgnoreComments()
    if use_comments:
        for file in {source.file for source in sources} - {None}:
            comments.read(str(file))
    inspection = Inspection()
    for finding in dict.fromkeys([*found, *refused, *_run_rules(linted, progress)]):
        tool_line = lines.get((finding.file, finding.tool or ""), finding.line)
        if can_be_ignored(finding) and is_chosen(finding, ignore):
            inspection.ignored.append(Ignored(finding, "settings"))
        elif use_comments and can_be_ignored(finding) and comments.ignore(finding, tool_line):
            inspection.ignored.append(Ignored(finding, "source"))
        else:
            inspection.findings.append(_raise_level(finding, error))
    for finding in comments.find_problems():
        if not is_chosen(finding, ignore):
            inspection.findings.append(_raise_level(finding, error))
    inspection.findings.sort(key=lambda item: (item.file or "", item.line or 0, item.tool or "", item.code))
    return inspection


def _build(tools: Iterable[Component]) -> tuple[list[LintedTool], list[Finding]]:
    linted, refused = [], []
    for tool in tools:
        try:
            linted.append(LintedTool(tool))
        except DefinitionError as error:
            refused.append(replace(error.finding, tool=error.finding.tool and tool.reference))
    return linted, refused


def _run_rules(tools: Sequence[LintedTool], progress: Callable[[int, int], None] | None) -> Iterator[Finding]:
    rules = load_rules().values()
    for position, tool in enumerate(tools):
        if progress is not None:
            progress(position, len(tools))
        for rule in rules:
            if rule.check is not None and tool.tool.kind in rule.kinds:
                for problem in rule.check(tool):
                    yield _locate(rule, tool, problem)
        tool.release_texts()
    for rule in rules:
        if rule.check_all is not None:
            for kind in rule.kinds:
                for tool, problem in rule.check_all([item for item in tools if item.tool.kind == kind]):
                    yield _locate(rule, tool, problem)


def _locate(rule: Rule, tool: LintedTool, problem: Problem) -> Finding:
    """Return the finding, with the line that it is about if the source shows it."""
    finding = rule.finding(tool, problem)
    if finding.file is None or finding.line is None or not (problem.parameter or problem.excerpt):
        return finding
    source = read_source(finding.file)
    span = source.spans.get(finding.line) if source is not None else None
    if source is None or span is None:
        return finding
    line = source.find(problem.excerpt, span) if problem.excerpt else None
    if line is None and problem.parameter:
        line = source.find_parameter(problem.parameter, span)
    return finding if line is None else replace(finding, line=line)


def _raise_level(finding: Finding, error: Sequence[Choice]) -> Finding:
    return replace(finding, level="error") if is_chosen(finding, error) else finding


# --- SARIF --------------------------------------------------------------------------------------------

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "advice": "note"}
_ROOT = "SRCROOT"


def to_sarif(
    findings: Sequence[Finding], *, version: str, ignored: Iterable[Ignored] = (), root: Path | None = None
) -> dict[str, Any]:
    """Return a SARIF log with one run. Files below `root` (the current folder) are relative to it."""
    folder = (Path.cwd() if root is None else root).resolve()
    suppressed = list(ignored)
    found = [*findings, *(item.finding for item in suppressed)]
    codes = dict.fromkeys([*load_rules(), *(finding.code for finding in found)])
    indexes = {code: index for index, code in enumerate(codes)}
    results = [_result(finding, indexes, folder) for finding in findings]
    for item in suppressed:
        kind = "inSource" if item.by == "source" else "external"
        results.append({**_result(item.finding, indexes, folder), "suppressions": [{"kind": kind}]})
    driver = {"name": "toolcrib", "semanticVersion": version, "rules": [_rule(code) for code in codes]}
    run = {
        "tool": {"driver": driver},
        "originalUriBaseIds": {_ROOT: {"uri": f"{folder.as_uri().rstrip('/')}/"}},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str) -> dict[str, Any]:
    rule = load_rules().get(code)
    if rule is None:
        return {"id": code, "shortDescription": {"text": _sentence(describe_other(code) or code)}}
    return {
        "id": code,
        "shortDescription": {"text": _sentence(rule.summary)},
        "fullDescription": {"text": rule.why},
        "help": {"text": _sentence(rule.fix)},
        "defaultConfiguration": {"level": _LEVELS[rule.level]},
    }


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _result(finding: Finding, indexes: Mapping[str, int], folder: Path) -> dict[str, Any]:
    text = f"{finding.message} (hint: {finding.hint})" if finding.hint else finding.message
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": indexes[finding.code],
        "level": _LEVELS[finding.level],
        "message": {"text": text},
        # Without the line, so that a finding keeps its identity when lines move.
        "partialFingerprints": {
            "toolcrib/v1": codec.digest([finding.code, finding.tool, finding.parameter, finding.message])
        },
    }
    location: dict[str, Any] = {}
    artifact = _artifact(finding, folder)
    if artifact is not None:
        location["physicalLocation"] = {"artifactLocation": artifact}
        if finding.line:
            location["physicalLocation"]["region"] = {"startLine": finding.line}
    if finding.tool is not None and finding.parameter is not None:
        name = f"{finding.tool}.{finding.parameter}"
        location["logicalLocations"] = [
            {"name": finding.parameter, "fullyQualifiedName": name, "kind": "parameter"}
        ]
    elif finding.tool is not None:
        location["logicalLocations"] = [{"name": finding.tool, "kind": "function"}]
    if location:
        result["locations"] = [location]
    return result


def _artifact(finding: Finding, folder: Path) -> dict[str, str] | None:
    """Return the file or the URL of a server; a command that was started is neither."""
    file = finding.file
    if file is None or "://" in file:
        return None if file is None else {"uri": file}
    if finding.line is None and not os.path.exists(file):
        return None
    path = Path(os.path.abspath(file))
    if path.is_relative_to(folder):
        return {"uri": quote(path.relative_to(folder).as_posix()), "uriBaseId": _ROOT}
    return {"uri": path.as_uri()}
