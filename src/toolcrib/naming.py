"""What a tool is called in a registry: prefixed by its namespace, checked, shortened where it must be.

Knows names as they are written. Refuses to know which of them are taken.
"""

from __future__ import annotations

from toolcrib.definition import NameRule, shorten_name
from toolcrib.finding import Finding
from toolcrib.tool import Tool

_LONGEST = 512  # what is longer is not shortened but refused: it was never a name


def name_tool(tool: Tool, namespace: str | None, separator: str, rule: NameRule) -> Tool:
    """The tool under its name in a registry. `namespace` wins over the one the tool came with; "" is none."""
    options = tool.options
    for alias in options.aliases:
        rule.check(alias, tool.source)
    prefix = tool.namespace if namespace is None else namespace
    full = tool.long_name or tool.name
    if prefix and isinstance(full, str):
        full = f"{prefix}{separator}{full}"
        if options.aliases:
            tool = tool.with_options(aliases=[f"{prefix}{separator}{alias}" for alias in options.aliases])
    name = _fit(full, tool, rule)
    if name == tool.name and tool.namespace is None:
        return tool
    tool = tool.renamed(name, long_name=None if name == full else full)
    tool.namespace = None  # it is in the name now
    return tool


def _fit(name: object, tool: Tool, rule: NameRule) -> str:
    """`name`, or its short form where only its length is against the rule; `strict` shortens nothing."""
    if (
        isinstance(name, str)
        and rule.label != "strict"
        and rule.longest < len(name) <= _LONGEST
        and rule.pattern.fullmatch(name)
    ):
        name = shorten_name(name, rule.longest)
    return rule.check(name, tool.source)


def remark_shortened(tool: Tool) -> list[Finding]:
    """A name is never cut silently."""
    if tool.long_name is None:
        return []
    text = f"Tool name '{tool.long_name}' is too long and becomes '{tool.name}'; both can be called"
    where = tool.source
    return [Finding("shortened-name", "warning", text, tool=tool.name, file=where.file, line=where.line)]
