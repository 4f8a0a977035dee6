"""Plays about the protocol itself: hands shaken, lists, methods, ids, shapes of messages, cancellation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.clients.transcripts import MODERN, NEXT_PAGE, Play
from tests.wire.golden.said import OMIT, ask, call

INFO = {"name": "golden", "version": "1"}

METHODS = (
    *("initialize", "ping", "server/discover", "tools/LIST", "nonsense", "", "tools/call/now"),
    *("prompts/list", "prompts/get", "resources/list", "resources/templates/list", "resources/read"),
    *("resources/subscribe", "resources/unsubscribe", "completion/complete", "logging/setLevel"),
    *("tasks/get", "sampling/createMessage", "roots/list", "elicitation/create", "subscriptions/listen"),
)

IDS: list[tuple[str, Any]] = [
    ("one", 1),
    ("zero", 0),
    ("a negative one", -7),
    ("a large one", 2**63),
    ("a text", "abc"),
    ("an empty text", ""),
    ("text of many scripts", "Grüße 💡"),
    ("text with a quote", 'a"b\\'),
    ("a long text", "x" * 256),
    ("too long a text", "x" * 257),
    ("null", None),
    ("a fraction", 1.5),
    ("a boolean", True),
    ("a list", [1]),
    ("an object", {}),
]

SHAPES: list[tuple[str, bytes]] = [
    ("no JSON", b"{"),
    ("nothing", b" "),
    ("a word", b"hello"),
    ("bad UTF-8", b'{"jsonrpc":"2.0","id":1,"method":"\xff"}'),
    ("a key twice", b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}'),
    ("NaN", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}'),
    ("a number", b"5"),
    ("a text", b'"ping"'),
    ("null", b"null"),
    ("an empty object", b"{}"),
    ("no version", b'{"id":1,"method":"ping"}'),
    ("another version", b'{"jsonrpc":"1.0","id":1,"method":"ping"}'),
    ("no method", b'{"jsonrpc":"2.0","id":1}'),
    ("a number for a method", b'{"jsonrpc":"2.0","id":1,"method":5}'),
    ("an empty batch", b"[]"),
    ("a batch", b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"}]'),
    ("a batch of nonsense", b'[1,{"jsonrpc":"2.0","id":2,"method":"ping"},[]]'),
    ("an answer to nothing", b'{"jsonrpc":"2.0","id":"ask-1","result":{}}'),
    ("an error of nothing", b'{"jsonrpc":"2.0","id":"ask-1","error":{"code":1,"message":"m"}}'),
    ("a result and an error", b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}'),
]


def met(version: str) -> Iterator[Play]:
    if version == MODERN:
        for world in ("plain", "changing"):
            yield Play(f"who are you, {world}", [ask("server/discover")], world=world)
        return
    for world in ("plain", "changing"):
        yield Play(f"hands are shaken, {world}", [_hand(version)], world=world, is_met=False)
    for other in (MODERN, "1999-01-01", ""):
        yield Play(f"hands are shaken in {other!r}", [_hand(other)], over=["http"], is_met=False)
    for name, params in (
        ("without a version", {"capabilities": {}}),
        ("with a number for a version", {"protocolVersion": 1}),
        ("with a list of capabilities", {"protocolVersion": version, "capabilities": []}),
        ("without capabilities", {"protocolVersion": version}),
    ):
        yield Play(f"hands are shaken {name}", [ask("initialize", params)], is_met=False)
    yield Play("hands are shaken twice", [_hand(version), _hand(version)], is_met=False)
    early = [ask("ping"), ask("tools/list"), call("add", {"a": 1})]
    yield Play("before hands are shaken", early, over=["pipe"], is_met=False)


def _hand(version: str) -> Any:
    return ask("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": INFO})


def lists(version: str) -> Iterator[Play]:
    yield Play("the tools", [ask("tools/list")])
    yield Play("the tools, while they may change", [ask("tools/list")], over=["http"], world="changing")
    yield Play(
        "the tools, page by page", [ask("tools/list"), NEXT_PAGE, NEXT_PAGE], over=["pipe"], world="paged"
    )
    for name, cursor in (("empty", ""), ("of nobody", "bm9ib2R5"), ("a number", 1), ("null", None)):
        for world in ("plain", "paged"):
            line = ask("tools/list", {"cursor": cursor})
            yield Play(f"the tools, the cursor {name}, {world}", [line], over=["http"], world=world)


def methods(version: str) -> Iterator[Play]:
    for method in METHODS:
        yield Play(f"the method {method!r}", [ask(method)], over=["http"])
    yield Play("the method 'ping' over a pipe", [ask("ping")], over=["pipe"])
    yield Play("the method 'nonsense' over a pipe", [ask("nonsense")], over=["pipe"])
    for name, params in (("a list", [1]), ("null", None), ("a text", "x")):
        yield Play(f"params that are {name}", [ask("tools/list", params)], over=["http"])


def ids(version: str) -> Iterator[Play]:
    for name, id_ in IDS:
        yield Play(
            f"the id {name}", [call("add", {"a": 1}, id_=id_)], over=["http" if id_ is None else "pipe"]
        )
    yield Play("the id missing", [_notification("tools/call", {"name": "add"})])


def shapes(version: str) -> Iterator[Play]:
    for name, data in SHAPES:
        yield Play(f"a message: {name}", [data], over=["http"])
    for name in ("initialized", "cancelled", "progress", "roots/list_changed", "nonsense"):
        yield Play(f"the notification {name}", [_notification(f"notifications/{name}", OMIT)], over=["http"])


def cancelled(version: str) -> Iterator[Play]:
    waits = call("wait", {"key": "never"}, id_="w")
    stop = _notification("notifications/cancelled", {"requestId": "w", "reason": "enough"})
    yield Play("a call is cancelled", [waits, stop, call("add", {"a": 1}, id_="w")], over=["pipe"])
    yield Play("another call is cancelled", [call("add", {"a": 1}, id_="w"), stop], over=["pipe"])
    yield Play("an id under way is used again", [waits, call("add", {"a": 1}, id_="w"), stop], over=["pipe"])
    for number in (None, 1.5, [], OMIT):
        params = {} if number is OMIT else {"requestId": number}
        line = _notification("notifications/cancelled", params)
        yield Play(f"cancelling {'nothing' if number is OMIT else number!r}", [line], over=["http"])
    if version == MODERN:
        yield from _listening()


def _listening() -> Iterator[Play]:
    for name, wanted in (
        ("changes of tools", {"toolsListChanged": True}),
        ("changes of everything", {"toolsListChanged": True, "promptsListChanged": True}),
        ("nothing", {}),
        ("no changes", {"toolsListChanged": False}),
        ("a list", []),
    ):
        listen = ask("subscriptions/listen", {"notifications": wanted}, id_="ear")
        yield Play(f"listening for {name}", [listen], world="changing")
    stop = _notification("notifications/cancelled", {"requestId": "ear"})
    listen = ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id_="ear")
    yield Play("listening, and no longer", [listen, stop], over=["pipe"], world="changing")
    yield Play("listening without a wish", [ask("subscriptions/listen")], over=["http"], world="changing")


def _notification(method: str, params: Any) -> Any:
    message = {"jsonrpc": "2.0", "method": method}
    return message if params is OMIT else {**message, "params": params}
