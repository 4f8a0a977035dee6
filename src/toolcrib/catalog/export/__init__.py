"""The same tools in the form that each model provider takes, and the way back from its calls.

    export(tools, to="anthropic")       tools, a verdict on each, names and what they cost
    Export.read_call(message)           the calls in a provider's message, as the tools take them
    Export.result_for(call, result)     what a call came to, as the provider wants it told

`exporting` puts it together. `references`, `simplifying`, `merging`, `rewriting` and `subset` are pure
functions on schemas; `dialects` says what each provider takes; `names` and `restoring` know the way back;
`calls` and `results` read and write messages; a module per provider knows its spelling. Nothing here imports
a provider's package.
"""

from toolcrib.catalog.export.calls import ToolCall
from toolcrib.catalog.export.export import Export, export
from toolcrib.catalog.export.formats import FORMS, Form, find_form
from toolcrib.catalog.export.verdict import Change, Verdict

__all__ = ["FORMS", "Change", "Export", "Form", "ToolCall", "Verdict", "export", "find_form"]
