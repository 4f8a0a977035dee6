"""Whether tools are fit to be shown to a model: rules with stable codes, over one tool or over all.

    from toolcrib.catalog.lint import inspect_tools

    for finding in inspect_tools(server.registry).findings:
        print(finding)

`names`, `words`, `parameters`, `contradictions`, `risk` and `cost` ask whether a definition is good;
`likeness` whether it can be told from others; `planted`, `credentials`, `outward` and `disguise` whether
somebody put into it what does not belong there. `table` lists them all. Nothing here fails anything: whoever
asks decides.
"""

from toolcrib.catalog.lint.ignore import Choice
from toolcrib.catalog.lint.parameters import list_choices
from toolcrib.catalog.lint.rule import Remark, Rule, Subject
from toolcrib.catalog.lint.run import Ignored, Inspection, advise, inspect_tools
from toolcrib.catalog.lint.table import OTHERS, RULES, SUSPICIONS, render_table

__all__ = [
    "OTHERS",
    "RULES",
    "SUSPICIONS",
    "Choice",
    "Ignored",
    "Inspection",
    "Remark",
    "Rule",
    "Subject",
    "advise",
    "inspect_tools",
    "list_choices",
    "render_table",
]
