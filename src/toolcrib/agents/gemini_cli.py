"""The provider `gemini_cli`: a command-line program as a model, with the catalog in its prompt.

The program is started for each turn. It reads its prompt from stdin to the end, prints its answer, and exits.
It calls tools by printing lines, and finds the results below, in the prompt of the next turn:

    {"tool_call": {"name": "add", "args": {"a": 1}}}
    {"tool_result": {"name": "add", "ok": true, "result": 2}}
    {"tool_result": {"name": "add", "ok": false, "error": "..."}}

Gemini CLI works like this with a pipe, and so do most other command-line programs for models.
"""

from __future__ import annotations

import asyncio
import codecs
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolcrib.agents.provider import Event, Final, SessionCtx, Status, Token, ToolAnswer, ToolCall, providers
from toolcrib.catalog.export import ToolCall as ExportedCall
from toolcrib.catalog.export.formats import Prompt
from toolcrib.errors import AgentError, ConfigurationError
from toolcrib.processes import GRACE_S, ChildProcess, StartError
from toolcrib.validation import codec

# --- the process --------------------------------------------------------------------------------------

_READ_BYTES = 64 * 1024
_MAX_UNREAD = 128 * 1024


class Child(ChildProcess):
    """One run of an agent program. Its output waits in the pipe until it is read."""

    def __init__(self, label: str, grace_s: float = GRACE_S) -> None:
        super().__init__(label, grace_s)
        self._output = asyncio.StreamReader(_MAX_UNREAD)

    def send_input(self, data: bytes) -> None:
        """Write all of its input, without waiting: the program may be waiting to print."""
        if pipe := self.stdin:
            pipe.write(data)
        self.close_stdin()

    async def read(self) -> bytes:
        """Wait for output and return it; return nothing at the end of the output."""
        return await self._output.read(_READ_BYTES)

    async def explain_end(self, addition: str = "") -> AgentError:
        """Wait for the exit and return an error that describes it."""
        await self.wait()
        return AgentError(self.describe_exit(addition), kind="died")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if pipe := self._transport.get_pipe_transport(1):
            self._output.set_transport(pipe)  # so that reading pauses when much is unread

    def stdout_received(self, data: bytes) -> None:
        if not self._finished.is_set() and not self._is_stopping:
            self._output.feed_data(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        super().pipe_connection_lost(fd, exc)
        if fd == 1:
            self._output.feed_eof()

    def finished(self) -> None:
        self._output.feed_eof()


# --- the line protocol --------------------------------------------------------------------------------

_MAX_LINE = 4 * 1024 * 1024
"""The longest line that can be a call."""
_LOOKS_LIKE_CALL = re.compile(r'\s*\{\s*"tool_call"\s*:')
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_MAX_SHOWN = 120


Item = Token | ToolCall


class ModelOutputReader:
    """Splits the output of a program into text and tool calls.

    Text is passed on at once. Only a line that begins with a brace is held until it is complete, as it
    may be a call.
    """

    def __init__(self, max_line: int = _MAX_LINE) -> None:
        self._max_line = max_line
        self._held = ""  # the beginning of a line that may be a call
        self._is_text = False  # whether the rest of the line is text
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._calls = 0

    def feed(self, data: bytes, is_end: bool = False) -> Iterator[Item]:
        """Take output, in pieces of any size, and yield what it contains."""
        for piece in _LINES.findall(self._decoder.decode(data, is_end)):
            is_line_end = piece.endswith("\n")
            if self._is_text:
                yield Token(piece)
            else:
                self._held += piece
                may_be_call = self._held.lstrip(" \t\r")[:1] in ("", "{") and len(self._held) < self._max_line
                if is_line_end or not may_be_call:
                    self._is_text = True
                    yield self._release()
            self._is_text = self._is_text and not is_line_end
        if is_end and self._held:
            yield self._release()

    def _release(self) -> Item:
        """Return the line that was held: a call, or text."""
        line, self._held = self._held, ""
        if not line.lstrip().startswith("{") or len(line) >= self._max_line:
            return Token(line)
        try:
            value = codec.parse(line.strip().encode())
        except ValueError as error:
            is_call = _LOOKS_LIKE_CALL.match(line)
            return self._bad_call(f"the line is not JSON: {error}") if is_call else Token(line)
        if not isinstance(value, Mapping) or len(value) != 1:
            return Token(line)
        return self._read_call(value["tool_call"]) if "tool_call" in value else Token(line)

    def _read_call(self, call: Any) -> ToolCall:
        if not isinstance(call, Mapping):
            return self._bad_call('write {"tool_call": {"name": ..., "args": {...}}}')
        name = call.get("name")
        arguments = call.get("args", call.get("arguments"))
        if not isinstance(name, str) or not name:
            return self._bad_call("the call has no name")
        if arguments is not None and not isinstance(arguments, Mapping):
            return self._bad_call("args must be an object", name)
        return ToolCall(self._next_id(), name, arguments or {})

    def _bad_call(self, problem: str, name: str = "") -> ToolCall:
        return ToolCall(self._next_id(), name, flaw=f"This call cannot be read: {problem[:_MAX_SHOWN]}")

    def _next_id(self) -> str:
        self._calls += 1
        return f"call_{self._calls}"


def result_line(answer: ToolAnswer) -> bytes:
    call = ExportedCall(answer.call.id, answer.call.name)
    return codec.encode(Prompt().write_result(call, answer.result)) + b"\n"


# --- the prompt ---------------------------------------------------------------------------------------

_HOW_TO_CALL = """\
You can use the tools below. To use one, print a line that contains only this JSON:
{"tool_call": {"name": "NAME", "args": {"PARAMETER": VALUE}}}
The whole call must be on one line. Then stop and wait; the result is one of these lines:
{"tool_result": {"name": "NAME", "ok": true, "result": VALUE}}
{"tool_result": {"name": "NAME", "ok": false, "error": "REASON"}}
Never print such a line yourself. Everything else you print is shown to the user. You may use tools as
often as you need; use only names from the list, and arguments that match the parameters."""
_NO_TOOLS = "There are no tools; answer by yourself."


def introduce(catalog: Mapping[str, Any], instructions: str | None = None) -> str:
    """Return the beginning of every prompt: instructions, the tools, and how to call one."""
    parts = [instructions.strip()] if instructions and instructions.strip() else []
    if not catalog["functionSchema"]:
        return _join(*parts, _NO_TOOLS)
    schemas = (
        f"{item['name']}: {codec.encode_text(item['parameters'])}" for item in catalog["functionSchema"]
    )
    tools = f"Tools:\n{catalog['promptList']}"
    return _join(*parts, _HOW_TO_CALL, tools, "Parameters, as JSON Schema:\n" + "\n".join(schemas))


def _join(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


# --- the provider -------------------------------------------------------------------------------------


@providers.register("gemini_cli")
class GeminiCLI:
    """A program that speaks the line protocol: `GeminiCLI(["my-model", "--quiet"])`.

    Args:
        command: The program and its arguments; no shell is used
        model: The model, passed as `-m`
        env: Variables to add to the environment
        cwd: Its working directory
        grace_s: The time to exit by itself before it is killed
    """

    name = "gemini_cli"
    stall_hint = "it must read all of its input, answer and exit"

    def __init__(
        self,
        command: Sequence[str] = ("gemini",),
        *,
        model: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        if isinstance(command, str) or not command or not all(isinstance(word, str) for word in command):
            hint = 'for example ["gemini", "-m", "..."]; no shell is used'
            raise ConfigurationError("must be a list of strings", key="command", hint=hint)
        self.command = [*command, *(["-m", model] if model else [])]
        self.label = Path(self.command[0]).name
        self._env, self._cwd, self._grace_s = env, cwd, grace_s
        self._session = SessionCtx()
        self._is_started = False
        self._child: Child | None = None
        self._is_working = False
        self._transcript = ""  # what the next process reads
        self._printed: list[str] = []  # since it last got results

    @property
    def status(self) -> Status:
        if not self._is_started:
            return "stopped"
        return "working" if self._is_working else "ready"

    async def start(self, session: SessionCtx) -> None:
        self._session, self._is_started = session, True

    async def stop(self) -> None:
        wait_s = 0.0 if self._is_working else self._grace_s
        self._is_started = self._is_working = False
        await self._stop_child(wait_s)

    async def send(self, text: str) -> None:
        session = self._session
        introduction = introduce(session.toolCatalog or {"functionSchema": []}, session.instructions)
        said = [f"{'User' if item.role == 'user' else 'You'}: {item.text}" for item in session.messages]
        history = "\n".join(["The conversation so far:", *said]) if said else ""
        self._transcript = _join(introduction, history, f"User: {text}") + "\n"
        self._is_working, self._printed = True, []

    async def answer(self, answers: Sequence[ToolAnswer]) -> None:
        called = [item.call for item in answers if item.call.name]
        lines = [{"tool_call": {"name": call.name, "args": dict(call.arguments)}} for call in called]
        calls = "".join(f"{codec.encode_text(line)}\n" for line in lines)
        results = b"".join(result_line(item) for item in answers).decode()
        said = "".join(self._printed).strip()
        self._transcript += f"You: {said}\n{calls}{results}Go on.\n"
        self._printed = []

    async def events(self) -> AsyncGenerator[Event, None]:
        child = await self._start_child()
        child.send_input(self._transcript.encode("utf-8", "replace"))
        reader, has_called = ModelOutputReader(), False
        chunk = b"..."
        while chunk:
            chunk = await child.read()
            for item in reader.feed(chunk, is_end=not chunk):
                if isinstance(item, Token):
                    self._printed.append(item.text)
                else:
                    has_called = True
                yield item
        if await child.wait() != 0:
            raise await child.explain_end()
        if has_called:
            return
        text = "".join(self._printed).strip()
        if not text:
            raise await child.explain_end(" without an answer")
        self._is_working = False
        yield Final(text)

    async def _start_child(self) -> Child:
        """Start the program. Raise AgentError if it does not exist or cannot be run."""
        await self._stop_child()
        try:
            self._child = await Child(self.label, self._grace_s).start(self.command, self._env, self._cwd)
        except StartError as error:
            hint = "install it, or pass another command as a list of strings" if error.is_missing else None
            raise AgentError(f"Cannot start the agent: {error}", kind="missing", hint=hint) from None
        return self._child

    async def _stop_child(self, wait_s: float = 0.0) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.stop(wait_s)
