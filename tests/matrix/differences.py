"""Compares how a server answers under its own library and under toolcrib, and names each difference.

`DIFFERENCES` are the intended ones, as docs/coming-from.md lists them. Each has a function that removes it
from a pair of values, the library's and ours; a pair that stays unequal after all of them is a mistake.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.matrix.recording import Answer, Call, Recording, Request
from tests.matrix.versions import Version

Span = tuple[str, str] | None
"""The first and the last version of a library that shows a difference."""
MCP: Span = ("1.6", "2.3")
FASTMCP: Span = ("2.12", "4.1")


@dataclass(frozen=True)
class Difference:
    """An intended difference: its row in docs/coming-from.md, and the versions whose samples show it."""

    name: str
    row: str
    mcp: Span = MCP
    fastmcp: Span = FASTMCP
    is_of_functions: bool = False
    """Whether only functions of servers show it that have nothing of their author in between."""

    @property
    def seen_with(self) -> str:
        """The last cell of its row."""
        spans = [*_write_span("mcp", self.mcp, MCP), *_write_span("fastmcp", self.fastmcp, FASTMCP)]
        libraries = "all" if (self.mcp, self.fastmcp) == (MCP, FASTMCP) else ", ".join(spans)
        return libraries + (", plain functions" if self.is_of_functions else "")

    def is_in(self, version: Version) -> bool:
        between = self.mcp if version.library == "mcp" else self.fastmcp
        if between is None:
            return False
        first, last = map(_numbers, between)
        return first <= _numbers(version.number) <= last


def _write_span(library: str, span: Span, whole: Span) -> list[str]:
    if span is None or whole is None:
        return []
    if span == whole:
        return [f"`{library}`"]
    first, last = span
    return [f"`{library}` {first} and later" if last == whole[1] else f"`{library}` {first} to {last}"]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


_SINCE_1_10 = ("1.10", "2.3")
DIFFERENCES = [
    Difference("refusal", "arguments that do not fit the schema"),
    Difference("unknown-tool", "an unknown or hidden tool"),
    Difference("unknown-resource", "an unknown resource"),
    Difference("logger", "log messages"),
    Difference("question-mode", "questions", ("1.10", "1.22"), ("2.12", "2.13")),
    Difference("private-meta", "private metadata", None),
    Difference("annotations", "annotations", ("1.9", "2.3")),
    Difference("docstring", "sections of a docstring", is_of_functions=True),
    Difference("generated-title", "titles made of names", None, ("4.0", "4.1"), is_of_functions=True),
    Difference("full-stop", "a description of one sentence", is_of_functions=True),
    Difference("schema-form", "the form of schemas", is_of_functions=True),
    Difference("output-schema", "output schemas", _SINCE_1_10, is_of_functions=True),
    Difference("text-data", "structured content of a text or of nothing", _SINCE_1_10, is_of_functions=True),
    Difference(
        "added-data",
        "structured content of results without a type hint",
        fastmcp=None,
        is_of_functions=True,
    ),
    Difference("json-layout", "an object as text", fastmcp=None, is_of_functions=True),
    Difference("list-blocks", "a list as text", is_of_functions=True),
]

Pair = tuple[Any, Any]
_RESULT = "result"
_PRIVATE_META = ("fastmcp", "_fastmcp")
_HEADINGS = {"Args", "Parameters", "Raises", "Returns"}
_CONTEXT_LINE = re.compile(r"^\s*(?:ctx|context)\b.*:.*$", re.MULTILINE)
_OUR_REFUSAL = "Invalid arguments for tool "


@dataclass
class Comparison:
    found: set[str] = field(default_factory=set)
    """The intended differences that were seen."""
    mistakes: list[str] = field(default_factory=list)


def compare(
    own: Recording, ours: Recording, calls: Sequence[Call], requests: Sequence[Request] = ()
) -> Comparison:
    comparison = Comparison()
    names = [[tool["name"] for tool in recording.tools] for recording in (own, ours)]
    if names[0] != names[1]:
        comparison.mistakes.append(f"tools: {names[0]} under its library, {names[1]} under toolcrib")
    listed = {tool["name"]: tool for tool in ours.tools}
    for tool in own.tools:
        if tool["name"] in listed:
            _compare(f"the listing of {tool['name']}", (tool, listed[tool["name"]]), LISTING, comparison)
    for call, one, other in zip(calls, own.answers, ours.answers, strict=True):
        _compare(f"{call[0]}({json.dumps(call[1])})", (_plain(one), _plain(other)), CALLING, comparison)
    for request, one, other in zip(requests, own.features, ours.features, strict=True):
        _compare(f"{request[0]} {json.dumps(request[1])}", (_plain(one), _plain(other)), FEATURES, comparison)
    return comparison


def _plain(answer: Answer) -> dict[str, Any]:
    plain = asdict(answer)
    plain["reply"] = {key: answer.reply[key] for key in ("result", "error") if key in answer.reply}
    for question in plain["questions"]:
        if question.get("_meta") == {}:  # mcp 2.0
            del question["_meta"]
    return plain


def _compare(
    what: str, pair: Pair, removers: dict[str, Callable[[Any, Any], Pair]], into: Comparison
) -> None:
    for name, remove in removers.items():
        if pair[0] == pair[1]:
            return
        removed = remove(json.loads(json.dumps(pair[0])), json.loads(json.dumps(pair[1])))
        if removed != pair:
            into.found.add(name)
        pair = removed
    if pair[0] != pair[1]:
        lines = [f"{what}:", f"  its library: {json.dumps(pair[0])}", f"  toolcrib:    {json.dumps(pair[1])}"]
        into.mistakes.append("\n".join(lines))


# --- listing -----------------------------------------------------------------------------------------


def _remove_meta(item: Any) -> None:
    """Remove the metadata that fastmcp keeps for itself."""
    meta = item.pop("_meta", None) or {}
    kept = {key: value for key, value in meta.items() if key not in _PRIVATE_META}
    if kept:
        item["_meta"] = kept


def _remove_bookkeeping(own: Any, ours: Any) -> Pair:
    _remove_meta(own)
    for wrapper in (own.get("outputSchema", {}), ours.get("outputSchema", {})):
        if wrapper.pop("x-fastmcp-wrap-result", None):
            wrapper.pop("description", None)
    return own, ours


def _remove_generated_title(own: Any, ours: Any) -> Pair:
    if "title" not in ours and own.get("title") == own["name"].replace("_", " ").replace("-", " ").title():
        del own["title"]
    return own, ours


def _remove_full_stop(own: Any, ours: Any) -> Pair:
    if own.get("description") == f"{ours.get('description')}.":
        ours["description"] += "."
    return own, ours


def _remove_docstring_form(own: Any, ours: Any) -> Pair:
    """Remove what sections of a docstring become: part of the description, or descriptions of parameters.
    Each word that the library lists must still be there, except for those about its Context."""
    mine, yours = own.get("description") or "", ours.get("description") or ""
    lost = (
        _words_of(_CONTEXT_LINE.sub("", mine)) - _words_of(json.dumps(ours, ensure_ascii=False)) - _HEADINGS
    )
    if mine != yours and _first_words(mine) == _first_words(yours) and not lost:
        own["description"] = yours
    for key in ("inputSchema", "outputSchema"):
        if own.get(key) != ours.get(key):
            _adopt_descriptions(own.get(key), ours.get(key))
    return own, ours


def _words_of(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.replace("\\n", " ")))


def _first_words(text: str) -> str:
    """Return the first paragraph, without the full stop."""
    return " ".join(re.split(r"\n\s*\n|\n\s*(?:Args|Parameters|Returns)\b", text.strip())[0].split()).rstrip(
        "."
    )


def _adopt_descriptions(mine: Any, yours: Any) -> None:
    """Take over the descriptions of ours that the other schema lacks, or has with other white space."""
    if not isinstance(mine, dict) or not isinstance(yours, dict):
        return
    words = yours.get("description")
    if isinstance(words, str) and _first_words(mine.get("description", words)) == _first_words(words):
        mine["description"] = words
    for name, item in yours.items():
        _adopt_descriptions(mine.get(name), item)


def _remove_annotations(own: Any, ours: Any) -> Pair:
    notes = own.get("annotations") or {}
    if notes.get("readOnlyHint") and "destructiveHint" not in ours.get("annotations", {}):
        notes.pop("destructiveHint", None)
    if notes.get("title") is not None and notes["title"] == ours.get("title"):
        own["title"] = notes.pop("title")
    if not notes:
        own.pop("annotations", None)
    return own, ours


def _simplify_schemas(own: Any, ours: Any) -> Pair:
    for key, has_defaults in (("inputSchema", True), ("outputSchema", False)):
        if key in own and key in ours and own[key] != ours[key]:
            for side in (own, ours):
                side[key] = _simple(side[key], side[key], has_defaults)
    return own, ours


def _simple(schema: Any, root: Any, has_defaults: bool) -> Any:
    """Return a schema without titles, defaults of results and nulls that may be left out, with its references
    resolved."""
    if isinstance(schema, list):
        return [_simple(item, root, has_defaults) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        target = root
        for step in schema["$ref"].split("/")[1:]:
            target = target[step]
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    simple = {
        key: {name: _simple(item, root, has_defaults) for name, item in value.items()}
        if key == "properties"
        else _simple(value, root, has_defaults)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
        and key != "$defs"
        and not (key == "default" and (value is None or not has_defaults))
    }
    if simple.get("additionalProperties") in (True, False):
        del simple["additionalProperties"]
    if simple.get("properties") == {}:
        del simple["properties"]
    options = [item for item in simple.get("anyOf", ()) if item != {"type": "null"}]
    if {"type": "number"} in options:  # every integer is a number
        options = [item for item in options if item != {"type": "integer"}]
        simple["anyOf"] = options
    if len(options) == 1 and isinstance(simple.get("anyOf"), list):
        simple = {**{key: value for key, value in simple.items() if key != "anyOf"}, **options[0]}
    return simple


def _remove_output_schema(own: Any, ours: Any) -> Pair:
    """Remove a schema of results that only one side has."""
    if ("outputSchema" in own) != ("outputSchema" in ours):
        own.pop("outputSchema", None)
        ours.pop("outputSchema", None)
    return own, ours


LISTING: dict[str, Callable[[Any, Any], Pair]] = {
    "private-meta": _remove_bookkeeping,
    "generated-title": _remove_generated_title,
    "full-stop": _remove_full_stop,
    "annotations": _remove_annotations,
    "schema-form": _simplify_schemas,
    "docstring": _remove_docstring_form,
    "output-schema": _remove_output_schema,
}


# --- calling -----------------------------------------------------------------------------------------


def _result(side: Any) -> Any:
    return side["reply"].get("result") or {}


def _texts(side: Any) -> list[str]:
    return [block.get("text", "") for block in _result(side).get("content", ())]


def _is_error(side: Any) -> bool:
    return "error" in side["reply"] or bool(_result(side).get("isError"))


def _remove_private_meta(own: Any, ours: Any) -> Pair:
    _remove_meta(_result(own))
    return own, ours


def _remove_unknown_tool(own: Any, ours: Any) -> Pair:
    """An error of the protocol for a tool that is not listed, where libraries return a failed result."""
    error = ours["reply"].get("error") or {}
    if error.get("code") == -32602 and error["message"].startswith("Unknown tool") and _is_error(own):
        own = ours
    return own, ours


def _remove_refusal(own: Any, ours: Any) -> Pair:
    """Our words about arguments that do not match the schema, and no call."""
    text = "".join(_texts(ours))
    if text.startswith(_OUR_REFUSAL) and _result(ours)["isError"] and _is_error(own):
        own = ours
    return own, ours


def _remove_text_data(own: Any, ours: Any) -> Pair:
    """`{"result": text}` beside the same text, or null beside nothing."""
    data = _result(own).get("structuredContent")
    if "structuredContent" not in _result(ours) and isinstance(data, dict) and data.keys() == {_RESULT}:
        value = data[_RESULT]
        if value is None or [value] == _texts(own):
            del own["reply"]["result"]["structuredContent"]
    return own, ours


def _remove_added_data(own: Any, ours: Any) -> Pair:
    if "structuredContent" in _result(ours) and "structuredContent" not in _result(own):
        del ours["reply"]["result"]["structuredContent"]
    return own, ours


def _remove_layout(own: Any, ours: Any) -> Pair:
    for mine, yours in zip(_result(own).get("content", ()), _result(ours).get("content", ()), strict=False):
        if mine.get("type") == yours.get("type") == "text" and _data(mine["text"]) == _data(yours["text"]):
            mine["text"] = yours["text"]
    return own, ours


def _data(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _remove_list(own: Any, ours: Any) -> Pair:
    texts = _texts(ours)
    items = _data(texts[0]) if len(texts) == 1 else None
    if isinstance(items, list) and [_data(text) for text in _texts(own)] == items:
        own["reply"]["result"]["content"] = ours["reply"]["result"]["content"]
    return own, ours


def _remove_logger(own: Any, ours: Any) -> Pair:
    for line in ours["logs"]:
        line.pop("logger", None)
    return own, ours


def _remove_mode(own: Any, ours: Any) -> Pair:
    for question in ours["questions"]:
        if question.get("mode") == "form":
            del question["mode"]
    for question in own["questions"]:
        question.pop("mode", None)
    return own, ours


CALLING: dict[str, Callable[[Any, Any], Pair]] = {
    "private-meta": _remove_private_meta,
    "unknown-tool": _remove_unknown_tool,
    "refusal": _remove_refusal,
    "text-data": _remove_text_data,
    "added-data": _remove_added_data,
    "json-layout": _remove_layout,
    "list-blocks": _remove_list,
    "logger": _remove_logger,
    "question-mode": _remove_mode,
}


# --- resources and prompts ---------------------------------------------------------------------------


def _remove_unknown_resource(own: Any, ours: Any) -> Pair:
    """The code and the words for a resource that does not exist, which depend on the library."""
    error = ours["reply"].get("error") or {}
    if error.get("code") == -32002 and error["message"].startswith("Resource not found") and _is_error(own):
        own = ours
    return own, ours


FEATURES: dict[str, Callable[[Any, Any], Pair]] = {
    "private-meta": _remove_private_meta,
    "unknown-resource": _remove_unknown_resource,
}
