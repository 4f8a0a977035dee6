"""Lint rules: whether tools are fit for a model, and whether something was injected into them.

    from toolcrib.catalog.lint import inspect_tools

    for finding in inspect_tools(server.registry).findings:
        print(finding)

Rules have stable codes and only report; the caller decides what fails. `data/rules.toml` lists them. The
module `quality` is about definitions that a model understands; `injected` looks for injected text.
"""

from toolcrib.catalog.lint.rule import LintedTool, Problem, Rule
from toolcrib.catalog.lint.run import (
    OTHERS,
    RULES,
    SUSPICIONS,
    Choice,
    Ignored,
    Inspection,
    inspect_tools,
)

__all__ = [
    "OTHERS",
    "RULES",
    "SUSPICIONS",
    "Choice",
    "Ignored",
    "Inspection",
    "LintedTool",
    "Problem",
    "Rule",
    "inspect_tools",
]
