"""One tool of an `mcp` or `fastmcp` server, in a form common to both libraries.

Findings about an adopted server as a whole, each reported once per server.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolcrib.content import Result
from toolcrib.definition import MAX_TIMEOUT_S, OptionFields
from toolcrib.errors import Finding
from toolcrib.schema.parameters import docstring_of


def left_out(server: str, parts: Mapping[str, int]) -> Iterator[Finding]:
    """Parts of a server that are no tools."""
    counts = [f"{number} {part}{'s' if number > 1 else ''}" for part, number in parts.items() if number]
    if counts:
        words = f"Server '{server}' has {_join(counts)}, which toolcrib does not serve: it serves tools only"
        yield Finding("foreign-parts", "advice", words)


def _join(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


_KEY = "result"
_MARK = "x-fastmcp-wrap-result"

Run = Callable[[dict[str, Any], Any], Awaitable[Any]]
"""Their own way to run a tool: JSON arguments and a Context in, any of their results out."""


@dataclass(slots=True, eq=False)
class Offer:
    """One tool. `server` is whose Context it gets. `function` is the function behind it, None where their own
    `run` is the only way in. `contexts` are its parameters that get a Context, `injected` those that
    something else of theirs fills. `written` is the function to point at. `guarded`: it has an authorization
    check. `is_strict`: their server takes no text for a number."""

    tool: Any
    server: Any
    run: Run
    function: Callable[..., Any] | None = None
    contexts: tuple[str, ...] = ()
    injected: frozenset[str] = frozenset()
    written: Any = None
    returns: Any = inspect.Signature.empty
    enabled: bool = True
    guarded: bool = False
    runs_inline: bool = False
    is_strict: bool = False
    findings: list[Finding] = field(default_factory=list)

    @property
    def name(self) -> str:
        name: str = self.tool.name
        return name

    @property
    def input_schema(self) -> Mapping[str, Any]:
        schema: Mapping[str, Any] = self.tool.parameters
        return schema

    @property
    def is_wrapped(self) -> bool:
        """Whether they put the result below a key, because it is no object."""
        schema = getattr(self.tool, "output_schema", None) or {}
        return bool(
            schema.get(_MARK) or getattr(getattr(self.tool, "fn_metadata", None), "wrap_output", False)
        )

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """What they say of results. The key above one that is no object belongs to older revisions of the
        protocol, and is put there when a client of one asks."""
        schema = getattr(self.tool, "output_schema", None)
        if schema is None or not self.is_wrapped:
            return schema
        shared = {key: value for key, value in schema.items() if key in ("$defs", "definitions")}
        return {**schema["properties"][_KEY], **shared}

    def unwrap(self, value: Any) -> Any:
        """A result of theirs without the key above it."""
        data = value.structured_content if isinstance(value, Result) else None
        if self.is_wrapped and isinstance(data, dict) and data.keys() == {_KEY}:  # not the data of an error
            value.structured_content = data[_KEY]
        return value

    @property
    def is_described(self) -> bool:
        """Whether somebody wrote a description beside the docstring."""
        said = getattr(self.tool, "description", None)
        words = _words(docstring_of(self.function)) if self.function is not None else ""
        return bool(said) and _words(said) not in words

    def options(self) -> OptionFields:
        """What the tool says of itself, as options of ours; words and schemas are for others to choose."""
        tool = self.tool
        notes, said = _dump(getattr(tool, "annotations", None)), getattr(tool, "meta", None) or {}
        options: OptionFields = {
            "name": tool.name,
            "title": getattr(tool, "title", None) or notes.get("title"),
            "read_only": notes.get("readOnlyHint"),
            "destructive": notes.get("destructiveHint"),
            "idempotent": notes.get("idempotentHint"),
            "open_world": notes.get("openWorldHint"),
            "tags": sorted(getattr(tool, "tags", None) or ()),
            "version": getattr(tool, "version", None),
            "icons": [_dump(icon) for icon in getattr(tool, "icons", None) or ()],
            "meta": {key: value for key, value in said.items() if key != "fastmcp"},  # its own bookkeeping
            "enabled": self.enabled and not self.guarded,
        }
        if options["read_only"] and options["destructive"]:
            options["destructive"] = None  # says nothing about a tool that only reads
        if self.runs_inline:
            options["run"] = "inline"
        if self.is_strict:
            options["repair"] = False
        timeout_s = getattr(tool, "timeout", None)
        if timeout_s is not None:
            options["timeout_s"] = min(timeout_s, MAX_TIMEOUT_S)
        return options


def _dump(model: Any) -> dict[str, Any]:
    if model is None or isinstance(model, dict):
        return model or {}
    dumped: dict[str, Any] = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dumped


def _words(text: str | None) -> str:
    return " ".join((text or "").split())
