"""Messages whose parameters are wrong: envelopes, names, arguments, cursors, tokens, levels, states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.wire.cases import (
    CAPABILITIES,
    HEADER,
    LOG_LEVEL,
    METHOD,
    OMIT,
    PARAMS,
    REQUEST,
    RESULT,
    TOOL_ERROR,
    UNSUPPORTED,
    VERSION,
    Case,
    both,
    call,
    encode,
    legacy,
    message,
    modern,
)
from tests.wire.corpus_shapes import WRONG_TYPES, others_than

_METHODS = ("tools/list", "tools/call", "server/discover", "initialize", "nothing/such")


def envelopes() -> Iterator[Case]:
    """A missing or wrong key is -32602 and 400, whatever the method; the id is answered."""
    for method in _METHODS:
        params = {"name": "touch"} if method == "tools/call" else {}
        for name, value in [("absent", OMIT), *others_than(dict)]:
            body = encode(modern(method, meta={CAPABILITIES: value}, **params))
            yield Case(f"capabilities {name}, {method}", body, PARAMS, "modern", 7, 400)
        for name, value in others_than(str):
            body = encode(modern(method, meta={VERSION: value}, **params))
            yield Case(f"version {name}, {method}", body, PARAMS, "modern", 7, 400)
        if method != "initialize":
            bare = encode(modern(method, meta={VERSION: OMIT, CAPABILITIES: OMIT}, **params))
            no_stdio = {"stdio-modern": None}  # nothing says that this is modern
            yield Case(f"no version, {method}", bare, PARAMS, "modern", 7, 400, places=no_stdio)
            for name, value in others_than(dict):
                body = encode(message(method, {**params, "_meta": value}))
                yield Case(f"_meta {name}, {method}", body, PARAMS, "modern", 7, 400, places=no_stdio)
    bare = encode(legacy("initialize", protocolVersion="2025-11-25", capabilities={}))
    yield Case(
        "initialize without envelope under a modern header",
        bare,
        HEADER,
        "modern",
        7,
        places={"stdio-modern": None},
    )
    for name, value in WRONG_TYPES.items():
        key = "io.modelcontextprotocol/clientInfo"
        yield Case(f"clientInfo {name}", encode(modern(meta={key: value})), RESULT, "modern", 7)
        yield Case(f"traceparent {name}", encode(modern(meta={"traceparent": value})), RESULT, "modern", 7)
        yield Case(
            f"an unknown key {name}", encode(modern(meta={"example.com/x": value})), RESULT, "modern", 7
        )
    for key in (
        "__proto__",
        "constructor",
        "",
        " ",
        "toString",
        "\x00",
        "a" * 10_000,
        "💥",
        "_meta",
        "jsonrpc",
    ):
        yield Case(f"the key {key[:20]!r} in _meta", encode(modern(meta={key: {}})), RESULT, "modern", 7)
        yield Case(
            f"the key {key[:20]!r} in params",
            encode(modern(**{key: {}} if key != "_meta" else {})),
            RESULT,
            "modern",
            7,
        )


def protocol_versions() -> Iterator[Case]:
    """A version that is not served is named, with those that are."""
    for version in (
        *(
            "",
            "x",
            "1",
            "2026-07-27",
            "2026-07-29",
            "2027-01-01",
            "9999-99-99",
            "2026-7-28",
            "2026/07/28",
            "20260728",
        ),
        *(
            "2025-11-25",
            "2025-06-18",
            "2025-03-26",
            "2024-11-05",
            "DRAFT",
            "latest",
            "v2026-07-28",
            "2026-07-28-rc",
        ),
        *("2026-07-28T00:00:00Z", "null", "*", "../2026-07-28", "2" * 5_000),
    ):
        body = encode(modern("tools/call", name="touch", meta={VERSION: version}))
        yield Case(f"version {version[:30]!r}", body, UNSUPPORTED, "modern", 7)
    for version in (
        " 2026-07-28",
        "\t2026-07-28",
        "2026-07-28\n",
        "２026-07-28",
        "2026-07-28\u200b",
        "2026‑07‑28",
    ):
        body = encode(modern("tools/call", name="touch", meta={VERSION: version}))
        yield Case(f"version {version!r}", body, UNSUPPORTED, "modern", 7, places={"modern": HEADER})
    body = encode(modern("nothing/such", meta={VERSION: "2027-01-01"}))
    yield Case("a version before the method", body, UNSUPPORTED, "modern", 7)


def names() -> Iterator[Case]:
    """A name is a text; one that is not known is -32602, as the specification says."""
    for name, value in others_than(str):
        yield from both(f"name {name}", "tools/call", PARAMS, {"name": value, "arguments": {}})
    yield from both("no name", "tools/call", PARAMS, {"arguments": {}})
    for name in (
        *(
            "",
            " ",
            "x",
            "echo ",
            " echo",
            "echo\n",
            "echo\x00",
            "echo\t",
            "e cho",
            "ech",
            "echoo",
            "echo/",
            "/echo",
        ),
        *(
            "../echo",
            "echo/../echo",
            "echo%00",
            "%65cho",
            "echo.",
            ".echo",
            "echo\\",
            "echo;ls",
            "echo|ls",
            "`echo`",
        ),
        *(
            "$(echo)",
            "${echo}",
            "{{echo}}",
            "echo@1",
            "echo@",
            "@echo",
            "__proto__",
            "__class__",
            "constructor",
        ),
        *(
            "toString",
            "hasOwnProperty",
            "echo.__globals__",
            "null",
            "undefined",
            "None",
            "0",
            "true",
            "*",
            "?",
        ),
        *(
            "ｅcho",
            "еcho",
            "écho",
            "echo\u200b",
            "\u202eohce",
            "ECHO\u0130",
            "💥",
            "工具",
            "echo\u0301",
            "=?base64?x?=",
        ),
        *(
            "=?base64?ZWNobw==?=",
            "=?base64?ZWNobw?=",
            "'; DROP TABLE tools;--",
            "<script>",
            "a" * 128,
            "a" * 20_000,
        ),
    ):
        yield from both(
            f"tool {name[:30]!r}", "tools/call", PARAMS, {"name": name, "arguments": {"value": 1}}
        )
    yield from both("a name in other case", "tools/call", RESULT, {"name": "ECHO", "arguments": {"value": 1}})


def arguments() -> Iterator[Case]:
    """Arguments are an object; what is in it is the tool's affair, and its refusal a result."""
    for name, value in others_than(dict):
        yield from both(f"arguments {name}", "tools/call", PARAMS, {"name": "touch", "arguments": value})
    wrong: dict[str, Any] = {
        "none": {},
        "one missing": {"a": 1},
        "one too many": {"a": 1, "b": 2, "c": 3},
        "a text": {"a": "x", "b": 2},
        "a fraction": {"a": 1.5, "b": 2},
        "a list": {"a": [], "b": 2},
        "an object": {"a": {}, "b": 2},
        "null": {"a": None, "b": 2},
        "other case": {"A": 1, "b": 2},
        "a prototype": {"a": 1, "b": 2, "__proto__": {}},
        "a blank": {"a ": 1, "b": 2},
        "only odd keys": {"": 1, "\x00": 2, "self": 3, "cls": 4, "kwargs": 5},
    }
    for name, value in wrong.items():
        yield from both(
            f"arguments of add: {name}", "tools/call", TOOL_ERROR, {"name": "add", "arguments": value}
        )
    good: dict[str, Any] = {
        "odd keys": {
            "__proto__": 1,
            "": 2,
            "constructor": {"prototype": {}},
            "a\x00b": 3,
            "💥": 4,
            "$ref": "#",
            "$id": "x",
        },
        "references": {"$ref": "http://127.0.0.1:1/x", "$schema": "file:///etc/passwd"},
        "a large integer": 10**99,
        "a negative one": -(10**99),
        "a minus zero": -0.0,
        "a tiny number": 5e-324,
        "nothing": None,
        "a message": {"jsonrpc": "2.0", "id": 1, "method": "tools/call"},
        "an envelope": {"_meta": {VERSION: "1999-01-01"}},
        "a mark as text": VERSION,
    }
    for name, value in good.items():
        yield from both(
            f"value: {name}", "tools/call", RESULT, {"name": "echo", "arguments": {"value": value}}
        )


