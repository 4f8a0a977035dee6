"""Tools in the form that a provider takes, a verdict on each, and the way back from the provider's calls.

Knows tools, forms and names. One tool that cannot be exported is refused by itself. Refuses to know the
network and the providers' packages.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from toolcrib.catalog.build import build_catalog, function_schema
from toolcrib.catalog.export import markdown, prompt
from toolcrib.catalog.export.calls import RawCall, ToolCall, find_calls, read_arguments
from toolcrib.catalog.export.formats import FORMS, Form, find_form
from toolcrib.catalog.export.openai import check_strict_limits
from toolcrib.catalog.export.restore import Restorer, map_names
from toolcrib.catalog.export.rewrite import Rewritten, rewrite
from toolcrib.catalog.export.verdict import Change, Journal, NotStrictError, RefusedError, Verdict, judge
from toolcrib.catalog.tokens import estimate
from toolcrib.content import Result
from toolcrib.definition import ToolDefinition
from toolcrib.errors import ConfigurationError, DefinitionError, ToolNotFoundError
from toolcrib.registry.registry import ToolRegistry
from toolcrib.sources.descriptors import write_descriptor
from toolcrib.tool import Tool
from toolcrib.validation import codec

Only = Literal["exact", "all"]


@dataclass(frozen=True)
class Export:
    """Tools for one provider. `tools` is ready for JSON, or text where the form is text.

    `names` leads from the names at the provider to the tools' own; `tokens` is about what each costs there.
    """

    to: str
    tools: Any
    verdicts: tuple[Verdict, ...]
    names: Mapping[str, str]
    tokens: Mapping[str, int]
    _restorers: Mapping[str, Restorer] = field(default_factory=dict, repr=False)

    @property
    def total_tokens(self) -> int:
        return sum(self.tokens.values())

    @property
    def refused(self) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.verdicts if verdict.status == "refused")

    def route(self, exported: str) -> str:
        """The tool behind a name at the provider. Raises ToolNotFoundError with a guess at what was meant."""
        if exported in self.names:
            return self.names[exported]
        close = difflib.get_close_matches(exported[:128], self.names, n=1)
        error = ToolNotFoundError(exported)
        error.args = (f"{error}; did you mean '{close[0]}'?" if close else str(error),)
        raise error

    def read_call(self, message: Any) -> list[ToolCall]:
        """The calls in a provider's message: an answer, a message, a part, a list; JSON, dicts or the
        package's objects.

        What an export had to change is undone. A call that cannot be made has its `error` set.
        """
        return [self._read(call) for call in find_calls(message)]

    def _read(self, call: RawCall) -> ToolCall:
        try:
            name = self.route(call.name)
        except ToolNotFoundError as error:
            return ToolCall(call.id, call.name, {}, call.name, str(error))
        try:
            arguments = read_arguments(call.arguments)
        except ValueError as error:
            return ToolCall(call.id, name, {}, call.name, str(error))
        restorer = self._restorers.get(call.name)
        return ToolCall(call.id, name, restorer.restore(arguments) if restorer else arguments, call.name)

    def result_for(self, call: ToolCall, result: Result) -> dict[str, Any]:
        """What the call came to, as the provider wants it told."""
        return FORMS[self.to].answer(call, result)

    def to_json(self) -> dict[str, Any]:
        return {
            "to": self.to,
            "tools": self.tools,
            "verdicts": [verdict.to_json() for verdict in self.verdicts],
            "names": dict(self.names),
            "tokens": {"total": self.total_tokens, "tools": dict(self.tokens)},
        }


@dataclass(frozen=True)
class _Item:
    """One exported tool, before it is known which of them are wanted."""

    verdict: Verdict
    value: Any = None
    restorer: Restorer | None = None
    description: str = ""


def export(
    tools: Iterable[Tool],
    to: str = "openai",
    *,
    strict: bool = True,
    only: Only = "all",
    title: str = "Tools",
) -> Export:
    """Tools in the form `to`, see FORMS. `strict=False` asks OpenAI for no strictness; `only="exact"` leaves
    out what would lose something; `title` is the heading of a page. Raises ConfigurationError."""
    form = find_form(to)
    if only not in get_args(Only):
        raise ConfigurationError(f"there is no choice {only!r}", key="only", hint="there are: exact, all")
    chosen = list(tools)
    labels = _label(chosen)
    names = map_names(label for label in labels if label is not None) if form.maps_names else {}
    items = [
        _export_one(tool, label, names.get(label or "", label), form, strict)
        for tool, label in zip(chosen, labels, strict=True)
    ]
    kept = [item for item in items if item.verdict.exported is not None and _is_wanted(item.verdict, only)]
    found = _collect(form, kept, title)
    if form.kind == "catalog":
        items, kept = _settle(items, kept, {schema["name"] for schema in found["functionSchema"]})
    return Export(
        to,
        found,
        tuple(item.verdict for item in items),
        {str(item.verdict.exported): item.verdict.name for item in kept},
        {str(item.verdict.exported): item.verdict.tokens for item in kept},
        {str(item.verdict.exported): item.restorer for item in kept if item.restorer is not None},
    )


def _settle(items: list[_Item], kept: list[_Item], there: set[str]) -> tuple[list[_Item], list[_Item]]:
    """The catalog has rules of its own for names and versions; what it leaves out is refused here."""
    left = [item for item in kept if item.verdict.exported not in there]
    reason = "the catalog leaves it out, for its name or its version"
    settled = [_refuse(item.verdict.name, reason) if item in left else item for item in items]
    return settled, [item for item in kept if item not in left]


def _label(tools: list[Tool]) -> list[str | None]:
    """What each tool is called by callers: its name, with the version where several share it; None for a
    repetition."""
    shared = Counter(tool.name for tool in tools)
    found: list[str | None] = []
    for tool in tools:
        label = f"{tool.name}@{tool.version}" if shared[tool.name] > 1 and tool.version else tool.name
        found.append(None if label in found else label)
    return found


def _is_wanted(verdict: Verdict, only: Only) -> bool:
    return only == "all" or verdict.status == "exact"


def _export_one(tool: Tool, label: str | None, exported: str | None, form: Form, strict: bool) -> _Item:
    if label is None or exported is None:
        return _refuse(tool.name, "another tool has this name already")
    if not label:
        return _refuse(label, "it has no name")
    try:
        definition = tool.definition
        if form.kind == "provider":
            return _export_for_provider(tool, definition, label, exported, form, strict)
        return _export_plainly(tool, definition, label, form)
    except DefinitionError as error:
        return _refuse(label, str(error))
    except RefusedError as error:
        return _refuse(label, str(error))
    except RecursionError:
        return _refuse(label, "its schema nests too deep")


def _refuse(name: str, reason: str) -> _Item:
    return _Item(Verdict(name, None, "refused", reason=reason))


def _export_for_provider(
    tool: Tool, definition: ToolDefinition, label: str, exported: str, form: Form, strict: bool
) -> _Item:
    is_closed = tool.built.arguments.binder.closed
    rewritten, is_strict, doubt = _rewrite(definition, form, is_closed, strict)
    if form.dress is None:
        raise RefusedError("its form has no dress")  # pragma: no cover
    description = "\n\n".join(text for text in (definition.standalone_description, *rewritten.words) if text)
    changes = rewritten.changes
    if exported != label:
        changes = (Change("", f"called {exported!r} there"), *changes)
    if doubt is not None:
        changes = (Change("", f"not strict: {doubt}"), *changes)
    value = form.dress(exported, description, rewritten.schema, is_strict)
    tokens = estimate(codec.write(value).decode())
    verdict = Verdict(label, exported, judge(changes), changes, tokens=tokens, strict=is_strict)
    return _Item(verdict, value, rewritten.restorer)


def _rewrite(
    definition: ToolDefinition, form: Form, is_closed: bool, strict: bool
) -> tuple[Rewritten, bool | None, str | None]:
    """The schema, whether it is strict, and why not where it should have been."""
    assert form.dialect is not None  # nosec B101  # all forms of providers have one
    if form.strict is None:
        return rewrite(definition.input_schema, form.dialect, is_closed=is_closed), None, None
    doubt = None
    if strict:
        try:
            found = rewrite(definition.input_schema, form.strict, is_closed=is_closed)
            check_strict_limits(found.schema)
            return found, True, None
        except (NotStrictError, RefusedError) as error:
            doubt = str(error)
    return rewrite(definition.input_schema, form.dialect, is_closed=is_closed), False, doubt


def _export_plainly(tool: Tool, definition: ToolDefinition, label: str, form: Form) -> _Item:
    journal = Journal()
    value: Any
    match form.kind:
        case "prompt":
            value = text = prompt.write_tool(tool, label, journal)
        case "markdown":
            value = text = markdown.write_tool(definition, journal)
        case "catalog":
            value, text = tool, codec.write(function_schema(tool)).decode()
        case "descriptor":
            value, text = tool, write_descriptor([tool], "json")
        case _:
            value = codec.decode(codec.encode(definition.to_wire()))
            text = codec.write(value).decode()
    changes = journal.close()
    verdict = Verdict(label, label, judge(changes), changes, tokens=estimate(text))
    return _Item(verdict, value, description=definition.description)


def _collect(form: Form, items: list[_Item], title: str) -> Any:
    values = [item.value for item in items]
    match form.kind:
        case "prompt":
            return "\n".join(values)
        case "markdown":
            entries = [(item.verdict.name, item.description, item.value) for item in items]
            return markdown.write_page(title, entries)
        case "catalog":
            return build_catalog(values or ToolRegistry())
        case "descriptor":
            return codec.decode(write_descriptor(values, "json"))
    return values
