"""Results of worker processes, converted to data where the tool runs.

The server must not unpickle what a worker sends, so a worker sends JSON: `ResultConverter` runs there and
makes a draft of the result, `ResultPlan.receive` reads the draft in the server and checks it.

Whatever a tool returns becomes one Result.

Text is text, media are blocks, an MCP-shaped dict passes as it is; anything else is structured data that
keeps to the output schema, only declared fields of it, with its JSON as text. Knows values and schemas;
refuses to know what ran.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from pathlib import Path
from traceback import walk_tb
from typing import Any

from toolcrib.content import BUILT_IN, MEDIA, Block, Result, text_block
from toolcrib.definition import ToolOptions
from toolcrib.errors import InvalidResultError
from toolcrib.schema import pydantic as rich
from toolcrib.schema.conversion import Convert
from toolcrib.schema.function import build_blueprint
from toolcrib.schema.parameters import Callee
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
_LARGE = 1 << 64
_OWN_FOLDER = str(Path(__file__).parent.parent)


class ResultPlan:
    """How the results of one tool are checked and shaped; the validator is compiled when first used."""

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
        """The Result of a value. Raises InvalidResultError where it cannot or must not be sent.

        What the author's own code raises on the way (a generator, a serializer) comes out as it is.
        """
        kind = type(value)
        if kind not in BUILT_IN and isinstance(value, Iterator):
            value = self._exhaust(value)
        try:
            return self._structured(value) if kind in _PLAIN else self._finish(value)
        except codec.NotFiniteError as error:
            raise self._refusal(f"{error.value} at '{error.path or 'result'}' is not a JSON number") from None
        except (TypeError, OverflowError, RecursionError, UnicodeEncodeError) as error:
            if not _is_ours(error):
                raise
            raise self._refusal(_explain(error)) from None

    def receive(self, draft: Any) -> Result:
        """The Result of what a ResultConverter made of a value in another process. It is checked like any
        other value, and not converted again. Raises InvalidResultError."""
        try:
            return self._open_draft(draft)
        except (TypeError, OverflowError, RecursionError) as error:
            raise self._refusal(_explain(error)) from None

    async def gather(self, values: AsyncIterator[Any]) -> list[Any]:
        """The items of an async generator."""
        items: list[Any] = []
        async for item in values:
            items.append(item)
            self._check_count(len(items))
        return items

    def _exhaust(self, values: Iterator[Any]) -> list[Any]:
        items = list(islice(values, self._most_items + 1))
        self._check_count(len(items))
        return items

    @property
    def _most_items(self) -> int:
        return self.max_bytes // 2  # no item is shorter than a digit and a comma

    def _check_count(self, count: int) -> None:
        if count > self._most_items:
            raise self._refusal(f"it is longer than {self._most_items} items")

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
            return self._check_whole(Result([self._block(item) for item in value]))
        return self._structured(self._plain(value))

    def _open_draft(self, draft: Any) -> Result:
        match draft:
            case ["text", str(text)] if self.schema is None:
                return Result([text_block(self._check_text(text))])
            case ["data", plain]:
                return self._structured(plain)
            case ["result", dict(whole)]:
                made = Result(
                    whole.get("content"),  # type: ignore[arg-type]  # checked below
                    whole.get("structuredContent"),
                    whole.get("isError") is True,
                    "structuredContent" in whole,
                    whole.get("_meta"),
                )
                return self._check_whole(made, rich.to_plain)
        raise self._refusal("its process sent no result")

    def _structured(self, plain: Any) -> Result:
        if type(plain) is int and -_LARGE < plain < _LARGE:
            text = str(plain)
        else:
            data = codec.encode(plain)
            self._check_size(len(data))
            text = data.decode()
        validator = self._validator or self.validator
        if validator is not None and (validator.is_heavy or not validator.is_valid(plain)):
            self._check_schema(plain)
        return Result([{"type": "text", "text": text}], plain, False, True)

    def _plain(self, value: Any) -> Any:
        return rich.to_plain(value if self.dump is None else self.dump(value))

    def _check_schema(self, plain: Any) -> None:
        validator = self._validator or self.validator
        if validator is None or (not validator.is_heavy and validator.is_valid(plain)):
            return
        excess = validator.excess(plain)
        if excess is not None:
            raise self._refusal(f"it is {excess}")
        if not validator.is_valid(plain):
            problems = validator.problems(plain)
            words = "; ".join(f"{problem.field or 'result'}: {problem.expected}" for problem in problems[:5])
            raise self._refusal(f"it does not fit the output schema ({words or 'too large to say where'})")

    def _check_text(self, text: str) -> str:
        self._check_size(len(text) if text.isascii() or len(text) > self.max_bytes else len(text.encode()))
        return text

    def _check_size(self, size: int) -> None:
        if size > self.max_bytes:
            raise self._refusal(f"it is larger than {self.max_bytes // 1024} KiB")

    def _check_whole(self, result: Result, convert: Convert | None = None) -> Result:
        """A Result made by the author: checked like any other, unless it tells of an error."""
        content, meta = rich.to_plain(result.content), rich.to_plain(result.meta)
        if not isinstance(content, list) or not all(_is_block(block) for block in content):
            raise self._refusal("its content is not a list of blocks")
        if not isinstance(meta, dict | None):
            raise self._refusal("its meta is not a dict")
        convert = convert or self._plain
        structured = convert(result.structured_content) if result.is_structured else None
        if self.schema is not None and not result.is_error:
            if not result.is_structured:
                raise self._refusal("it has no structured data, which the output schema promises")
            self._check_schema(structured)
        made = Result(content, structured, bool(result.is_error), bool(result.is_structured), meta)
        self._check_size(len(codec.encode(made.to_json())))
        return made

    def _from_mcp(self, value: dict[str, Any]) -> Result:
        failed = value.get("isError") is True
        structured = value.get("structuredContent")
        is_structured = "structuredContent" in value
        if self.schema is not None and not is_structured and not failed:
            structured, is_structured = value, True  # a published schema obliges to send data
        return self._check_whole(
            Result(value["content"], structured, failed, is_structured, value.get("_meta"))
        )

    def _block(self, item: Any) -> Block:
        if isinstance(item, MEDIA):
            return item.to_block()
        return text_block(item if isinstance(item, str) else codec.encode_text(rich.to_plain(item)))

    def _refusal(self, why: str) -> InvalidResultError:
        return InvalidResultError(f"Tool '{self.name}' returned a result that cannot be sent: {why}")


def _is_ours(error: Exception) -> bool:
    """Whether the error comes from code of this library, so that its words are ours and may be shown."""
    *_, (frame, _) = walk_tb(error.__traceback__)
    return frame.f_code.co_filename.startswith(_OWN_FOLDER)


def _explain(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "it holds text that is not valid Unicode"
    if isinstance(error, RecursionError):
        return "it is nested too deeply or refers to itself"
    return str(error)


def _is_mcp_shaped(value: dict[Any, Any]) -> bool:
    blocks = value.get("content")
    return (
        isinstance(blocks, list)
        and value.keys() <= _MCP_KEYS
        and all(_is_block(block) for block in blocks)
        and isinstance(value.get("isError", False), bool)
        and isinstance(value.get("_meta"), dict | None)
    )


def _is_block(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    kind = block.get("type")
    fields = _BLOCK_FIELDS.get(kind) if isinstance(kind, str) else None
    return fields is not None and all(isinstance(block.get(name), type_) for name, type_ in fields.items())


_DERIVED: list[Block] = []
"""Stands for the text that is made of structured data: the server makes it again."""


class ResultConverter:
    """Makes JSON of the results of tool `name`. Sent to the worker as a pickle. `function` is the one whose
    hints declare the results, None where nothing is declared."""

    def __init__(self, name: str, function: Callable[..., Any] | None, *, has_schema: bool) -> None:
        self._name = name
        self._function = function
        self._has_schema = has_schema

    @functools.cached_property
    def _plan(self) -> _DraftPlan:
        dump = None
        if self._function is not None:
            dump = build_blueprint(Callee(self._function), self._name, ToolOptions()).dump
        return _DraftPlan(self._name, {} if self._has_schema else None, dump, trusted=True)

    def __call__(self, value: Any) -> bytes:
        """Raises InvalidResultError where a value cannot be sent."""
        result = self._plan.finish(value)
        if result.content is _DERIVED:
            return b'["data",%s]' % result.structured_content
        if isinstance(value, str) and not self._has_schema:
            return codec.encode(["text", result.text])
        return codec.encode(["result", result.to_json()])


class _DraftPlan(ResultPlan):
    """Shapes values as any plan does. Whether they fit the schema is checked in the server."""

    __slots__ = ()

    @property
    def validator(self) -> Validator | None:
        return None

    def _structured(self, plain: Any) -> Result:
        data = codec.encode(plain)
        self._check_size(len(data))
        return Result(_DERIVED, data, False, True)
