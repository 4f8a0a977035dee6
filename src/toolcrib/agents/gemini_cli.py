"""The provider `gemini_cli`: a command-line program as a model, with the catalog in its prompt.

The program reads its prompt from stdin, prints its answer, and calls tools by a line protocol:

    {"tool_call": {"name": "add", "args": {"a": 1}}}                     printed by the program
    {"tool_result": {"name": "add", "ok": true, "result": 2}}            read by the program
    {"tool_result": {"name": "add", "ok": false, "error": "..."}}
    {"final": true}  or  {"final": "the answer"}                         ends an answer; so does its exit

There are two modes, chosen by `way`:

- conversation: one process for the session. Each question is one line, `{"prompt": "..."}`; the first
  contains the tools, and has `message`, `session` and `toolCatalog` besides. Results are lines.
- transcript: one process for each turn. It reads plain text to the end, prints, and exits. If it has
  asked for tools, the next process reads the same text with the results below. Gemini CLI works like this
  with a pipe, and so do most other command-line programs for models.
"""

from __future__ import annotations

import asyncio
import codecs
import re
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from toolcrib.agents.provider import Event, Final, Message, SessionCtx, Status, Token, ToolAnswer, ToolCall
from toolcrib.catalog.export import ToolCall as ExportedCall
from toolcrib.catalog.export.documents import Prompt
from toolcrib.dispatch.child_process import GRACE_S, ChildProcess, StartError
from toolcrib.errors import AgentError, ConfigurationError
from toolcrib.validation import codec

# --- the process --------------------------------------------------------------------------------------

_READ_BYTES = 64 * 1024
_MAX_UNREAD = 128 * 1024


class Child(ChildProcess):
    """One run of an agent program. Its output waits in the pipe until it is read."""

    def __init__(self, label: str, grace_s: float = GRACE_S) -> None:
        super().__init__(label, grace_s)
        self._output = asyncio.StreamReader(_MAX_UNREAD)
        self.has_answered = False
        self.catalog_hash: str | None = None
        """The hash of the catalog that the program has read."""

    def write(self, data: bytes) -> None:
        """Write to stdin, if it is open, without waiting: the program may be waiting to print."""
        if pipe := self.stdin:
            pipe.write(data)

    async def read(self) -> bytes:
        """Wait for output and return it; return nothing at the end of the output."""
        return await self._output.read(_READ_BYTES)

    async def discard_unread(self) -> None:
        """Drop the output that has arrived."""
        try:
            async with asyncio.timeout(0):
                while await self.read():
                    pass
        except TimeoutError:
            pass

    async def explain_end(self, addition: str = "", hint: str | None = None) -> AgentError:
        """Wait for the exit and return an error that describes it."""
        await self.wait()
        return AgentError(self.describe_exit(addition), kind="died", hint=hint)

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


@dataclass(frozen=True, slots=True)
class Done:
    """The line that ends an answer; `text` is the answer, if the line repeats it."""

    text: str | None


Item = Token | ToolCall | Done