def cursors() -> Iterator[Case]:
    """There is one page here, so no cursor was ever given out."""
    for name, value in others_than(str):
        yield from both(f"cursor {name}", "tools/list", PARAMS, {"cursor": value})
    for cursor in (
        "",
        " ",
        "x",
        "0",
        "1",
        "-1",
        "AAAA",
        "AAAAAAAAAAAAAAAAAAAAAA==",
        "=",
        "====",
        "\x00",
        "💥",
        "a" * 99_999,
    ):
        yield from both(f"cursor {cursor[:20]!r}", "tools/list", PARAMS, {"cursor": cursor})


def tokens_and_levels() -> Iterator[Case]:
    """What a call says of how it wants to hear from the server."""
    for name, value in others_than(str, int):
        for method in ("tools/call", "tools/list", "server/discover"):
            given = {"name": "touch"} if method == "tools/call" else {}
            body = encode(modern(method, meta={"progressToken": value}, **given))
            yield Case(f"progressToken {name}, {method}, modern", body, PARAMS, "modern", 7)
        body = encode(call("legacy", "touch", _meta={"progressToken": value}))
        yield Case(f"progressToken {name}, legacy", body, PARAMS, "legacy", 7)
    for token in ("", "x", 0, -1, 2**64, "💥", "x" * 10_000):
        yield Case(
            f"progressToken {str(token)[:9]!r}, modern",
            encode(modern(meta={"progressToken": token})),
            RESULT,
            "modern",
            7,
        )
        body = encode(call("legacy", "echo", {"value": 1}, _meta={"progressToken": token}))
        yield Case(f"progressToken {str(token)[:9]!r}, legacy", body, RESULT, "legacy", 7)
    wrong = [
        *WRONG_TYPES.items(),
        *((word, word) for word in ("INFO", "Debug", "warn", "trace", "fatal", "info ", "__proto__")),
    ]
    for name, value in wrong:
        for method in ("tools/call", "tools/list", "server/discover"):
            given = {"name": "touch"} if method == "tools/call" else {}
            body = encode(modern(method, meta={LOG_LEVEL: value}, **given))
            yield Case(f"logLevel {name}, {method}", body, PARAMS, "modern", 7)
        yield Case(f"setLevel {name}", encode(legacy("logging/setLevel", level=value)), PARAMS, "legacy", 7)
    yield Case("setLevel without level", encode(legacy("logging/setLevel")), PARAMS, "legacy", 7)
    for level in ("debug", "notice", "warning", "error", "critical", "alert", "emergency", "info"):
        body = encode(modern("tools/call", name="echo", arguments={"value": 1}, meta={LOG_LEVEL: level}))
        yield Case(f"logLevel {level}", body, RESULT, "modern", 7)
        yield Case(f"setLevel {level}", encode(legacy("logging/setLevel", level=level)), RESULT, "legacy", 7)
    for name, value in others_than(dict):
        yield Case(
            f"_meta {name}, legacy call", encode(call("legacy", "touch", _meta=value)), PARAMS, "legacy", 7
        )
        yield Case(f"_meta {name}, legacy list", encode(legacy(_meta=value)), PARAMS, "legacy", 7)


