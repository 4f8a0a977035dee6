"""The results of a tool: whatever its handler returns becomes one Result.

Text is text, media are content blocks, an MCP-shaped dict passes as it is. Anything else is structured data
that has to fit the output schema, with its JSON as text. Text that has an output schema is data as well.

A tool that runs in a worker process sends its result as JSON, because the server must not unpickle what a
worker sends: `ResultConverter` runs in the worker, and `ToolResults.receive` reads and checks its output in
the server.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from pathlib import Path
from traceback import walk_tb
from typing import Any

from toolcrib.content import BUILT_IN, MEDIA, Block, Result, text_block
from toolcrib.errors import InvalidResultError
from toolcrib.options import NO_OPTIONS
from toolcrib.schema.function import build_function
from toolcrib.schema.parameters import HandlerInfo
from toolcrib.schema.pydantic_types import to_plain
from toolcrib.schema.shapes import Convert
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import Schema
from toolcrib.validation.validator import Validator

MAX_RESULT_BYTES = 16 * 1024 * 1024
_MCP_KEYS = frozenset({"content", "structuredContent", "isError", "_meta"})
_BLOCK_FIELDS: dict[str, dict[str, type]] = {
    "text": {"text": str},
    "image": {"data": str, "mimeType": str},
    "audio": {"data": str, "mimeType": str},
    "resource": {"resource": dict},
    "resource_link": {"uri": str, "name": str},
}
_PLAIN = frozenset({bool, float, int})
_FAST_INTEGER = 1 << 64
_PACKAGE_FOLDER = str(Path(__file__).parent.parent)

_WAY_OUT = "ask for less at a time; the tool can return a part per call, or a Link to the whole"


class ToolResults:
    """Checks the results of one tool and makes each a Result. The validator is compiled at first use."""

    kind = "Tool"
    __slots__ = ("_validator", "dump", "max_bytes", "name", "schema", "trusted")

    def __init__(self, name: str, schema: Schema | None, dump: Convert | None, *, trusted: bool) -> None:
        self.name = name
        self.schema = schema
        self.dump = dump
        self.trusted = trusted
        self.max_bytes = MAX_RESULT_BYTES
        self._validator: Validator | None = None

    @property
    def validator(self) -> Validator | None:
        if self._validator is None and self.schema is not None:
            self._validator = Validator(self.schema, trusted=self.trusted)
        return self._validator

    def finish(self, value: Any) -> Result:
        """Return the Result of a value, or raise InvalidResultError where it cannot be sent.

        An exception of the author's own code (a generator, a serializer) is passed on as it is.
        """
        kind = type(value)
        if kind not in BUILT_IN and isinstance(value, Iterator):
            value = list(islice(value, self._max_items + 1))
            self._check_count(len(value))
        try:
            return self._structured(value) if kind in _PLAIN else self._finish(value)
        except codec.NotFiniteError as error:
            raise self._error(f"{error.value} at '{error.path or 'result'}' is not a JSON number") from None
        except (TypeError, OverflowError, RecursionError, UnicodeEncodeError) as error:
            if not _is_raised_here(error):
                raise
            raise self._error(_explain(error)) from None

    async def gather(self, values: AsyncIterator[Any]) -> list[Any]:
        """Return the items of an async generator."""
        items: list[Any] = []
        async for item in values:
            items.append(item)
            self._check_count(len(items))
        return items

    def receive(self, draft: Any) -> Result:
        """Return the Result of what a ResultConverter made in another process.

        It is checked like any other value, and not converted again. Raise InvalidResultError.
        """
        try:
            return self._open_draft(draft)
        except (TypeError, OverflowError, RecursionError) as error:
            raise self._error(_explain(error)) from None

    @property
    def _max_items(self) -> int:
        return self.max_bytes // 2  # no item is shorter than a digit and a comma

    def _check_count(self, count: int) -> None:
        if count > self._max_items:
            raise self._error(f"it has more than {self._max_items} items ({_WAY_OUT})")

    def _finish(self, value: Any) -> Result:
        if value is None and self.schema is None:
            return Result()
        if isinstance(value, str) and self.schema is None:
            return Result([text_block(self._check_text(str.__str__(value)))])
        if isinstance(value, Result):
            return self._check_whole(value)
        if type(value) is dict and _is_mcp_shaped(value):
            return self._from_mcp(value)
        if isinstance(value, MEDIA):
            return self._check_whole(Result([value.to_block()]))
        if isinstance(value, list | tuple) and any(isinstance(item, MEDIA) for item in value):
            return self._check_whole(Result([_block_of(item) for item in value]))
        data = self._to_json_data(value)
        if isinstance(value, str) and type(data) is str:
            self._check_schema(data)
            return Result([text_block(self._check_text(data))], data, False, True)
        return self._structured(data)

    def _open_draft(self, draft: Any) -> Result:
        match draft:
            case ["text", str(text)] if self.schema is None:
                return Result([text_block(self._check_text(text))])
            case ["data", data]:
                return self._structured(data)
            case ["result", dict(whole)]:
                return self._check_whole(_read_mcp(whole), to_plain)
        raise self._error("its process sent no result")

    def _structured(self, data: Any) -> Result:
        if type(data) is int and -_FAST_INTEGER < data < _FAST_INTEGER:
            text = str(data)
        else:
            encoded = codec.encode(data)
            self._check_size(len(encoded))
            text = encoded.decode()
        self._check_schema(data)
        return Result([{"type": "text", "text": text}], data, False, True)

    def _to_json_data(self, value: Any) -> Any:
        return to_plain(value if self.dump is None else self.dump(value))

    def _check_schema(self, data: Any) -> None:
        validator = self._validator or self.validator
        if validator is None or (validator.is_surely_valid is not None and validator.is_surely_valid(data)):
            return
        if not validator.is_heavy and validator.is_valid(data):
            return
        excess = validator.find_excess(data)
        if excess is not None:
            raise self._error(f"it is {excess}")
        if not validator.is_valid(data):
            problems = [f"{item.field or 'result'}: {item.expected}" for item in validator.problems(data)[:5]]
            details = f" ({'; '.join(problems)})" if problems else ""
            raise self._error(f"it does not fit the output schema{details}")

    def fits(self, data: Any) -> bool:
        """Return whether structured data fits the output schema."""
        try:
            self._check_schema(data)
        except InvalidResultError:
            return False
        return True

    def _check_text(self, text: str) -> str:
        self._check_size(len(text) if text.isascii() or len(text) > self.max_bytes else len(text.encode()))
        return text

    def _check_size(self, size: int) -> None:
        if size > self.max_bytes:
            raise self._error(f"it is larger than {self.max_bytes // 1024} KiB ({_WAY_OUT})")

    def _check_whole(self, result: Result, convert: Convert | None = None) -> Result:
        """Check a Result made by the author like any other; an error needs no structured data."""
        content, meta = to_plain(result.content), to_plain(result.meta)
        if not isinstance(content, list) or not all(is_block(block) for block in content):
            raise self._error("its content is not a list of blocks")
        if not isinstance(meta, dict | None):
            raise self._error("its meta is not a dict")
        convert = convert or self._to_json_data
        structured = convert(result.structured_content) if result.is_structured else None
        if self.schema is not None and not result.is_error:
            if not result.is_structured:
                raise self._error("it has no structured data, which its output schema requires")
            self._check_schema(structured)
        checked = Result(content, structured, bool(result.is_error), bool(result.is_structured), meta)
        self._check_size(len(codec.encode(checked.to_json())))
        return checked

    def _keep(self, result: Result) -> Result:
        """Return a Result whose content is in the form of the protocol already."""
        self._check_size(len(codec.encode(result.content)))
        return result

    def _from_mcp(self, value: dict[str, Any]) -> Result:
        made = _read_mcp(value)
        needs_data = not value.keys() <= _MCP_KEYS or (self.schema is not None and not made.is_error)
        if needs_data and not made.is_structured:
            made.structured_content, made.is_structured = value, True
        return self._check_whole(made)

    def _error(self, reason: str) -> InvalidResultError:
        return InvalidResultError(
            f"{self.kind} '{self.name}' returned a result that cannot be sent: {reason}"
        )


def _is_raised_here(error: Exception) -> bool:
    """Whether an error comes from code of this library, so that its message may be shown."""
    *_, (frame, _) = walk_tb(error.__traceback__)
    return frame.f_code.co_filename.startswith(_PACKAGE_FOLDER)


def _explain(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "it has text that is not valid Unicode"
    if isinstance(error, RecursionError):
        return "it is nested too deeply or refers to itself"
    return str(error)


def _block_of(item: Any) -> Block:
    if isinstance(item, MEDIA):
        return item.to_block()
    return text_block(item if isinstance(item, str) else codec.encode_text(to_plain(item)))


def _is_mcp_shaped(value: dict[Any, Any]) -> bool:
    """Whether this is a result of MCP; with other keys in it, only if it has `isError`."""
    blocks = value.get("content")
    return (
        isinstance(blocks, list)
        and ("isError" in value or value.keys() <= _MCP_KEYS)
        and all(is_block(block) for block in blocks)
        and isinstance(value.get("isError", False), bool)
        and isinstance(value.get("_meta"), dict | None)
    )


def _read_mcp(value: dict[str, Any]) -> Result:
    """Return an unchecked Result with the parts of a result object of MCP."""
    content: Any = value.get("content")
    is_error, is_structured = value.get("isError") is True, "structuredContent" in value
    return Result(content, value.get("structuredContent"), is_error, is_structured, value.get("_meta"))


def is_block(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    kind = block.get("type")
    fields = _BLOCK_FIELDS.get(kind) if isinstance(kind, str) else None
    return fields is not None and all(isinstance(block.get(name), type_) for name, type_ in fields.items())


# --- results of worker processes ---------------------------------------------------------------------

_DERIVED: list[Block] = []
"""Stands for the text of structured data, which the server makes again."""


class ResultConverter:
    """Makes JSON of the results of a tool, in the worker that runs it. Sent to the worker as a pickle.

    `function` is the one whose hints declare the results, None where nothing is declared.
    """

    def __init__(self, name: str, function: Callable[..., Any] | None, *, has_schema: bool) -> None:
        self._name = name
        self._function = function
        self._has_schema = has_schema

    @functools.cached_property
    def _results(self) -> _DraftResults:
        dump = None
        if self._function is not None:
            dump = build_function(HandlerInfo(self._function), self._name, NO_OPTIONS).dump
        return _DraftResults(self._name, {} if self._has_schema else None, dump, trusted=True)

    def __call__(self, value: Any) -> bytes:
        """Return the JSON of a result, or raise InvalidResultError where it cannot be sent."""
        result = self._results.finish(value)
        if result.content is _DERIVED:
            return b'["data",%s]' % result.structured_content
        if isinstance(value, str) and not self._has_schema:
            return codec.encode(["text", result.text])
        return codec.encode(["result", result.to_json()])


class _DraftResults(ToolResults):
    """Makes Results without checking them against the schema, which the server does."""

    __slots__ = ()

    @property
    def validator(self) -> Validator | None:
        return None

    def _structured(self, data: Any) -> Result:
        encoded = codec.encode(data)
        self._check_size(len(encoded))
        return Result(_DERIVED, encoded, False, True)
