"""Findings in what no rule sees: the code of tools, and the files of skills.

In code these are attributes that a Context does not have, and questions that are not awaited. Models follow
what a skill says, so the rules for injected text in tools hold for its text, too; links lead to its files.
"""

from __future__ import annotations

import ast
import inspect
import posixpath
import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from types import CodeType
from typing import Any
from urllib.parse import unquote

from toolcrib.catalog.lint.rule import LintedTool, Rule, Text, quote
from toolcrib.component import Component
from toolcrib.context import find_attribute
from toolcrib.definition import ToolDefinition
from toolcrib.errors import Finding
from toolcrib.sources.skills import MAIN_FILE, Skill

# --- code ---------------------------------------------------------------------------------------------


def inspect_code(tool: Component) -> Iterator[Finding]:
    yield from _find_context_misuse(tool)
    yield from _find_forgotten_awaits(tool)


def _find_context_misuse(tool: Component) -> Iterator[Finding]:
    """Report attributes that the code of a function uses and a Context does not have: `ctx.elicit`."""
    import dis  # delayed: no other command needs it

    name, code = tool.arguments.context, getattr(tool.info.function, "__code__", None)
    waiting = [] if code is None or name not in code.co_varnames else [code]
    while waiting:
        code = waiting.pop()
        inner = [item for item in code.co_consts if isinstance(item, CodeType)]
        waiting += [item for item in inner if name in item.co_freevars]
        line, loaded = code.co_firstlineno, None
        for step in dis.get_instructions(code):
            line = getattr(step.positions, "lineno", None) or line
            if loaded == name and step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                hint = find_attribute(str(step.argval))
                if hint is not None:
                    message = f"The code uses {name}.{step.argval}, which a Context does not have"
                    place = (code.co_filename, line, hint)
                    yield Finding("unknown-context", "warning", message, tool.name, name, *place)
            loaded = step.argval if step.opname.startswith(("LOAD_FAST", "LOAD_DEREF")) else None


_ASKING = ("ask", "ask_all", "ask_url", "roots", "sample")
_USES = (ast.Assert, ast.Attribute, ast.BinOp, ast.Compare, ast.Expr, ast.For, ast.FormattedValue, ast.If)
_USES_OF_ANSWERS = (*_USES, ast.Subscript, ast.UnaryOp, ast.While)
"""Where an answer can stand, and a question that still has to be awaited cannot."""


def _find_forgotten_awaits(tool: Component) -> Iterator[Finding]:
    """Report questions of an async function that are used like their answers: `ctx.ask` without `await`."""
    name = tool.arguments.context
    if name is None or not tool.is_async:
        return
    try:
        lines, first = inspect.getsourcelines(tool.info.function)
        pending: list[ast.AST] = [ast.parse(textwrap.dedent("".join(lines))).body[0]]
    except (OSError, TypeError, SyntaxError):
        return
    parents: dict[ast.AST, ast.AST] = {}
    while pending:
        for child in ast.iter_child_nodes(node := pending.pop()):
            if not isinstance(child, ast.FunctionDef | ast.Lambda):  # these may run on a thread
                parents[child] = node
                pending.append(child)
    for node in parents:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=found), attr=attr)) if found == name:
                if attr in _ASKING and _is_forgotten(node, parents):
                    message = f"The code uses the answer of {name}.{attr} without awaiting it"
                    place = (tool.source.file, first + node.lineno - 1, f"write `await {name}.{attr}(...)`")
                    yield Finding("not-awaited", "error", message, tool.name, name, *place)


