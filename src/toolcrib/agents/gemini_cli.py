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
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from toolcrib.agents.provider import Event, Final, Message, SessionCtx, Status, Token, ToolAnswer, ToolCall
from toolcrib.catalog.export import ToolCall as ExportedCall
from toolcrib.catalog.export.documents import Prompt
from toolcrib.dispatch.child_process import GRACE_S, ChildProcess, StartError
from toolcrib.errors import AgentError, ConfigurationError
from toolcrib.validation import codec

# --- the process --------------------------------------------------------------------------------------

_MAX_UNREAD = 256 * 1024


async def start_child(
    command: Sequence[str],
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    grace_s: float = GRACE_S,
) -> Child:
    """Start an agent program. Raise AgentError if it does not exist or cannot be run."""
    try:
        return await Child(Path(command[0]).name, grace_s).start(command, env, cwd)
    except StartError as error:
        hint = "install it, or pass another command as a list of strings" if error.is_missing else None
        raise AgentError(f"Cannot start the agent: {error}", kind="missing", hint=hint) from None


class Child(ChildProcess):
    """One run of an agent program. Its output waits in the pipe until it is read."""

    def __init__(self, label: str, grace_s: float) -> None:
        super().__init__(label, grace_s)
        self._unread = bytearray()
        self._output_event = asyncio.Event()
        self.is_paused = False
        """Whether the program has to wait until its output is read."""

    async def write(self, data: bytes) -> None:
        """Write to stdin without waiting for the program to read, because its own output may block it.

        Raise AgentError where stdin is closed.
        """
        pipe = self.stdin
        if pipe is None:
            raise await self.explain_end()
        pipe.write(data)

    async def read(self) -> bytes:
        """Wait for output and return it; return nothing at the end of the output."""
        while not self._unread and 1 in self._open_pipes and not self._finished.is_set():
            self._output_event.clear()
            await self._output_event.wait()
        return self.take_unread()

    def take_unread(self) -> bytes:
        """Return the output that has arrived, without waiting."""
        data = bytes(self._unread)
        self._unread.clear()
        self._set_reading(True)
        return data

    @property
    def has_unread(self) -> bool:
        return bool(self._unread)

    async def explain_end(self, addition: str = "") -> AgentError:
        """Wait for the exit and return an error that describes it."""
        await self.wait()
        return AgentError(self.describe_exit(addition), kind="died")

    async def stop(self, patience_s: float = 0.0) -> None:
        self._is_stopping = True
        self._set_reading(True)  # a program that waits to print must be able to end
        await super().stop(patience_s)

    def stdout_received(self, data: bytes) -> None:
        if self._is_stopping:
            return
        self._unread += data
        self._output_event.set()
        if len(self._unread) > _MAX_UNREAD:
            self._set_reading(False)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        super().pipe_connection_lost(fd, exc)
        self._output_event.set()

    def finished(self) -> None:
        self._output_event.set()

    def _set_reading(self, reads: bool) -> None:
        pipe = cast(asyncio.ReadTransport | None, self._transport.get_pipe_transport(1))
        if pipe is None or pipe.is_closing() or reads is not self.is_paused:
            return
        self.is_paused = not reads
        if reads:
            pipe.resume_reading()
        else:
            pipe.pause_reading()


# --- the line protocol --------------------------------------------------------------------------------

MAX_LINE_BYTES = 4 * 1024 * 1024
"""The longest line that can be a call."""
_INDENT = b" \t\r"
_MAX_INDENT = 256
_LOOKS_LIKE_CALL = re.compile(rb'\s*\{\s*"tool_call"\s*:')
_LINES = re.compile(rb"[^\n]*\n|[^\n]+")
_MAX_SHOWN = 120


@dataclass(frozen=True, slots=True)
class Done:
    """The line that ends an answer; `text` is the answer, if the line repeats it."""

    text: str | None


Item = Token | ToolCall | Done


