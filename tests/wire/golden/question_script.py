"""Plays about questions: who can be asked what, and what comes of the answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.clients.transcripts import MODERN, Answers, Play
from tests.wire.golden.said import ask, call

FORM = {"elicitation": {}}
ALL = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {"listChanged": True}}
ADA = {"action": "accept", "content": {"name": "Ada"}}
POEM = {
    "role": "assistant",
    "content": {"type": "text", "text": "roses"},
    "model": "m-1",
    "stopReason": "end",
}
HOME = {"roots": [{"uri": "file:///home/ada", "name": "home"}]}

ANSWERED: list[tuple[str, str, list[Any]]] = [
    ("a form is filled in", "greet", [ADA]),
    ("a form is declined", "greet", [{"action": "decline"}]),
    ("a form is put away", "greet", [{"action": "cancel"}]),
    ("a yes", "confirm", [{"action": "accept", "content": {}}]),
    ("a no", "confirm", [{"action": "decline"}]),
    ("a page is visited", "visit", [{"action": "accept"}]),
    ("a page is not visited", "visit", [{"action": "cancel"}]),
    ("the model writes", "complete", [POEM]),
    ("the model writes several blocks", "complete", [{**POEM, "content": [POEM["content"]] * 2}]),
    ("the folders", "where", [HOME]),
    ("no folders", "where", [{"roots": []}]),
    ("somebody is asked, though it could go on without", "careful", [ADA]),
]

UNFIT: list[tuple[str, str, Any]] = [
    ("another action", "greet", {"action": "perhaps"}),
    ("a field missing", "greet", {"action": "accept", "content": {}}),
    ("a field of another kind", "greet", {"action": "accept", "content": {"name": 5}}),
    ("a text for an answer", "greet", "Ada"),
    ("null for an answer", "greet", None),
    ("no role", "complete", {"content": {"type": "text", "text": "x"}}),
    ("folders that are none", "where", {"roots": [{"name": "x"}]}),
]

UNABLE: list[tuple[str, str, dict[str, Any]]] = [
    ("a form", "greet", {}),
    ("a form, of one who opens pages only", "greet", {"elicitation": {"url": {}}}),
    ("a page", "visit", {}),
    ("a page, of one who knows forms only", "visit", {"elicitation": {"form": {}}}),
    ("the model", "complete", FORM),
    ("the folders", "where", FORM),
    ("several things", "survey", FORM),
    ("somebody, where it can go on without", "careful", {}),
]


def answered(version: str) -> Iterator[Play]:
    for name, tool, replies in ANSWERED:
        ways = ["pipe", "http"] if tool in ("greet", "visit") else ["http"]
        yield Play(f"asking: {name}", [call(tool, {}), Answers(replies)], over=ways, capabilities=ALL)
    twice = [
        call("interview", {}),
        Answers([ADA]),
        Answers([{"action": "accept", "content": {"name": "King"}}]),
    ]
    yield Play("asking: twice", twice, capabilities=ALL)
    yield Play(
        "asking: three things at once", [call("survey", {}), Answers([ADA, POEM, HOME])], capabilities=ALL
    )
    yield Play(
        "asking: with arguments", [call("confirm", {"what": "that"}), Answers([ADA])], capabilities=ALL
    )


def refused(version: str) -> Iterator[Play]:
    for name, tool, reply in UNFIT:
        lines = [call(tool, {}), Answers([reply])]
        yield Play(f"asking: {name}", lines, over=["http"], capabilities=ALL)
    for name, tool, capabilities in UNABLE:
        yield Play(
            f"asking somebody who cannot: {name}", [call(tool, {})], over=["http"], capabilities=capabilities
        )
    if version == MODERN:
        yield from _sealed()


def _sealed() -> Iterator[Play]:
    """What comes back with an answer may have been changed."""
    changed: list[tuple[str, Answers]] = [
        ("of nobody", Answers([ADA], state="bm9ib2R5")),
        ("that is no text", Answers([ADA], to={"requestState": 5})),
        ("that is null", Answers([ADA], to={"requestState": None})),
        ("for another tool", Answers([ADA], to={"name": "careful"})),
        ("for other arguments", Answers([ADA], to={"arguments": {"what": "more"}})),
        ("with answers that are a list", Answers([ADA], to={"inputResponses": [ADA]})),
        ("with answers that are null", Answers([ADA], to={"inputResponses": None})),
        ("without answers", Answers([], to={"inputResponses": {}})),
        ("with answers to something else", Answers([], to={"inputResponses": {"other": ADA}})),
        ("with more answers than asked for", Answers([], to={"inputResponses": {"other": 1, "sure": ADA}})),
    ]
    for name, answers in changed:
        lines = [call("confirm", {}), answers]
        yield Play(f"a state {name}", lines, over=["http"], capabilities=ALL)
    lines = [ask("tools/call", {"name": "greet", "inputResponses": {"who": ADA}})]
    yield Play("an answer before it was asked for", lines, over=["http"], capabilities=ALL)
    twice = [call("interview", {}), Answers([ADA]), Answers([{"action": "cancel"}])]
    yield Play("an answer that is kept while another is given", twice, over=["pipe"], capabilities=ALL)
