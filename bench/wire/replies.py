"""Reading and checking replies, twice: thoroughly, and by comparing bytes.

The first replies are parsed in full. From them a pattern is learned, in which only the id and the answer
vary; a later reply that equals its pattern is right, at the cost of one comparison. One that differs is
parsed in full again, so a wrong reply is never counted and a merely unusual one never refused.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from bench.wire.messages import Question

END_OF_HEAD = b"\r\n\r\n"
END_OF_CHUNKS = b"0\r\n\r\n"
_ID, _ANSWER = b"\x00id\x00", b"\x00answer\x00"


class ReplyError(RuntimeError):
    """A reply that is not the right one."""


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes
    rest: bytes


def split(data: bytes) -> Reply | None:
    """The first HTTP reply in `data`, and what follows it; None while it is incomplete."""
    head, found, body = data.partition(END_OF_HEAD)
    if not found:
        return None
    status_line, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    status = int(status_line.split()[1])
    if headers.get("transfer-encoding", "").lower() == "chunked":
        joined = _join_chunks(body)
        return None if joined is None else Reply(status, headers, *joined)
    length = int(headers.get("content-length", "0"))
    return None if len(body) < length else Reply(status, headers, body[:length], body[length:])


def _join_chunks(data: bytes) -> tuple[bytes, bytes] | None:
    """The joined chunks and what follows them; None while one is missing."""
    chunks: list[bytes] = []
    while True:
        line, found, rest = data.partition(b"\r\n")
        if not found:
            return None
        size = int(line.split(b";")[0], 16)
        if len(rest) < size + 2:
            return None
        if size == 0:
            return b"".join(chunks), rest[2:]
        chunks.append(rest[:size])
        data = rest[size + 2 :]


def message_of(reply: Reply) -> dict[str, Any]:
    """The JSON-RPC message in a reply: its body, or the last event of its stream that has data."""
    if reply.status != 200:
        raise ReplyError(f"HTTP {reply.status}: {reply.body[:300]!r}")
    if not reply.headers.get("content-type", "").startswith("text/event-stream"):
        return _loads(reply.body)
    lines = re.split(rb"\r\n|\n|\r", reply.body)
    data = [line[5:].strip() for line in lines if line.startswith(b"data:") and line[5:].strip()]
    if not data:
        raise ReplyError(f"a stream without a message: {reply.body[:300]!r}")
    return _loads(data[-1])


def check(message: dict[str, Any], question: Question) -> None:
    """Raise unless the message answers the question: in its text, and in its structure where it has one."""
    result = message.get("result", {})
    if "messages" in result:
        content = [one["content"] for one in result["messages"]]
    else:
        content = result.get("content") or result.get("contents") or [{}]
    structured = result.get("structuredContent", content[0].get("text"))
    if isinstance(structured, dict):
        structured = structured.get("result")
    right = (
        message.get("id") == question.id
        and not result.get("isError")
        and str(structured) == str(question.answer) == content[0].get("text")
    )
    if not right:
        raise ReplyError(f"not the answer to {question.id} ({question.answer}): {json.dumps(message)[:400]}")


def check_line(line: bytes, question: Question) -> None:
    check(_loads(line), question)


def _loads(data: bytes) -> dict[str, Any]:
    try:
        message = json.loads(data)
    except ValueError as problem:
        raise ReplyError(f"{problem}: {data[:300]!r}") from None
    if not isinstance(message, dict):
        raise ReplyError(f"not a message: {data[:300]!r}")
    return message


class Pattern(NamedTuple):
    """What the replies to one kind of question look like, and where in them the id stands."""

    bytes_: bytes
    id_at: int

    def reply_to(self, question: Question) -> bytes:
        return self.bytes_.replace(_ID, b"%d" % question.id).replace(_ANSWER, b"%d" % question.answer)


def learn(raw: bytes, question: Question) -> Pattern | None:
    """The pattern of a reply that has been checked; None where its id does not stand where one expects it."""
    marked, count = re.subn(rb'("id"\s*:\s*)%d\b' % question.id, rb"\1" + _ID, raw)
    if count != 1:
        return None
    at = marked.index(_ID)
    marked = marked.replace(b"%d" % question.answer, _ANSWER)
    # An answer before the id would move it, but it has as many digits as every other.
    return Pattern(marked, at if _ANSWER not in marked[:at] else raw.index(b"%d" % question.id))