def _is_forgotten(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether a question, or every use of the variable that holds it, is used as its answer."""
    is_question, parent = isinstance(node, ast.Call), parents[node]
    while isinstance(parent, ast.BoolOp | ast.IfExp):
        is_last = node is not parent.test if isinstance(parent, ast.IfExp) else node is parent.values[-1]
        if not is_last:
            return True  # whether it is true is asked of the answer
        node, parent = parent, parents[parent]
    match parent:
        case ast.Assign(targets=[ast.Name(id=variable)]) | ast.AnnAssign(target=ast.Name(id=variable)):
            names = [item for item in parents if isinstance(item, ast.Name) and item.id == variable]
            uses = [item for item in names if isinstance(item.ctx, ast.Load)]
            return is_question and all(_is_forgotten(item, parents) for item in uses)
    return isinstance(parent, _USES_OF_ANSWERS)


# --- skills -------------------------------------------------------------------------------------------

_LINK = re.compile(r"\[[^\[\]\n]{0,500}\]\(\s*<?([^()<>\s]{1,1000})")
_HAS_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//|#")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


class LintedSkill(LintedTool):
    """A skill as the rules for injected text see it: a name, a description, and the text of SKILL.md."""

    def __init__(self, skill: Skill, tool: Component) -> None:
        super().__init__(tool, ToolDefinition(skill.name, skill.description, source=skill.source))
        self.skill = skill

    @cached_property
    def texts(self) -> list[Text]:
        return [
            Text("the name", self.skill.name, "name"),
            *_read_values(self.skill.frontmatter),
            Text("the text", self.skill.text[_end_of_frontmatter(self.skill.text) :]),
        ]


def _read_values(data: Any, where: str = "the frontmatter") -> Iterator[Text]:
    if isinstance(data, str):
        yield Text(where, data)
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from _read_values(value, f"the {key}")
    elif isinstance(data, list):
        for item in data:
            yield from _read_values(item, where)


def _end_of_frontmatter(text: str) -> int:
    end = re.compile(r"^---[ \t]*\r?$", re.MULTILINE).search(text, 4)
    return 0 if end is None else end.end()


def inspect_skills(
    tools: Iterable[Component], rules: Iterable[Rule], codes: Collection[str]
) -> Iterator[Finding]:
    """Yield the problems of skills among resources: findings of these rules, and dead links."""
    for tool in tools:
        skill: Skill | None = getattr(tool, "skill", None)
        if skill is not None:
            linted = LintedSkill(skill, tool)
            for rule in rules:
                for problem in rule.check(linted) if rule.check is not None and rule.code in codes else ():
                    finding = rule.finding(linted, problem)
                    line = _line_of(skill.text, problem.excerpt or "")
                    message = finding.message.replace(" of '", " of skill '", 1)
                    yield replace(finding, message=message, tool=None, line=line)
            yield from _find_dead_links(skill)


def _line_of(text: str, excerpt: str) -> int:
    """Return the line in which an excerpt begins, ignoring case and blanks; else the first."""
    wanted = " ".join(excerpt.split()).casefold()[:24]
    for number, line in enumerate(text.split("\n"), 1):
        if wanted and wanted in " ".join(line.split()).casefold():
            return number
    return 1


def _find_dead_links(skill: Skill) -> Iterator[Finding]:
    """Yield a finding for each relative link in SKILL.md that is not to a file or folder of the skill."""
    shown = _CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), skill.text)
    folders = {posixpath.dirname(path) for path in skill.paths}
    for found in _LINK.finditer(shown):
        link = found[1]
        if _HAS_SCHEME.match(link):
            continue
        path = posixpath.normpath(unquote(re.split(r"[#?]", link)[0]))
        line = shown.count("\n", 0, found.start()) + 1
        if path.startswith(("../", "/")) or path == "..":
            text = (
                f"{MAIN_FILE} of skill '{skill.name}' links to {quote(link)}, which is outside of the skill"
            )
            hint = "move the file into the skill: clients get nothing else"
            yield Finding("outside-link", "warning", text, None, None, skill.source.file, line, hint)
        elif path not in skill.paths and path not in folders and path != ".":
            text = f"{MAIN_FILE} of skill '{skill.name}' links to {quote(link)}, which does not exist"
            yield Finding("dead-link", "warning", text, None, None, skill.source.file, line, "fix the link")
