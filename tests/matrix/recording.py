"""Records how a server on stdio answers: its tools, the results of calls and of other requests, and what it
sends meanwhile.

The client knows only JSON lines and the handshake of 2025-11-25, which every version of both libraries
accepts, so that the same bytes reach a server whether its own library serves it or toolcrib does.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

REVISION = "2025-11-25"
START_S = 120.0
CALL_S = 60.0
ANSWER = {"action": "accept", "content": {"really": True, "reason": "old"}}
"""What the person answers whom a server asks."""
QUIET = {
    "FASTMCP_CHECK_FOR_UPDATES": "off",
    "FASTMCP_SHOW_CLI_BANNER": "false",
    "NO_COLOR": "1",
    "PYTHONWARNINGS": "ignore",
}

Call = tuple[str, Mapping[str, Any]]
Request = tuple[str, Mapping[str, Any]]
"""A method and its parameters."""
Json = dict[str, Any]


@dataclass
class Answer:
    """The reply to one call, and what the server sent before it."""

    reply: Json
    progress: list[Json] = field(default_factory=list)
    logs: list[Json] = field(default_factory=list)
    questions: list[Json] = field(default_factory=list)


@dataclass
class Recording:
    tools: list[Json]
    answers: list[Answer]
    errors: str
    """Everything on standard error."""
    features: list[Answer] = field(default_factory=list)
    """The replies to other requests."""


def record(
    command: list[str],
    calls: Iterable[Call],
    folder: Path,
    environ: Mapping[str, str] | None = None,
    requests: Iterable[Request] = (),
) -> Recording:
    """Start a server, list its tools, make some calls and other requests one after the other, and stop it."""
    with _Program(command, folder, environ or {}) as program:
        client = {"protocolVersion": REVISION, "clientInfo": {"name": "recorder", "version": "1"}}
        program.request("initialize", {**client, "capabilities": {"elicitation": {}, "roots": {}}}, START_S)
        program.send({"method": "notifications/initialized"})
        tools: list[Json] = []
        cursor: Json = {}
        while True:
            page = program.request("tools/list", cursor).reply["result"]
            tools += page["tools"]
            if not page.get("nextCursor"):
                break
            cursor = {"cursor": page["nextCursor"]}
        answers = [program.request("tools/call", {"name": name, "arguments": given}) for name, given in calls]
        features = [program.request(method, dict(params)) for method, params in requests]
        return Recording(tools, answers, program.errors, features)


class _Program:
    def __init__(self, command: list[str], folder: Path, environ: Mapping[str, str]) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed on leaving
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=folder,
            env={**os.environ, **QUIET, **environ},
        )
        self._command = " ".join(command)
        self._messages: queue.Queue[Json | None] = queue.Queue()
        self._last_id = 0
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        process = self._process
        assert process.stdin is not None
        try:
            process.stdin.close()
            process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            process.kill()
            process.wait()
        finally:
            assert process.stdout is not None
            process.stdout.close()
            self._log.close()

    @property
    def errors(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                if line.startswith(b"{"):
                    self._messages.put(json.loads(line))
        except ValueError:
            pass  # closed while reading
        self._messages.put(None)

    def send(self, message: Json) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def request(self, method: str, params: Json, timeout_s: float = CALL_S) -> Answer:
        self._last_id += 1
        id_ = self._last_id
        if method == "tools/call":
            params = {**params, "_meta": {"progressToken": f"p{id_}"}}
        self.send({"id": id_, "method": method, "params": params})
        answer = Answer({})
        while True:
            message = self._next(timeout_s, method)
            if message.get("id") == id_ and "method" not in message:
                answer.reply = message
                return answer
            self._take(message, answer)

    def _next(self, timeout_s: float, method: str) -> Json:
        try:
            message = self._messages.get(timeout=timeout_s)
        except queue.Empty:
            message = None
        if message is None:
            raise RuntimeError(f"{self._command}: no answer to {method}\n{self.errors[-4000:]}")
        return message

    def _take(self, message: Json, answer: Answer) -> None:
        params = message.get("params") or {}
        match message.get("method"):
            case "notifications/progress":
                answer.progress.append(params)
            case "notifications/message":
                answer.logs.append(params)
            case "elicitation/create":
                answer.questions.append(params)
                self.send({"id": message["id"], "result": ANSWER})
            case str() if "id" in message:
                self.send({"id": message["id"], "error": {"code": -32601, "message": "not supported"}})
