"""What a program prints, told apart: words as they come, lines that ask for a tool, the line that ends.

    {"tool_call": {"name": "add", "args": {"a": 1}}}                     asks
    {"tool_result": {"name": "add", "ok": true, "result": 2}}            is what it reads back
    {"tool_result": {"name": "add", "ok": false, "error": "..."}}
    {"final": true}  or  {"final": "the answer"}                         ends an answer; so does its exit

Sans-IO: chunks in, events out, however they were cut. Only a line that begins with a brace is held back until
it is whole; everything else is passed on at once. Knows this protocol; refuses to know processes.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib import codec
from toolcrib.agents.event import Token, ToolAnswer, ToolCall
from toolcrib.catalog.export.calls import ToolCall as RoutedCall
from toolcrib.catalog.export.results import answer_line

MAX_LINE_BYTES = 4 * 1024 * 1024
"""The longest line that can be a call."""
_INDENT = b" \t\r"
_DEEPEST_INDENT = 256
_LOOKS_LIKE_CALL = re.compile(rb'\s*\{\s*"tool_call"\s*:')
_SHOWN_CHARS = 120


@dataclass(frozen=True, slots=True)
class Done:
    """The program says that its answer ends; `text` is the answer where it repeats it."""

    text: str | None


Item = Token | ToolCall | Done


class Reader:
    """Feed it what was printed; `finish` when nothing more will come."""

    def __init__(self, limit_bytes: int = MAX_LINE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held = bytearray()  # a line that may be a call
        self._is_inside = False  # of a line of words, part of which was passed on
        self._is_skipping = False  # the rest of a call that was too long
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._calls = 0

    def feed(self, chunk: bytes) -> Iterator[Item]:
        words = bytearray()
        start = 0
        while start < len(chunk):
            end = chunk.find(b"\n", start) + 1 or len(chunk)
            yield from self._take(chunk[start:end], words)
            start = end
        if words:
            yield from self._say(bytes(words))

    def finish(self) -> Iterator[Item]:
        """What is left: a last line may lack its end."""
        if self._held:
            words = bytearray()
            yield from self._flush(words)
            if words:
                yield from self._say(bytes(words))
        rest = self._decoder.decode(b"", final=True)
        self._is_inside = self._is_skipping = False
        if rest:
            yield Token(rest)

    def _take(self, piece: bytes, words: bytearray) -> Iterator[Item]:
        is_end = piece.endswith(b"\n")
        if self._is_skipping:
            self._is_skipping = not is_end
        elif self._is_inside:
            words += piece
            self._is_inside = not is_end
        else:
            self._held += piece
            if is_end:
                yield from self._flush(words)
            elif not self._may_be_call():
                words += self._held  # no call begins so
                self._held.clear()
                self._is_inside = True
            elif len(self._held) > self._limit_bytes:
                yield from self._give_up(words)

    def _may_be_call(self) -> bool:
        """Whether the line that is held begins like one. Its beginning is enough to look at."""
        head = bytes(self._held[:_DEEPEST_INDENT]).lstrip(_INDENT)
        return head.startswith(b"{") or (not head and len(self._held) < _DEEPEST_INDENT)

    def _flush(self, words: bytearray) -> Iterator[Item]:
        """A whole line. What was said before it comes first."""
        line = bytes(self._held)
        self._held.clear()
        item = self._read(line)
        if item is None:
            words += line
            return
        if words:
            yield from self._say(bytes(words))
            words.clear()
        yield item

    def _give_up(self, words: bytearray) -> Iterator[Item]:
        line = bytes(self._held)
        self._held.clear()
        if _LOOKS_LIKE_CALL.match(line):
            self._is_skipping = True
            if words:
                yield from self._say(bytes(words))
                words.clear()
            yield self._flawed(f"the line is longer than {self._limit_bytes} bytes")
        else:
            self._is_inside = True
            words += line

    def _say(self, data: bytes) -> Iterator[Token]:
        text = self._decoder.decode(data)
        if text:
            yield Token(text)

    # --- lines ---

    def _read(self, line: bytes) -> Item | None:
        if not line[:_DEEPEST_INDENT].lstrip(_INDENT).startswith(b"{"):
            return None
        try:
            value = codec.parse(line.strip())
        except ValueError as error:
            return self._flawed(f"the line is not JSON: {error}") if _LOOKS_LIKE_CALL.match(line) else None
        if not isinstance(value, Mapping) or len(value) != 1:
            return None
        final = value.get("final")
        if final is True or isinstance(final, str):
            return Done(final if isinstance(final, str) else None)
        return self._read_call(value["tool_call"]) if "tool_call" in value else None

    def _read_call(self, asked: Any) -> ToolCall:
        if not isinstance(asked, Mapping):
            return self._flawed('write {"tool_call": {"name": ..., "args": {...}}}')
        name = asked.get("name")
        arguments = asked.get("args", asked.get("arguments"))
        if not isinstance(name, str) or not name:
            return self._flawed("the call has no name")
        if arguments is not None and not isinstance(arguments, Mapping):
            return self._flawed("args must be an object", name)
        return ToolCall(self._next_id(), name, arguments or {})

    def _flawed(self, words: str, name: str = "") -> ToolCall:
        return ToolCall(self._next_id(), name, flaw=f"This call cannot be read: {words[:_SHOWN_CHARS]}")

    def _next_id(self) -> str:
        self._calls += 1
        return f"call_{self._calls}"


def result_line(answer: ToolAnswer) -> bytes:
    """The line that tells a program what its call came to."""
    call = RoutedCall(answer.call.id, answer.call.name)
    return codec.encode(answer_line(call, answer.result)) + b"\n"