class ModelOutputReader:
    """Splits the output of a program into text, tool calls and the end of the answer.

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
        """Return the line that was held: a call, the end of the answer, or text."""
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
        final = value.get("final")
        if final is True or isinstance(final, str):
            return Done(final if isinstance(final, str) else None)
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


def _call_line(call: ToolCall) -> str:
    return codec.encode_text({"tool_call": {"name": call.name, "args": dict(call.arguments)}}) + "\n"


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


def _format_history(messages: Sequence[Message]) -> str:
    """Return the conversation so far as text, for a new process."""
    if not messages:
        return ""
    lines = "\n".join(f"{'User' if item.role == 'user' else 'You'}: {item.text}" for item in messages)
    return f"The conversation so far:\n{lines}"


def _join(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


# --- the provider -------------------------------------------------------------------------------------

Way = Literal["conversation", "transcript"]
_TRANSCRIPT_PROGRAMS = ("gemini", "gemini.cmd", "gemini.exe")
"""Programs that are known to read all of their input before they answer."""


class GeminiCLI:
    """A program that speaks the line protocol: `GeminiCLI(["my-model", "--quiet"])`.

    Args:
        command: The program and its arguments; no shell is used
        way: The mode; by default "transcript" for `gemini` and "conversation" for all others
        model: The model, passed as `-m`
        env: Variables to add to the environment
        cwd: Its working directory
        grace_s: The time to exit by itself before it is killed
    """

    name = "gemini_cli"

    def __init__(
        self,
        command: Sequence[str] = ("gemini",),
        *,
        way: Way | None = None,
        model: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        if isinstance(command, str) or not command or not all(isinstance(word, str) for word in command):
            hint = 'for example ["gemini", "-m", "..."]; no shell is used'
            raise ConfigurationError("must be a list of strings", key="command", hint=hint)
        if way not in (None, "conversation", "transcript"):
            hint = "available: conversation, transcript"
            raise ConfigurationError(f"unknown way {way!r}", key="way", hint=hint)
        self.command = [*command, *(["-m", model] if model else [])]
        self.label = Path(self.command[0]).name
        is_transcript = self.label.lower() in _TRANSCRIPT_PROGRAMS
        self.way: Way = way or ("transcript" if is_transcript else "conversation")
        self._env, self._cwd, self._grace_s = env, cwd, grace_s
        self._session = SessionCtx()
        self._is_started = False
        self._child: Child | None = None
        self._reader = ModelOutputReader()
        self._is_working = False
        self._question = ""
        self._transcript = ""  # what the next process reads
        self._printed: list[str] = []  # since it last got results
        self._items: deque[Item] = deque()  # read from a conversation and not handled yet

    @property
    def status(self) -> Status:
        if not self._is_started:
            return "stopped"
        return "working" if self._is_working else "ready"

    @property
    def stall_hint(self) -> str:
        if self.way == "transcript":
            return "it must answer and exit; for a program that keeps running use the way 'conversation'"
        return (
            'an answer ends with the line {"final": true}; for a program that reads all of its input first, '
            "use the way 'transcript'"
        )

    async def start(self, session: SessionCtx) -> None:
        self._session, self._is_started = session, True

    async def stop(self) -> None:
        patience_s = 0.0 if self._is_working else self._grace_s
        self._is_started = self._is_working = False
        await self._stop_child(patience_s)

    async def send(self, text: str) -> None:
        self._is_working, self._printed, self._question = True, [], text
        self._items.clear()
        if self.way == "transcript":
            history = _format_history(self._session.messages)
            self._transcript = _join(self._introduction(), history, f"User: {text}") + "\n"
            return
        child = self._child
        if child is None or child.has_exited:
            child = await self._start_child()
        await child.discard_unread()  # printed before the question, so no part of the answer
        self._reader = ModelOutputReader()
        child.write(self._question_line(child))

    async def answer(self, answers: Sequence[ToolAnswer]) -> None:
        results = b"".join(result_line(item) for item in answers)
        if self.way == "conversation":
            self._running_child().write(results)
        else:
            calls = "".join(_call_line(item.call) for item in answers if item.call.name)
            said = "".join(self._printed).strip()
            self._transcript += f"You: {said}\n{calls}{results.decode()}Go on.\n"
        if not self._items:  # otherwise its answer is complete
            self._printed = []

    def events(self) -> AsyncGenerator[Event, None]:
        return self._read_conversation() if self.way == "conversation" else self._read_transcript()

    async def _read_conversation(self) -> AsyncGenerator[Event, None]:
        has_called = False
        while True:
            while self._items:
                if isinstance(self._items[0], Done) and has_called:
                    return  # it did not wait for its results; the answer ends in the next turn
                item = self._items.popleft()
                if isinstance(item, Done):
                    yield self._finish(item.text)
                    return
                has_called = has_called or isinstance(item, ToolCall)
                yield self._keep(item)
            if has_called:
                return
            child = self._running_child()
            chunk = await child.read()
            self._items.extend(self._reader.feed(chunk, is_end=not chunk))
            if chunk or self._items:
                continue
            is_unread = child.has_answered and not self._printed and self._is_started
            if is_unread and await child.wait() == 0:  # it exited after its last answer, just when asked
                child = await self._start_child()
                child.write(self._question_line(child))
            else:
                yield await self._finish_exited(child)
                return

    async def _read_transcript(self) -> AsyncGenerator[Event, None]:
        child = await self._start_child()
        child.write(self._transcript.encode("utf-8", "replace"))
        child.close_stdin()
        has_called, done = False, None
        chunk = b"..."
        while chunk:
            chunk = await child.read()
            for item in self._reader.feed(chunk, is_end=not chunk):
                if isinstance(item, Done):
                    done = item
                else:
                    has_called = has_called or isinstance(item, ToolCall)
                    yield self._keep(item)
        if not has_called:
            yield await self._finish_exited(child) if done is None else self._finish(done.text)

    def _keep(self, item: Token | ToolCall) -> Event:
        if isinstance(item, Token):
            self._printed.append(item.text)
        return item

    def _finish(self, text: str | None) -> Final:
        self._is_working = False
        self._running_child().has_answered = True
        return Final(("".join(self._printed) if text is None else text).strip())

    async def _finish_exited(self, child: Child) -> Final:
        """Return the answer of an exited program. Raise AgentError if it failed or printed nothing."""
        if await child.wait() != 0:
            raise await child.explain_end()
        if not "".join(self._printed).strip():
            hint = self.stall_hint if self.way == "conversation" else None
            raise await child.explain_end(" without an answer", hint)
        return self._finish(None)

    async def _start_child(self) -> Child:
        """Start the program. Raise AgentError if it does not exist or cannot be run."""
        await self._stop_child()
        self._reader = ModelOutputReader()
        try:
            self._child = await Child(self.label, self._grace_s).start(self.command, self._env, self._cwd)
        except StartError as error:
            hint = "install it, or pass another command as a list of strings" if error.is_missing else None
            raise AgentError(f"Cannot start the agent: {error}", kind="missing", hint=hint) from None
        return self._child

    async def _stop_child(self, patience_s: float = 0.0) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.stop(patience_s)

    def _running_child(self) -> Child:
        if self._child is None:
            raise AgentError(f"{self.label} is not running", kind="died")
        return self._child

    def _question_line(self, child: Child) -> bytes:
        """Return the line for a question, with the catalog and the conversation if the program needs them."""
        session = self._session
        catalog = session.toolCatalog or {"hash": "", "functionSchema": []}
        line: dict[str, Any] = {"prompt": self._question, "message": self._question}
        if child.catalog_hash != catalog["hash"]:
            history = _format_history(session.messages) if child.catalog_hash is None else ""
            child.catalog_hash = catalog["hash"]
            line["prompt"] = _join(self._introduction(), history, self._question)
            line |= {"session": session.session_id, "toolCatalog": catalog}
        return codec.encode(line) + b"\n"

    def _introduction(self) -> str:
        session = self._session
        return introduce(session.toolCatalog or {"functionSchema": []}, session.instructions)
