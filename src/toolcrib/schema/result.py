"""Whatever a tool returns becomes one Result.

Text is text, media are blocks, an MCP-shaped dict passes as it is; anything else is structured data that
keeps to the output schema, only declared fields of it, with its JSON as text. Knows values and schemas;
refuses to know what ran.
"""

from __future__ import annotations

from typing import Any

from toolcrib import codec
from toolcrib.bounds import Schema
from toolcrib.content import MEDIA, Block, Result, text_block
from toolcrib.errors import InvalidResultError
from toolcrib.schema import rich
from toolcrib.schema.convert import Convert
from toolcrib.validation import Validator

MAX_RESULT_BYTES = 16 * 1024 * 1024
_MCP_KEYS = frozenset({"content", "structuredContent", "isError", "_meta"})
_BLOCK_KINDS = frozenset({"text", "image", "audio", "resource", "resource_link"})
_PLAIN = (int, float, bool)


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
        """The Result of a value. Raises InvalidResultError where it cannot or must not be sent."""
        try:
            return self._finish(value)
        except codec.NotFiniteError as error:
            raise self._refusal(f"{error.value} at '{error.path or 'result'}' is not a JSON number") from None
        except UnicodeEncodeError:
            raise self._refusal("it holds text that is not valid Unicode") from None
        except RecursionError:
            raise self._refusal("it is nested too deeply or refers to itself") from None
        except (TypeError, OverflowError) as error:
            raise self._refusal(str(error)) from None

    def _finish(self, value: Any) -> Result:
        if type(value) is str and self.schema is None:
            self._check_text(value)
            return Result([text_block(value)])
        if value is None and self.schema is None:
            return Result()
        if isinstance(value, Result):
            return self._check_whole(value)
        if type(value) is dict and _is_mcp_shaped(value):
            return self._from_mcp(value)
        if isinstance(value, MEDIA):
            return Result([value.to_block()])
        if isinstance(value, list | tuple) and any(isinstance(item, MEDIA) for item in value):
            return Result([self._block(item) for item in value])
        return self._structured(value)

    def _structured(self, value: Any) -> Result:
        plain = self._plain(value)
        data = codec.encode(plain)
        if len(data) > self.max_bytes:
            raise self._refusal(f"it is larger than {self.max_bytes // 1024} KiB")
        self._check_schema(plain)
        return Result([text_block(data.decode())], plain, is_structured=True)

    def _plain(self, value: Any) -> Any:
        if type(value) in _PLAIN:
            return value
        if self.dump is not None:
            value = self.dump(value)
        return rich.to_plain(value)

    def _check_schema(self, plain: Any) -> None:
        validator = self._validator or self.validator
        if validator is None or validator.is_valid(plain):
            return
        problems = validator.problems(plain)
        words = "; ".join(f"{problem.field or 'result'}: {problem.expected}" for problem in problems[:5])
        raise self._refusal(f"it does not fit the output schema ({words})")

    def _check_text(self, text: str) -> None:
        size = len(text) if text.isascii() else len(text.encode())
        if size > self.max_bytes:
            raise self._refusal(f"it is larger than {self.max_bytes // 1024} KiB")

    def _check_whole(self, result: Result) -> Result:
        """A Result made by the author: checked like any other, unless it tells of an error."""
        structured = self._plain(result.structured_content) if result.is_structured else None
        if result.is_structured and not result.is_error:
            self._check_schema(structured)
        size = len(codec.encode(result.content))
        if result.is_structured:
            size += len(codec.encode(structured))
        if size > self.max_bytes:
            raise self._refusal(f"it is larger than {self.max_bytes // 1024} KiB")
        return Result(result.content, structured, result.is_error, result.is_structured, result.meta)

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
        if isinstance(item, str):
            self._check_text(item)
            return text_block(item)
        return text_block(codec.encode_text(rich.to_plain(item)))

    def _refusal(self, why: str) -> InvalidResultError:
        return InvalidResultError(f"Tool '{self.name}' returned a result that cannot be sent: {why}")


def _is_mcp_shaped(value: dict[Any, Any]) -> bool:
    blocks = value.get("content")
    return (
        isinstance(blocks, list)
        and value.keys() <= _MCP_KEYS
        and all(isinstance(block, dict) and block.get("type") in _BLOCK_KINDS for block in blocks)
        and isinstance(value.get("isError", False), bool)
    )
