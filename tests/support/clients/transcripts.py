"""Run a scripted client against a server in this process and record both sides: over a pipe, or over HTTP
without a socket.

A transcript is text: lines with `>` were sent, lines with `<` received. What differs from run to run (session
ids, sealed states, references to the log) is replaced by a name in angle brackets.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolcrib.protocol import Engine, Reply
from toolcrib.transports.http.endpoint import Endpoint
from toolcrib.transports.http.hosts import HostCheck
from toolcrib.transports.http.request import Head, Request
from toolcrib.transports.http.response import PendingResponse, Response
from toolcrib.transports.pipe import Pipe

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
TURNS = 60
"""Turns of the loop after which a call that has not ended waits for something."""
_NAMED = (
    (re.compile(rb'"requestState":"[A-Za-z0-9_-]{60,}"'), b'"requestState":"<state>"'),
    (re.compile(rb'"elicitationId":"[A-Za-z0-9_-]{16}"'), b'"elicitationId":"<elicitation>"'),
    (re.compile(rb"\(reference [0-9a-f]{8}\)"), b"(reference <reference>)"),
)


@dataclass(frozen=True)
class Answers:
    """The answers to the last questions, in order; `to` overrides the message that carries them, and `state`
    the sealed state."""

    replies: Sequence[Any]
    to: Mapping[str, Any] = field(default_factory=dict)
    state: str | None = None


@dataclass(frozen=True)
class Post:
    """An unusual HTTP request: `headers` override those of the client (None omits one)."""

    message: Any = None
    headers: Mapping[str, str | None] = field(default_factory=dict)
    method: str = "POST"
    path: str = "/mcp"


NEXT_PAGE = object()
"""Ask for the page after the one that was just heard."""


@dataclass(frozen=True)
class Play:
    """A script: the messages of a client in order. `over` are the transports: "pipe", "http"."""

    name: str
    lines: Sequence[Any]
    over: Sequence[str] = ("pipe", "http")
    world: str = "plain"
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    is_met: bool = True  # hands have been shaken before it begins


class Voice:
    """Builds the messages of a client of one version."""

    def __init__(self, version: str, capabilities: Mapping[str, Any]) -> None:
        self.version = version
        self.is_modern = version == MODERN
        self.capabilities = capabilities
        self.number = 0

    @property
    def envelope(self) -> dict[str, Any]:
        return {f"{META}protocolVersion": self.version, f"{META}clientCapabilities": self.capabilities}

    def request(self, method: str, params: Mapping[str, Any], **meta: Any) -> dict[str, Any]:
        """Return a request. `meta` is added to the envelope, if there is one."""
        self.number += 1
        whole = dict(params)
        if self.is_modern:
            whole["_meta"] = self.envelope | meta
        elif meta:
            whole["_meta"] = meta
        return {"jsonrpc": "2.0", "id": self.number, "method": method, "params": whole}

    def headers(self, message: Any, session: str | None) -> dict[str, str]:
        """Return the headers that a correct client sends with this."""
        if not self.is_modern:
            found = {} if session is None else {"Mcp-Session-Id": session}
            if self.version >= "2025-06-18" and session is not None:
                found["MCP-Protocol-Version"] = self.version
            return found
        found = {"MCP-Protocol-Version": self.version}
        if isinstance(message, dict) and isinstance(message.get("method"), str):
            found["Mcp-Method"] = message["method"]
            params = message.get("params")
            if isinstance(params, dict) and isinstance(params.get("name"), str):
                found["Mcp-Name"] = params["name"]
        return found


class Stage:
    """One server, against which scripts run one after the other."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._endpoint = Endpoint(engine, HostCheck("127.0.0.1"))

    async def play(self, play: Play, version: str, way: str) -> list[str]:
        """Run the script and return the transcript."""
        voice = Voice(version, play.capabilities)
        scene = _PipeScene(self._engine, voice) if way == "pipe" else _HTTPScene(self._endpoint, voice)
        try:
            if play.is_met and not voice.is_modern:
                opening = {"protocolVersion": version, "capabilities": play.capabilities}
                await scene.say(voice.request("initialize", opening))
                scene.script.clear()
            for line in play.lines:
                await _say(scene, voice, line)
        finally:
            await scene.leave()
        return scene.script


class _Scene:
    """One client. `heard` is the reply to its last message."""

    def __init__(self, voice: Voice) -> None:
        self._envelope = _encode(voice.envelope)[1:-1]
        self.script: list[str] = []
        self.said: Any = None
        self.heard: list[Any] = []
        self.session: str | None = None

    async def say(self, message: Any, post: Post | None = None) -> None:
        raise NotImplementedError

    async def leave(self) -> None:
        raise NotImplementedError

    def _note(self, mark: str, data: bytes) -> None:
        for pattern, name in _NAMED:
            data = pattern.sub(name, data)
        if mark == ">":
            data = data.replace(self._envelope, b"<envelope>")
        if self.session is not None:
            data = data.replace(self.session.encode(), b"<session>")
        self.script += [f"{mark} {line}" for line in data.decode("utf-8", "backslashreplace").split("\n")]


