"""The sample servers, and the calls that are made to each."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.matrix.recording import Call, Request

SERVERS = Path(__file__).parent / "servers"

_FUNCTIONS: list[Call] = [
    ("add", {"a": 1}),
    ("add", {"a": 1, "b": 5}),
    ("add", {"a": "seven"}),
    ("add", {}),
    ("greet", {"name": "Ada"}),
    ("place-order", {"order": {"item": "tea", "to": {"street": "Main"}}}),
    ("place-order", {"order": {"item": "tea", "quantity": 99}}),
    ("pick", {"size": "small", "notes": ["a", "b"]}),
    ("pick", {"size": "huge"}),
    ("pack", {"item": "tea", "heavy": True}),
    ("names", {"count": 2}),
    ("names", {"count": 0}),
    ("untyped", {"value": "x"}),
    ("nothing", {}),
    ("picture", {}),
    ("album", {}),
    ("block", {}),
    ("whole", {}),
    ("refuse", {"why": "not today"}),
    ("crash", {"why": "a private detail"}),
    ("tidy", {}),
    ("repeat", {"text": "a"}),
    ("repeat", {"text": "a", "times": 10}),
    ("missing", {}),
]
_CONTEXT: list[Call] = [
    ("count", {"steps": 3}),
    ("say", {"text": "hello"}),
    ("books", {}),
    ("remove", {"name": "tea"}),
    ("fold", {"text": "paper"}),
]
_GUARDED: list[Call] = [
    ("read", {"path": "a.txt"}),
    ("delete", {"path": "a.txt"}),
    ("count", {"steps": 2}),
    ("broken", {"why": "out of order"}),
]
_LOW_LEVEL: list[Call] = [
    ("echo", {"text": "hello"}),
    ("echo", {}),
    ("draw", {}),
    ("books", {}),
    ("fail", {"text": "out of order"}),
    ("missing", {}),
]


_FEATURES: list[Request] = [
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("prompts/list", {}),
    ("resources/read", {"uri": "notes://today"}),
    ("resources/read", {"uri": "notes://on/tea"}),
    ("resources/read", {"uri": "notes://on/a%20b"}),
    ("resources/read", {"uri": "notes://nothing"}),
    ("prompts/get", {"name": "write", "arguments": {"topic": "tea"}}),
    ("prompts/get", {"name": "write", "arguments": {"topic": '{"a": 1}'}}),
]
_COMPLETING: list[Request] = [
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "write"}, "argument": {"name": "topic", "value": "t"}},
    ),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": "notes://on/{topic}"},
            "argument": {"name": "topic", "value": ""},
        },
    ),
]


@dataclass(frozen=True)
class Sample:
    library: str
    name: str
    calls: list[Call]
    majors: tuple[int, ...] = (1, 2, 3, 4)
    """The generations of the library that this was written for."""
    is_guarded: bool = False
    """Whether code of the author stands between clients and every function."""
    requests: list[Request] = field(default_factory=list)
    """Requests of resources, prompts and completion."""

    @property
    def file(self) -> Path:
        return SERVERS / f"{self.name}.py"


SAMPLES = [
    Sample("mcp", "sdk_functions", [*_FUNCTIONS, ("whole", {"bad": True})], requests=_FEATURES),
    Sample("mcp", "sdk_context", [*_CONTEXT, ("context_comes_first", {})]),
    Sample("mcp", "sdk_guarded", _GUARDED, is_guarded=True),
    Sample("mcp", "sdk_lowlevel_1", _LOW_LEVEL, (1,), is_guarded=True, requests=[*_FEATURES, *_COMPLETING]),
    Sample("mcp", "sdk_lowlevel_2", _LOW_LEVEL, (2,), is_guarded=True, requests=[*_FEATURES, *_COMPLETING]),
    Sample("fastmcp", "fast_functions", _FUNCTIONS, requests=_FEATURES),
    Sample(
        "fastmcp",
        "fast_context",
        [*_CONTEXT, ("remember", {"key": "k", "value": "v"}), ("current", {"text": "x"})],
    ),
    Sample(
        "fastmcp",
        "fast_middleware",
        [
            ("open", {"path": "a.txt"}),
            ("denied", {"path": "a.txt"}),
            ("hidden", {"path": "a.txt"}),
            ("count", {"steps": 2}),
            ("broken", {"why": "out of order"}),
        ],
        is_guarded=True,
        requests=[*_FEATURES, ("resources/read", {"uri": "notes://denied"})],
    ),
    Sample("fastmcp", "fast_overrides", _GUARDED[:2], is_guarded=True),
    Sample(
        "fastmcp",
        "fast_visibility",
        [
            ("find", {"words": "tea"}),
            ("find", {"words": "tea", "limit": 1}),
            ("shown", {"text": "x"}),
            ("inner", {"text": "x"}),
            ("off", {"text": "x"}),
            ("phone_ring", {"number": "5"}),
            ("phone_desk_ring", {"number": "5"}),
        ],
    ),
]