class LineReader:
    """Splits the output of a program into text, tool calls and the end of the answer.

    Text is passed on at once. Only a line that begins with a brace is held until it is complete, as it
    may be a call. Call `feed` with the output, in pieces of any size, and `finish` at its end.
    """

    def __init__(self, limit_bytes: int = MAX_LINE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._line = bytearray()  # the beginning of a line that may be a call
        self._rest: Literal["call", "text", "skip"] = "call"  # what the rest of the line is
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._calls = 0

    def feed(self, chunk: bytes) -> Iterator[Item]:
        for piece in _LINES.findall(chunk):
            is_end = piece.endswith(b"\n")
            if self._rest == "text":
                yield from self._decode(piece)
            elif self._rest == "call":
                self._line += piece
                if is_end or not self._may_be_call() or len(self._line) > self._limit_bytes:
                    yield from self._end_line(is_end)
            if is_end:
                self._rest = "call"

    def finish(self) -> Iterator[Item]:
        """Yield what is left: the last line may lack its end."""
        if self._line:
            yield from self._end_line(True)
        self._rest = "call"
        yield from self._decode(b"", True)

    def _may_be_call(self) -> bool:
        head = bytes(self._line[:_MAX_INDENT]).lstrip(_INDENT)
        return head.startswith(b"{") or (not head and len(self._line) < _MAX_INDENT)

    def _end_line(self, is_complete: bool) -> Iterator[Item]:
        """Stop holding a line: it is complete, or it is no call, or too long for one."""
        line = bytes(self._line)
        self._line.clear()
        item: Item | None = None
        if is_complete:
            item = self._read_line(line)
        elif len(line) > self._limit_bytes and _LOOKS_LIKE_CALL.match(line):
            item = self._bad_call(f"the line is longer than {self._limit_bytes} bytes")
        self._rest = "text" if item is None else "skip"
        if item is None:
            yield from self._decode(line)
        else:
            yield item

    def _decode(self, data: bytes, final: bool = False) -> Iterator[Token]:
        if text := self._decoder.decode(data, final):
            yield Token(text)

    def _read_line(self, line: bytes) -> Item | None:
        """Parse a line as a call or as the end of the answer; return None for text."""
        if not line[:_MAX_INDENT].lstrip(_INDENT).startswith(b"{"):
            return None
        try:
            value = codec.parse(line.strip())
        except ValueError as error:
            return self._bad_call(f"the line is not JSON: {error}") if _LOOKS_LIKE_CALL.match(line) else None
        if not isinstance(value, Mapping) or len(value) != 1:
            return None
        final = value.get("final")
        if final is True or isinstance(final, str):
            return Done(final if isinstance(final, str) else None)
        return self._read_call(value["tool_call"]) if "tool_call" in value else None

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
        self._session: SessionCtx | None = None
        self._child: Child | None = None
        self._reader = LineReader()
        self._is_working = False
        self._sent_hash: str | None = None  # of the catalog that the process knows
        self._question = ""
        self._transcript = ""  # what the next process reads
        self._output: list[str] = []  # printed since it last got results
        self._has_answered = False
        self._pending_end: Done | None = None  # printed next to calls: the answer ends once they were made

    @property
    def status(self) -> Status:
        if self._session is None:
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
        self._session = session

    async def stop(self) -> None:
        patience_s = 0.0 if self._is_working else self._grace_s
        self._session, self._is_working = None, False
        await self._stop_child(patience_s)

    async def send(self, text: str) -> None:
        session = self._started()
        self._is_working, self._output, self._question, self._pending_end = True, [], text, None
        if self.way == "transcript":
            self._transcript = (
                _join(self._introduction(), _format_history(session.messages), f"User: {text}") + "\n"
            )
            return
        if self._child is not None and not self._child.has_exited:
            self._child.take_unread()  # printed before the question, so no part of the answer
            self._reader = LineReader()
            try:
                await self._child.write(self._question_line())
                return
            except AgentError:
                pass  # it has just exited, which is another way to end an answer
        await self._start_conversation()

    async def _start_conversation(self) -> None:
        child = await self._start_child()
        await child.write(self._question_line())

    def _question_line(self) -> bytes:
        session = self._started()
        catalog = session.toolCatalog or {"hash": "", "functionSchema": []}
        line: dict[str, Any] = {"prompt": self._question, "message": self._question}
        if self._sent_hash != catalog["hash"]:
            before = _format_history(session.messages) if self._sent_hash is None else ""
            self._sent_hash = catalog["hash"]
            line["prompt"] = _join(self._introduction(), before, self._question)
            line |= {"session": session.session_id, "toolCatalog": catalog}
        return codec.encode(line) + b"\n"

    async def answer(self, answers: Sequence[ToolAnswer]) -> None:
        results = b"".join(result_line(item) for item in answers)
        output, self._output = "".join(self._output).strip(), []
        if self.way == "conversation":
            child = self._running_child()
            try:
                await child.write(results)
            except AgentError:
                if self._pending_end is None:  # otherwise its answer is complete
                    raise await self._explain_early_end(child) from None
            return
        calls = "".join(_call_line(item.call) for item in answers if item.call.name)
        self._transcript += f"You: {output}\n{calls}{results.decode()}Go on.\n"

    def events(self) -> AsyncGenerator[Event, None]:
        return self._read_conversation() if self.way == "conversation" else self._read_transcript()

    async def _read_conversation(self) -> AsyncGenerator[Event, None]:
        if self._pending_end is not None:
            yield self._finish(self._pending_end.text)
            return
        child, has_called = self._running_child(), False
        while True:
            if has_called and not child.has_unread:
                return  # it waits for its results
            chunk = await child.read()
            for item in self._reader.feed(chunk) if chunk else self._reader.finish():
                if isinstance(item, Done) and has_called:  # it did not wait; its calls are made all the same
                    self._pending_end = Done("".join(self._output) if item.text is None else item.text)
                    return
                if isinstance(item, Done):
                    yield self._finish(item.text)
                    return
                has_called = has_called or isinstance(item, ToolCall)
                yield self._keep_output(item)
            if chunk:
                continue
            if has_called:
                raise await self._explain_early_end(child)
            if not self._output and self._has_answered and await child.wait() == 0:
                await self._start_conversation()  # it exited after its last answer, just when it was asked
                child = self._running_child()
                continue
            yield await self._finish_exited(child)
            return

    async def _read_transcript(self) -> AsyncGenerator[Event, None]:
        child = await self._start_child()
        try:
            await child.write(self._transcript.encode("utf-8", "replace"))
        except AgentError:
            pass  # a program that does not read everything may still answer
        child.close_stdin()
        has_called, chunk = False, b"..."
        done: Done | None = None
        while chunk:
            chunk = await child.read()
            for item in self._reader.feed(chunk) if chunk else self._reader.finish():
                if isinstance(item, Done):
                    done = item
                else:
                    has_called = has_called or isinstance(item, ToolCall)
                    yield self._keep_output(item)
        final: Final | None = None
        if not has_called:
            final = await self._finish_exited(child) if done is None else self._finish(done.text)
        await self._stop_child()
        if final is not None:
            yield final

    def _keep_output(self, item: Token | ToolCall) -> Event:
        if isinstance(item, Token):
            self._output.append(item.text)
        return item

    def _finish(self, text: str | None) -> Final:
        self._is_working, self._has_answered = False, True
        return Final(("".join(self._output) if text is None else text).strip())

    async def _finish_exited(self, child: Child) -> Final:
        """Return the answer of an exited program. Raise AgentError if it failed or printed nothing."""
        if await child.wait() != 0:
            raise await child.explain_end()
        if not "".join(self._output).strip():
            error = await child.explain_end(" without an answer")
            error.hint = self.stall_hint if self.way == "conversation" else None
            raise error
        return self._finish(None)

    async def _explain_early_end(self, child: Child) -> AgentError:
        error = await child.explain_end(" before it had read the result of its call")
        error.hint = self.stall_hint
        return error

    async def _start_child(self) -> Child:
        await self._stop_child()
        self._reader, self._has_answered = LineReader(), False
        self._child = await start_child(self.command, self._env, self._cwd, self._grace_s)
        return self._child

    async def _stop_child(self, patience_s: float = 0.0) -> None:
        child, self._child = self._child, None
        self._sent_hash = None
        if child is not None:
            await child.stop(patience_s)

    def _running_child(self) -> Child:
        if self._child is None:
            raise AgentError(f"{self.label} is not running", kind="died")
        return self._child

    def _started(self) -> SessionCtx:
        if self._session is None:
            raise AgentError(f"{self.label} was not started", kind="died")
        return self._session

    def _introduction(self) -> str:
        session = self._started()
        return introduce(session.toolCatalog or {"functionSchema": []}, session.instructions)
