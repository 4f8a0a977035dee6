"""Reviewed differences between toolcrib and the official SDKs (Python 2.3, TypeScript 2.4) and fastmcp 4.1,
with reasons.

An entry is for requests that have one of its traits (or kinds). `ours` and `theirs` are patterns of outcomes
as the differential test writes them: a status, and a code or a word. Where we refuse what they do not check,
their outcome may be anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.support.hostile.odd_requests import Draft

ANY = "*"


@dataclass(frozen=True)
class Difference:
    traits: tuple[str, ...]
    ours: str
    theirs: str
    reason: str
    era: str = ANY
    rival: str = ANY

    def fits(self, draft: Draft, rival: str, ours: str, theirs: str) -> bool:
        return (
            any(name in self.traits for name in draft.names)
            and fnmatchcase(draft.era, self.era)
            and fnmatchcase(rival, self.rival)
            and fnmatchcase(ours, self.ours)
            and fnmatchcase(theirs, self.theirs)
        )


def find_reviewed(draft: Draft, rival: str, ours: str, theirs: str) -> Difference | None:
    """Return the entry for a difference, or None if it was not reviewed."""
    fitting = (item for item in REVIEWED if item.fits(draft, rival, ours, theirs))
    return next(fitting, None)


REVIEWED = (
    # --- before the message is read ---
    Difference(
        ("origin evil",),
        "403 -32600",
        ANY,
        "Origin is checked always (wire.md 1.9), and in JSON; fastmcp never",
    ),
    Difference(("host evil",), "421 -32600", ANY, "Host is checked on loopback, in JSON; fastmcp never"),
    Difference(
        ("type text", "type missing", "type near miss"),
        *("415 -32600", ANY),
        "415 is what HTTP has for it; the others say 400, or take what only begins like JSON",
    ),
    Difference(
        ("accept JSON", "accept events", "accept a page"),
        *("406 -32600", ANY),
        "refused by all; we say why in JSON",
    ),
    Difference(("accept missing",), ANY, "406 *", "HTTP: no Accept means that anything is accepted"),
    Difference(("verb PUT",), "405 -32600", ANY, "405 from all; we say why in JSON"),
    Difference(
        ("session unknown",),
        *(ANY, "404 *"),
        "a session means nothing to 2026-07-28, whatever the header says; the others look it up first",
    ),
    # --- reading ---
    Difference(
        (
            *("body with a BOM", "body with a key twice", "body with NaN", "body with a large number"),
            *("body 100 deep", "body bad UTF-8"),
        ),
        *("400 -32700", ANY),
        "strict reading (reliability.md 5.1); the others take what two readers could understand differently",
    ),
    # --- the shape of a message ---
    Difference(
        ("id null", "id fraction", "id boolean", "id list"),
        *("400 -32600", ANY),
        "an id is a string or an integer; the others take the message for a notification, or run it",
    ),
    Difference(
        ("jsonrpc missing", "jsonrpc old", "method missing", "method number", "params list", "body number"),
        *("400 -32600", ANY),
        "no request is -32600 in JSON-RPC; the older side of the others says -32602",
    ),
    Difference(
        ("params null", "params text"),
        *("?00 -32602", ANY),
        "params that are no object are invalid params; the others say -32600, or ignore them",
    ),
    Difference(
        ("body in a list", "body twice in a list", "body empty list"),
        *("400 -32600", ANY),
        "no batches; the others say -32602 on their older side",
    ),
    Difference(
        ("id missing",),
        *("202 nothing", ANY),
        "a notification is taken without a word, whatever is in it; the others check its headers or method",
    ),
    # --- the newer era ---
    Difference(
        ("header version missing", "header version old"),
        *("400 -32020", "400 -32600"),
        "an envelope under another header is a mismatch (wire.md 4)",
        era="modern",
    ),
    Difference(
        ("header version missing", "header version old"),
        *(ANY, "400 -32600"),
        "the body says that it is of 2026-07-28; the others go by the header alone (wire.md 2.1)",
        era="modern",
    ),
    Difference(
        (
            *("envelope version number", "envelope missing", "envelope without version"),
            *("envelope capabilities list", "envelope without capabilities"),
        ),
        *("400 -32602", "40? -320*"),
        "the envelope is checked before headers, version and method (wire.md 1.9)",
        era="modern",
    ),
    Difference(
        ("envelope capabilities list", "envelope without capabilities"),
        *("400 -32602", "404 -32601"),
        "the envelope is checked before the method (wire.md 1.9)",
        era="modern",
    ),
    Difference(
        ("envelope missing", "envelope without version"),
        *("400 -32020", ANY),
        "initialize without an envelope, under a header of the newer era (wire.md 2.1)",
        era="modern",
    ),
    Difference(
        ("arguments list", "arguments null", "name missing", "name number", "cursor number"),
        *("200 -32602", "400 -32602"),
        "understood and refused rides on 200: a client of both eras takes an unknown 400 for an old server",
        era="modern",
    ),
    Difference(("envelope log level unknown",), "200 -32602", "400 -32602", "the same", era="modern"),
    Difference(("subscriptions/listen",), "200 -32602", "400 *", "the same", era="modern"),
    Difference(
        (
            *("resources/subscribe", "completion/complete", "logging/setLevel"),
            *("tasks/get", "ping", "initialize"),
        ),
        *("404 -32601", "400 *"),
        "what is not offered does not exist (wire.md 1.1); the others check its parameters first",
        era="modern",
    ),
    # --- the older era ---
    Difference(
        (
            "resources/subscribe",
            "completion/complete",
            "subscriptions/listen",
            "server/discover",
            "tasks/get",
        ),
        *("200 -32601", "?00 -326*"),
        "what is not offered does not exist; the others check its parameters first",
        era="legacy",
    ),
    Difference(
        ("without a session",),
        *(ANY, "400 -32600"),
        "who needs no session is served without one (wire.md 2.4)",
        era="legacy",
    ),
    Difference(
        ("initialize",),
        *("400 -32020", "?00 -32602"),
        "initialize and a header of the newer era contradict each other (wire.md 2.1)",
    ),
    # --- tools and arguments ---
    Difference(
        ("unknown tool", "empty tool", "unknown tool by case"),
        *("200 -32602", "200 failed"),
        "an unknown tool is -32602 (wire.md 4)",
    ),
    Difference(
        ("unknown tool by case",), "200 result*", "200 failed", "names fold case (design decision 14)"
    ),
    Difference(("arguments null",), "200 -32602", "200 *", "arguments are an object, or absent"),
    Difference(
        ("boolean for a number", "number for a boolean", "text for a boolean", "number in a text"),
        *("200 failed", "200 result*"),
        "true is no number, and yes no boolean (design decision 2); the others coerce",
    ),
    Difference(
        ("unknown argument",), "200 failed", "200 result*", "an unknown argument is refused", rival="mcp"
    ),
    Difference(
        ("text for a record", "text for a list"),
        *("200 result*", "200 failed"),
        "JSON in a text is read where a schema asks for more (design decision 2)",
    ),
    Difference(
        ("an empty total",), "200 result 0*", "200 result 0*", "0 and 0.0 are one number", rival="fastmcp"
    ),
    Difference(
        ("cursor empty", "cursor unknown"),
        *("200 -32602", "200 result*"),
        "a cursor that was never given out is refused (wire.md 4)",
    ),
    # --- the TypeScript SDK alone ---
    Difference(
        ("accept anything",),
        *(ANY, "406 -32000"),
        "*/* accepts JSON and events; it wants both by name on its older side, where it also takes what it "
        "cannot read",
        rival="typescript",
    ),
    Difference(
        ("session unknown",),
        *("404 -32600", ANY),
        "a session that is not there is 404 (wire.md 2.4); it keeps none and does not look",
        era="legacy",
        rival="typescript",
    ),
    Difference(
        ("logging/setLevel",),
        *("200 -32602", "200 -32601"),
        "we offer logging, and miss the level; it was built without",
        rival="typescript",
    ),
    Difference(
        ("initialize", "cursor number"),
        *("200 -32602", "200 -32603"),
        "what is wrong with parameters is invalid params, and no fault of the server",
        rival="typescript",
    ),
    Difference(
        ("unknown argument",),
        "200 failed",
        "200 result*",
        "an unknown argument is refused",
        rival="typescript",
    ),
    Difference(
        ("unknown tool by case",),
        *("200 [rf]*", "200 -32602"),
        "names fold case (design decision 14)",
        rival="typescript",
    ),
    Difference(
        ("number in a text",),
        *("200 result*", "200 failed"),
        "a number in a text is read where a schema asks for one (design decision 2)",
        rival="typescript",
    ),
    Difference(
        ("move",), "200 result {*", "200 result {*", "2 and 2.0 are one number in JSON", rival="typescript"
    ),
    Difference(
        ("name number",),
        *("400 -32020", "200 -32602"),
        "a header that repeats the name differs from a name that is a number; headers come first",
        era="modern",
        rival="typescript",
    ),
    Difference(
        ("name missing",),
        *("200 -32602", "400 -32020"),
        "a header that repeats nothing is not looked at; it wants it to be readable all the same",
        era="modern",
        rival="typescript",
    ),
    Difference(
        ("header version missing", "header version old"),
        *("400 -32020", "400 -32022"),
        "headers are compared before the version is looked up (wire.md 1.9); it has it the other way round",
        era="modern",
        rival="typescript",
    ),
    Difference(
        ("envelope log level unknown",),
        *("40? -32*", "400 -32602"),
        "headers and method come before what only some methods need",
        era="modern",
        rival="typescript",
    ),
    Difference(
        ("body a response",),
        *("400 -32600", ANY),
        "nobody asked: no request is -32600 in JSON-RPC; it takes it, or has a code of its own",
        rival="typescript",
    ),
)
