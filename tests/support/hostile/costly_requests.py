"""Requests that may be expensive to serve, as bytes, each with the expected status."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

VERSION = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}
BODY = 4 * 1024 * 1024 - 1024
"""Nearly as much as is read at all."""


def call(tool: str, arguments: Any = None, **more: Any) -> bytes:
    params = {"name": tool, "arguments": arguments or {}, **more, "_meta": ENVELOPE}
    return encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})


def encode(message: Any) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def post(body: bytes, tool: str | None = "echo", *, method: str = "tools/call", **fields: str) -> bytes:
    """A request of 2026-07-28; of an older client where `tool` is None."""
    lines = ["POST /mcp HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    lines += ["Accept: application/json, text/event-stream", f"Content-Length: {len(body)}"]
    if tool is not None:
        lines += [f"MCP-Protocol-Version: {VERSION}", f"Mcp-Method: {method}", f"Mcp-Name: {tool}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def around(raw: bytes, tool: str = "echo") -> bytes:
    """Return a call whose argument is given as raw JSON."""
    return post(call(tool, {"value": "@"}).replace(b'"@"', raw), tool)


def fill(piece: bytes, size: int = BODY, *, first: bytes = b"[", last: bytes = b"]") -> bytes:
    """As many pieces as fit, with commas between them."""
    count = (size - 300) // (len(piece) + 1)
    return first + b",".join([piece] * count) + last


def numbered(template: str, count: int) -> bytes:
    """Return an object whose members all differ: `template` has a placeholder for the number."""
    return b"{" + ",".join(template % number for number in range(count)).encode() + b"}"


def _request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": ENVELOPE}}


def _old(id_: int, method: str, **params: Any) -> dict[str, Any]:
    """A request of an older client."""
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def _bare(method: str, **params: Any) -> bytes:
    """A request of 2026-07-28 that names nothing."""
    fields = {"MCP_Protocol_Version": VERSION, "Mcp_Method": method}
    return post(encode(_request(method, **params)), None, **fields)


def ordinary() -> Iterator[tuple[str, bytes]]:
    small = call("add", {"a": 1, "b": 2})
    yield "a small call", post(small, "add")
    yield "a small call, written with blanks", post(json.dumps(json.loads(small)).encode(), "add")
    yield "a list of the tools", _bare("tools/list")
    yield "who are you", _bare("server/discover")
    older = _old(1, "tools/call", name="add", arguments={"a": 1, "b": 2})
    yield "a call of an older client", post(encode(older), None)


def failing() -> Iterator[tuple[str, bytes]]:
    """Small requests that cause a lot of work."""
    for tool in ("boom", "recurse", "refuse", "tangle", "chain"):
        yield f"the tool {tool}", post(call(tool), tool)
    yield "an unknown tool", post(call("missing"), "missing")
    yield "an unknown tool with a long name", post(call("m" * 8000), "m" * 8000)
    yield "a misspelt tool", post(call("ecoh"), "ecoh")
    yield "an unknown method", _bare("nonsense")
    yield "a missing argument", post(call("add", {"a": 1}), "add")
    yield "arguments of other kinds", post(call("add", {"a": "x", "b": []}), "add")
    yield "a thousand unknown arguments", post(call("add", {f"x{n}": n for n in range(1000)}), "add")
    yield "a misspelt argument", post(call("add", {"aa": 1, "bb": 2}), "add")
    yield "a state that is none", post(call("ask", requestState="A" * 60_000, inputResponses={}), "ask")
    yield "a question", post(call("ask"), "ask")
    yield "a cursor that is none", _bare("tools/list", cursor="A" * 60_000)
    yield "no JSON", post(b"{", "add")
    yield "a choice of many records", post(call("choose", {"value": {"kind": "z", "x": 1}}), "choose")


def large() -> Iterator[tuple[str, bytes]]:
    """Four megabytes of each kind."""
    kinds: dict[str, Callable[[], bytes]] = {
        "zeros": lambda: fill(b"0"),
        "whole numbers": lambda: fill(b"1234567890123456789"),
        "numbers beyond 64 bits": lambda: fill(b"9" * 99),
        "fractions": lambda: fill(b"1.2345678901234567e-300"),
        "fractions of many digits": lambda: fill(b"0." + b"1" * 700),
        "literals": lambda: fill(b"null"),
        "empty lists": lambda: fill(b"[]"),
        "empty objects": lambda: fill(b"{}"),
        "small objects": lambda: fill(b'{"a":1}'),
        "small objects with blanks": lambda: fill(b'{"a" : 1}'),
        "objects of ten": lambda: fill(numbered('"k%d":1', 10)),
        "small lists": lambda: fill(b"[1,2]"),
        "short texts": lambda: fill(b'"ab"'),
        "texts with escapes": lambda: fill(rb'"\u00e9\n\"\\"'),
        "texts of other scripts": lambda: fill('"世界"'.encode()),
        "pairs of surrogates": lambda: fill(rb'"\ud83d\ude00"'),
        "long texts": lambda: fill(b'"' + b"x" * 900_000 + b'"'),
        "one text that is too long": lambda: b'"' + b"x" * (BODY - 400) + b'"',
        "long escaped texts": lambda: fill(b'"' + rb"\u0041" * 150_000 + b'"'),
        "backslashes": lambda: fill(b'"' + rb"\\" * 400_000 + b'"'),
        "blanks": lambda: b" " * (BODY - 400) + b"1",
        "line ends": lambda: b"\n" * (BODY - 400) + b"1",
        "deep lists": lambda: fill(b"[" * 60 + b"]" * 60),
        "deep objects": lambda: fill(b'{"a":' * 60 + b"1" + b"}" * 60),
        "lists that are too deep": lambda: b"[" * 100_000 + b"]" * 100_000,
        "lists that never end": lambda: b"[" * (BODY - 400),
        "objects that never end": lambda: b'{"a":' * ((BODY - 400) // 5),
        "many members": lambda: numbered('"key%07d":0', 9_999),
        "too many members": lambda: numbered('"key%07d":0', 200_000),
        "members that look alike": lambda: numbered('"' + "k" * 100 + '%d":0', 9_000),
        "objects with a member twice": lambda: fill(b'{"a":1,"a":2}'),
        "objects of many members": lambda: fill(numbered('"k%d":1', 1000)),
        "an integer that is too long": lambda: b"9" * (BODY - 400),
        "nonsense at the end": lambda: fill(b"1") + b"x",
        "brackets in texts": lambda: fill(b'"[{[{[{"'),
    }
    for name, make in kinds.items():
        yield f"4 MB: {name}", around(make())


def middling() -> Iterator[tuple[str, bytes]]:
    """Medium sizes, which cost a client hardly more than a small request."""
    pieces = (b"{}", b"[]", b'{"a":1}', b"[1,2]", b"1e300", b"1e23", b'"ab"', b"0", b'{"a" : 1}')
    for size in (16_000, 60_000, 150_000, 250_000):
        for piece in pieces:
            yield f"{size // 1000} KB: {piece.decode()}", around(fill(piece, size))


def checked() -> Iterator[tuple[str, bytes]]:
    """Large documents that tools and messages must check."""
    wrong = {"a": "x" * 900_000, "b": [0] * 900_000}
    yield "4 MB: for a tool that wants something else", post(call("add", wrong), "add")
    yield "4 MB: numbers that are checked", around(fill(b"1.5"), "total")
    yield "4 MB: numbers that are checked, and wrong", around(fill(b'"x"'), "total")
    yield "500 KB: records that are checked", around(fill(b'{"x":1,"y":2}', 500_000), "points")
    yield "500 KB: records that are checked, and wrong", around(fill(b'{"x":1,"z":2}', 500_000), "points")
    yield "4 MB: no UTF-8", post(b"\xff" * BODY)
    yield "4 MB: zero bytes", post(b"\x00" * BODY)
    yield "4 MB: an id", post(encode({**_request("tools/list"), "id": "x" * (BODY - 1000)}))
    yield "4 MB: a method", post(encode(_request("x" * 900_000)))
    message = _request("tools/call", name="echo", arguments={"value": 1})
    message["params"]["_meta"] = {**ENVELOPE, "x": [0] * 1_800_000}
    yield "4 MB: an envelope", post(encode(message))
    answers = {f"k{n}": {"action": "accept"} for n in range(9_000)}
    yield "4 MB: answers", post(call("ask", inputResponses=answers), "ask")


def converted() -> Iterator[tuple[str, bytes]]:
    """Lists of the values that are most expensive to convert per byte."""
    pieces = {
        "points": b'{"x":1,"y":2}',
        "spots": b"{}",
        "loose": b"{}",
        "nodes": b'{"kids":[]}',
        "figures": b'{"x":1,"y":2}',
        "colours": b'"r"',
        "sums": b"1",
        "days": b'"2024-01-01"',
        "spans": b'"P1D"',
        "ids": b'"12345678-1234-5678-1234-567812345678"',
        "counts": b"1",
        "total": b"1",
        "mixed": b"1",
        "pairs": b"[1,2]",
    }
    for tool, piece in pieces.items():
        for size in (16_000, 140_000, 500_000, 1_000_000, BODY):
            yield f"{size // 1000} KB: {tool}", around(fill(piece, size), tool)
    for size in (16_000, 140_000, 1_000_000, BODY):
        numbers = b"[" + b",".join(b"%d" % number for number in range(size // 8)) + b"]"
        yield f"{size // 1000} KB: unique", around(numbers, "unique")
    models = b"[" + b",".join([b'{"x":12,"y":34} '] * 65_000) + b"]"
    yield "1 MB: 65,000 points", around(models, "points")
    for count in (100, 2_000, 20_000):
        patterns = b"[" + b",".join(b'"a%d"' % number for number in range(count)) + b"]"
        yield f"{count} patterns", around(patterns, "patterns")


def batches() -> Iterator[tuple[str, bytes]]:
    yield "a batch of a hundred", post(encode([_old(n, "ping") for n in range(100)]), None)
    yield "a batch of too many", post(encode([_old(1, "ping")] * 50_000), None)


def heads() -> Iterator[tuple[str, bytes]]:
    """Requests that are all headers."""
    body = call("add", {"a": 1, "b": 2})
    plain = post(body, "add")
    yield "180 headers", post(body, "add", **{f"X_{number}": "v" for number in range(180)})
    yield "too many headers", post(body, "add", **{f"X_{number}": "v" for number in range(2000)})
    yield "a header of 30 KB", post(body, "add", X="v" * 30_000)
    yield "a header that is too long", post(body, "add", X="v" * 60_000)
    yield "one header many times", plain.replace(b"Host:", b"X-Same: 1\r\n" * 150 + b"Host:")
    odd = b"a/b;q=1," * 3000 + b"*/*"
    yield "an odd Accept", plain.replace(b"application/json, text/event-stream", odd)
    yield "an odd Origin", post(body, "add", Origin="http://" + "a." * 10_000 + "example")
    yield "an odd Host", plain.replace(b"127.0.0.1", b"a" * 30_000, 1)
    yield "a name in base64", post(body, "=?base64?YWRk?=")
    yield "a long name in base64", post(body, "=?base64?" + "A" * 30_000 + "?=")
    yield "no HTTP", b"\x16\x03\x01" + b"x" * 1000
    yield "an unknown path", plain.replace(b"/mcp", b"/" + b"x" * 20_000, 1)
    yield "a session that is none", post(encode(_old(1, "ping")), None, Mcp_Session_Id="x" * 20_000)
    first = _old(1, "initialize", protocolVersion="2025-11-25", capabilities={})
    yield "a session", post(encode(first), None)


def chunked() -> Iterator[tuple[str, bytes]]:
    head = post(b"", "add").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    body = call("add", {"a": 1, "b": 2})
    yield "a body in chunks of a byte", head + b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    blanks = b"".join([b"1\r\n \r\n"] * 100_000)
    yield "a hundred thousand chunks of a byte", head + blanks + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


CORPUS: dict[str, Callable[[], Iterator[tuple[str, bytes]]]] = {
    "ordinary": ordinary,
    "failing": failing,
    "large": large,
    "middling": middling,
    "checked": checked,
    "converted": converted,
    "batches": batches,
    "heads": heads,
    "chunked": chunked,
}
