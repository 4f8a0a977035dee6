"""JSON that is not a JSON-RPC message, or an unsupported one: versions, ids, methods, batches, responses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.wire.cases import (
    ENVELOPE,
    HEADER,
    METHOD,
    NO_ID,
    OMIT,
    PARAMS,
    REQUEST,
    RESULT,
    SILENCE,
    Case,
    both,
    call,
    encode,
    legacy,
    message,
    modern,
)

WRONG_TYPES: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "an integer": 1,
    "zero": 0,
    "a float": 1.5,
    "a whole float": 1.0,
    "an empty text": "",
    "a text": "x",
    "an empty list": [],
    "a list": [1],
    "an empty object": {},
    "an object": {"a": 1},
}


def others_than(*kinds: type) -> Iterator[tuple[str, Any]]:
    """Values of every type but these."""
    for name, value in WRONG_TYPES.items():
        if type(value) not in kinds:
            yield name, value


def no_messages() -> Iterator[Case]:
    """Values that are no objects, and objects that say nothing."""
    for name, value in WRONG_TYPES.items():
        if type(value) is not list:
            yield Case(f"{name} alone", encode(value), REQUEST)
    for name, value in {
        "only jsonrpc": {"jsonrpc": "2.0"},
        "only params": {"jsonrpc": "2.0", "params": {}},
        "JSON-RPC 1.0": {"method": "ping", "params": [], "id": None},
        "another protocol": {"type": "request", "command": "initialize", "seq": 1},
        "a GraphQL query": {"query": "{ tools }"},
        "a nested message": {"message": message("ping")},
    }.items():
        yield Case(name, encode(value), REQUEST)


def versions() -> Iterator[Case]:
    """`jsonrpc` says 2.0 or nothing is believed; the id could be read, so the answer has it."""
    wrong = [("absent", OMIT), *WRONG_TYPES.items(), ("two", 2), ("2.0 as a number", 2.0), ("2", "2")]
    wrong += [("1.0", "1.0"), ("2.0.0", "2.0.0"), ("2.0 and a blank", "2.0 "), ("other digits", "２.０")]
    for name, value in wrong:
        body = encode(message("tools/list", {"_meta": ENVELOPE}, jsonrpc=value))
        yield Case(f"jsonrpc: {name}, modern", body, REQUEST, "modern", 7)
        yield Case(
            f"jsonrpc: {name}, legacy", encode(message("tools/list", jsonrpc=value)), REQUEST, "legacy", 7
        )


def ids() -> Iterator[Case]:
    """Texts and integers, up to 256 bytes, come back unchanged; nothing else is an id."""
    wrong = dict(others_than(int, str)) | {
        "257 bytes": "x" * 257,
        "258 bytes in 129 characters": "é" * 129,
        "a megabyte": "x" * 1_000_000,
        "1e2": 1e2,
        "a list of ids": [1, 2],
    }
    good = [
        "",
        " ",
        "0",
        "7",
        "x" * 256,
        "é" * 128,
        "\x00",
        "💥",
        "null",
        "__proto__",
        "a\nb",
        "-1",
        '"',
        "</x>",
    ]
    good += [0, -1, 1, 2**31, 2**53 + 1, 2**63, 2**64, -(2**64), 10**99]
    for era, build in (("modern", modern), ("legacy", legacy)):
        for name, value in wrong.items():
            yield Case(f"id: {name}, {era}", encode(build(id_=value)), REQUEST, era)
        for value in good:
            yield Case(f"id: {str(value)[:20]!r}, {era}", encode(build(id_=value)), RESULT, era, value)


_UNKNOWN = (
    *("", "x", "tools", "tools/", "/tools/list", "tools/lists", "tools.list", "tools_list", "list_tools"),
    *(
        "Tools/list",
        "TOOLS/LIST",
        "tools/List",
        "tools//list",
        "tools/list/",
        "tools/list?x",
        "tools/../ping",
    ),
    *(
        "__proto__",
        "constructor",
        "toString",
        "__init__",
        "rpc.discover",
        "system.listMethods",
        "eval",
        "null",
    ),
    *(
        "completion/complete",
        "tasks/list",
        "tasks/get",
        "tasks/result",
        "roots/list",
        "sampling/createMessage",
    ),
    *(
        "resources/subscribe",
        "resources/unsubscribe",
        "elicitation/create",
        "x" * 5_000,
    ),
    *(
        "notifications/initialized",
        "notifications/cancelled",
        "$/cancelRequest",
        "tools/call;drop",
        "%74ools/list",
    ),
)
_UNSPEAKABLE = (
    "tools/list\n",
    "tools\x00/list",
    "tools/list\u200b",
    "ｔools/list",
    "tооls/list",
    "💥",
    "tools/lıst",
)
_PADDED = (" tools/list", "\ttools/list", " tools/list ")


def methods() -> Iterator[Case]:
    """What is not served is not found; a name is compared as it is, byte by byte."""
    for name, value in others_than(str):
        for era, build in (("modern", modern), ("legacy", legacy)):
            yield Case(f"method: {name}, {era}", encode(build(value)), REQUEST, era, 7)
    for method in _UNKNOWN:
        yield from both(f"method: {method[:40]!r}", method, METHOD)
    for method in _UNSPEAKABLE:  # no header can say them, so HTTP finds a difference first
        yield from both(f"method: {method!r}", method, METHOD, places={"modern": HEADER})
    for method in ("prompts/get", "resources/read"):
        yield from both(f"nothing named: {method}", method, PARAMS)
    for method in _PADDED:  # headers lose their outer blanks
        yield from both(f"method: {method!r}", method, METHOD, places={"modern": HEADER})
    for method in ("initialize", "ping", "logging/setLevel"):
        yield Case(f"removed: {method}", encode(modern(method)), METHOD, "modern", 7)
    yield Case(
        "listening for nothing said", encode(modern("subscriptions/listen")), PARAMS, "modern", 7, status=200
    )
    yield Case("listening, legacy", encode(legacy("subscriptions/listen")), METHOD, "legacy", 7)
    yield Case("discover without envelope", encode(legacy("server/discover")), METHOD, "legacy", 7)


def params() -> Iterator[Case]:
    """Parameters are an object. Without one there is no envelope, so over HTTP the header tells the era."""
    for name, value in others_than(dict):
        verdict = REQUEST if type(value) is list else PARAMS
        for method in ("tools/list", "tools/call", "ping", "nothing/such"):
            body = encode(message(method, value))
            yield Case(f"params of {method}: {name}", body, verdict, id=7, status=400)


def key_case() -> Iterator[Case]:
    """Keys are not folded: `Method` is no method, and a message with an `ID` has none."""
    whole = json.dumps(modern("tools/call", name="touch", arguments={}))
    plain = json.dumps(legacy("tools/call", name="touch", arguments={}))
    expected: dict[str, tuple[tuple[str, ...], Any]] = {
        "jsonrpc": (("JSONRPC", "Jsonrpc", "jsonRPC", "jsonrpc ", "ｊsonrpc", "jsonrpc\\u0000"), REQUEST),
        "method": (("Method", "METHOD", "method ", "mеthod", "_method", "meth\\u0000od"), REQUEST),
        "id": (("ID", "Id", "iD", "id ", "ıd", "_id", "id\\u0000"), SILENCE),
        "name": (("Name", "NAME", "name ", "tool", "nаme"), PARAMS),
    }
    for key, (spellings, verdict) in expected.items():
        id_ = 7 if isinstance(verdict, int) else NO_ID
        for spelling in spellings:
            for era, text in (("modern", whole), ("legacy", plain)):
                body = text.replace(f'"{key}"', f'"{spelling}"').encode()
                headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}
                yield Case(f"{spelling!r} for {key}, {era}", body, verdict, era, id_, headers=headers)
    for spelling in ("Params", "PARAMS", "params ", "parameters"):
        yield Case(
            f"{spelling!r} for params",
            plain.replace('"params"', f'"{spelling}"').encode(),
            PARAMS,
            id=7,
            status=400,
        )


def notifications() -> Iterator[Case]:
    """Nothing without an id is answered, and no tool runs."""
    for method in (
        *(
            "notifications/initialized",
            "notifications/cancelled",
            "notifications/progress",
            "notifications/x",
            "",
        ),
        *(
            "tools/list",
            "initialize",
            "ping",
            "server/discover",
            "nothing/such",
            "notifications/roots/list_changed",
        ),
    ):
        yield Case(f"notification {method!r}, modern", encode(modern(method, id_=OMIT)), SILENCE, "modern")
        yield Case(f"notification {method!r}, legacy", encode(legacy(method, id_=OMIT)), SILENCE, "legacy")
    for era, build in (("modern", modern), ("legacy", legacy)):
        run = build("tools/call", id_=OMIT, name="touch", arguments={})
        yield Case(f"a call without id, {era}", encode(run), SILENCE, era)
        for name, value in WRONG_TYPES.items():
            body = encode(build("notifications/cancelled", id_=OMIT, requestId=value, reason=value))
            yield Case(f"cancelled, requestId {name}, {era}", body, SILENCE, era)
    for name, value in others_than(dict):
        body = encode(message("notifications/initialized", value, id_=OMIT))
        yield Case(f"params of a notification: {name}", body, REQUEST)


def responses() -> Iterator[Case]:
    """Answers to what was never asked: dropped where questions are possible, refused where they are not."""
    dropped: dict[str, Any] = {"session": SILENCE, "stdio-modern": SILENCE, "stdio-legacy": SILENCE}
    for name, parts in {
        "a result": {"id": 7, "result": {}},
        "a result of null": {"id": 7, "result": None},
        "an error": {"id": 7, "error": {"code": 1, "message": "x"}},
        "an error that is none": {"id": 7, "error": "x"},
        "the id of a question": {"id": "ask-1", "result": {"action": "accept", "content": {}}},
        "without id": {"result": {}},
        "an error without id": {"error": {}},
    }.items():
        body = encode({"jsonrpc": "2.0", **parts})
        yield Case(f"response: {name}", body, REQUEST, id=parts.get("id", NO_ID), places=dropped)
    for name, parts in {
        "both result and error": {"id": 7, "result": {}, "error": {}},
        "neither": {"id": 7},
        "an id of null": {"id": None, "result": {}},
        "an id that is a list": {"id": [], "error": {}},
        "a float id": {"id": 1.5, "result": {}},
    }.items():
        body = encode({"jsonrpc": "2.0", **parts})
        yield Case(f"response: {name}", body, REQUEST, id=7 if parts["id"] == 7 else NO_ID)


def batches() -> Iterator[Case]:
    """No revision has batches; see `test_batches` for 2025-03-26, which had."""
    ping, start = message("ping"), legacy("initialize", protocolVersion="2025-11-25", capabilities={})
    for name, items in {
        "empty": [],
        "of numbers": [1, 2, 3],
        "of null": [None],
        "in a batch": [[]],
        "in a batch in a batch": [[[ping]]],
        "of empty objects": [{}, {}],
        "of one": [ping],
        "of two": [ping, message("ping", id_=8)],
        "of the same": [ping, ping],
        "of modern ones": [modern(), modern(id_=8)],
        "of both eras": [modern(), ping],
        "with initialize": [start, ping],
        "of notifications": [message("notifications/initialized", id_=OMIT)],
        "of responses": [{"jsonrpc": "2.0", "id": 1, "result": {}}],
        "of calls": [call("legacy", "touch", {}), call("modern", "touch", {})],
        "of a hundred and one": [message("ping", id_=number) for number in range(101)],
        "of ten thousand": [1] * 10_000,
    }.items():
        yield Case(f"a batch {name}", encode(items), REQUEST)
