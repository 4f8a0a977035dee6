"""Lint of skills: injected text in SKILL.md, and links that lead nowhere or out of the skill.

Models follow what a skill says, so the rules for injected text in tools hold for its text, too.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from toolcrib.catalog.lint.rule import LintedTool, Text, quote
from toolcrib.catalog.lint.table import SUSPICION_RULES, SUSPICIONS
from toolcrib.component import Component
from toolcrib.definition import ToolDefinition
from toolcrib.errors import Finding
from toolcrib.sources.skills import MAIN_FILE, Skill

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


def inspect_skills(tools: Iterable[Component]) -> Iterator[Finding]:
    """Yield what is wrong with the skills among resources."""
    for tool in tools:
        skill: Skill | None = getattr(tool, "skill", None)
        if skill is not None:
            yield from _find_injected(LintedSkill(skill, tool))
            yield from _find_dead_links(skill)


def _find_injected(linted: LintedSkill) -> Iterator[Finding]:
    for rule in SUSPICION_RULES:
        if rule.check is not None and rule.code in SUSPICIONS:
            for problem in rule.check(linted):
                finding = rule.finding(linted, problem)
                line = _line_of(linted.skill.text, problem.excerpt or "")
                message = finding.message.replace(" of '", " of skill '", 1)
                yield replace(finding, message=message, tool=None, line=line)


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