async def _say(scene: _Scene, voice: Voice, line: Any) -> None:
    if isinstance(line, Answers):
        await _answer(scene, voice, line)
    elif line is NEXT_PAGE:
        await scene.say(voice.request("tools/list", {"cursor": scene.heard[-1]["result"]["nextCursor"]}))
    elif isinstance(line, Post):
        await scene.say(line.message(voice) if callable(line.message) else line.message, line)
    else:
        await scene.say(line(voice) if callable(line) else line)


async def _answer(scene: _Scene, voice: Voice, answers: Answers) -> None:
    if not voice.is_modern:
        asked = [message["id"] for message in scene.heard if "method" in message and "id" in message]
        for number, reply in zip(asked, answers.replies, strict=False):  # not everybody can be asked
            scene.heard = []
            await scene.say({"jsonrpc": "2.0", "id": number, "result": reply})
        return
    result = scene.heard[-1]["result"]
    replies = dict(zip(result["inputRequests"], answers.replies, strict=False))
    params = {key: value for key, value in scene.said["params"].items() if key != "_meta"}
    state = {"requestState": answers.state or result["requestState"], "inputResponses": replies}
    await scene.say(voice.request("tools/call", {**params, **state, **answers.to}))


class _PipeScene(_Scene):
    def __init__(self, engine: Engine, voice: Voice) -> None:
        super().__init__(voice)
        self._pipe = Pipe(engine, self._hear)

    async def say(self, message: Any, post: Post | None = None) -> None:
        self.said, self.heard = message, []
        data = _encode(message)
        self._note(">", data)
        self._pipe.feed(data)
        for _ in range(TURNS):
            await asyncio.sleep(0)
            if self._pipe.is_idle:
                break

    async def leave(self) -> None:
        await self._pipe.aclose()

    def _hear(self, data: bytes) -> None:
        self.heard.append(json.loads(data))
        self._note("<", data)


def receive(endpoint: Endpoint, request: Request) -> Reply | PendingResponse:
    """Handle a request as a transport does, whose caller is authenticated at once."""
    refusal = endpoint.admit(request)
    assert refusal is None or isinstance(refusal, Reply)
    return refusal or endpoint.handle(request)


class _HTTPScene(_Scene):
    def __init__(self, endpoint: Endpoint, voice: Voice) -> None:
        super().__init__(voice)
        self._endpoint = endpoint
        self._voice = voice
        self._papers: list[tuple[PendingResponse, Paper]] = []

    async def say(self, message: Any, post: Post | None = None) -> None:
        post = post or Post()
        headers: dict[str, str | None] = {**self._voice.headers(message, self.session), **post.headers}
        shown = "; ".join(f"{name}: {value}" for name, value in headers.items() if value is not None)
        self._note(">", f"{post.method} {post.path} {shown}".rstrip().encode())
        data = _encode(message) if message is not None else b""
        if data:
            self._note(">", data)
        own = {"Host": "127.0.0.1", "Content-Type": "application/json"}
        own["Accept"] = "application/json, text/event-stream"
        fields = {name.lower(): value for name, value in {**own, **headers}.items() if value is not None}
        encoded = {name.encode(): value.encode("latin-1") for name, value in fields.items()}
        outcome = receive(self._endpoint, Request(Head(post.method, post.path, encoded), data))
        self.said, self.heard = message, []
        if isinstance(outcome, Reply):
            self._hear_answer(outcome)
        else:
            paper = Paper()
            self._papers.append((outcome, paper))
            outcome.begin(paper)
        for _ in range(TURNS):
            await asyncio.sleep(0)
            if all(paper.is_done for _, paper in self._papers):
                break
        self._read_papers()

    async def leave(self) -> None:
        for talk, paper in self._papers:
            if not paper.is_done:
                talk.lost()
        await asyncio.sleep(0)

    def _read_papers(self) -> None:
        """Return the output of streams and late answers, in the order in which they began."""
        for _, paper in self._papers:
            if paper.answered is not None:
                self._hear_answer(paper.answered)
                paper.answered = None
            if not paper.text:
                continue
            text, paper.text = paper.text, b""
            self._note("<", text.removesuffix(b"\n\n"))
            for line in text.split(b"\n"):
                if line.startswith(b"data: {"):
                    self.heard.append(json.loads(line[6:]))

    def _hear_answer(self, answer: Reply) -> None:
        fields = dict(answer.headers)
        self.session = fields.get(b"mcp-session-id", b"").decode() or self.session
        words = [str(answer.status), _type_of(answer) if answer.body else ""]
        words += [f"{name.decode()}: {value.decode()}" for name, value in fields.items()]
        self._note("<", " ".join(word for word in words if word).encode())
        if answer.body:
            self._note("<", answer.body)
            found = json.loads(answer.body)
            self.heard += found if isinstance(found, list) else [found]


class Paper:
    """The writing side of an HTTP server."""

    def __init__(self) -> None:
        self.answered: Reply | None = None
        self.text = b""
        self.is_done = False

    def respond(self, answer: Reply) -> None:
        self.answered = answer
        self.is_done = True

    def open(self) -> None:
        self.text += b"200 text/event-stream\n"

    def write(self, data: bytes) -> None:
        self.text += data

    def finish(self) -> None:
        self.is_done = True


def _type_of(answer: Reply) -> str:
    return answer.content_type.decode() if isinstance(answer, Response) else "application/json"


def _encode(message: Any) -> bytes:
    if isinstance(message, bytes):
        return message
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