def states() -> Iterator[Case]:
    """A state that was never given out, and answers to nothing."""
    texts = ("", "x", "0", "AAAA", "e30", "e30=", "!", "a" * 1_000, "a" * 600_000, "\x00", "💥", "../../x")
    for name, value in [*others_than(str), *((repr(text[:9]), text) for text in texts)]:
        for more in ({}, {"inputResponses": {"who": {"action": "accept", "content": {}}}}):
            body = encode(call("modern", "touch", {}, requestState=value, **more))
            shown = "with answers" if more else "alone"
            yield Case(f"requestState {name}, {len(str(value))}, {shown}", body, PARAMS, "modern", 7)
    for name, value in others_than(dict):
        body = encode(call("modern", "touch", {}, inputResponses=value))
        yield Case(f"inputResponses {name}", body, PARAMS, "modern", 7)
    for name, value in WRONG_TYPES.items():
        body = encode(call("modern", "echo", {"value": 1}, inputResponses={"who": value}))
        yield Case(f"an answer to nothing: {name}", body, RESULT, "modern", 7)
        body = encode(call("legacy", "echo", {"value": 1}, requestState=value, inputResponses=value))
        yield Case(f"a state where there are none: {name}", body, RESULT, "legacy", 7)


def handshakes() -> Iterator[Case]:
    """initialize: once for each session; what it asks for is answered with the nearest there is."""
    again: dict[str, Any] = {"session": REQUEST, "stdio-legacy": REQUEST}
    good = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    for name, value in [("absent", OMIT), *others_than(str)]:
        body = encode(legacy("initialize", **_without(good | {"protocolVersion": value})))
        yield Case(f"initialize, version {name}", body, PARAMS, "legacy", 7)
    for name, value in others_than(dict):
        body = encode(legacy("initialize", **(good | {"capabilities": value})))
        yield Case(f"initialize, capabilities {name}", body, PARAMS, "legacy", 7)
    for version in ("2024-11-05", "2025-06-18", "2026-07-28", "", "x", "9999-99-99", "💥", "x" * 10_000):
        body = encode(legacy("initialize", **(good | {"protocolVersion": version})))
        yield Case(f"initialize, {version[:20]!r}", body, RESULT, "legacy", 7, places=again)
    for name, value in WRONG_TYPES.items():
        body = encode(legacy("initialize", **(good | {"clientInfo": value})))
        yield Case(f"initialize, clientInfo {name}", body, RESULT, "legacy", 7, places=again)
    yield Case("initialize with an envelope", encode(modern("initialize", **good)), METHOD, "modern", 7)
    yield Case("initialize without parameters", encode(legacy("initialize")), PARAMS, "legacy", 7)


def _without(parts: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in parts.items() if value is not OMIT}
