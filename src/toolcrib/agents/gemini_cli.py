"""`gemini_cli`: a model that is a program, with the catalog in its prompt.

Any program will do that reads its prompt from stdin and prints its answer, and that asks for tools by the
line protocol. It is spoken to in one of two ways:

- conversation: one process for the whole session. Each question is one line, `{"prompt": "..."}`; the first
  has the tools in it, and beside it `message`, `session` and `toolCatalog` for programs. Results are lines.
- transcript: one process for each turn. It reads plain text to the end, prints, and exits; where it has asked
  for tools, the next one reads the same text with the results below. This is what Gemini CLI itself does with
  a pipe, and most other command lines of models.

Knows the two ways; the lines are line_protocol's, the process is child's.

What a program prints, told apart: words as they come, lines that ask for a tool, the line that ends.

    {"tool_call": {"name": "add", "args": {"a": 1}}}                     asks
    {"tool_result": {"name": "add", "ok": true, "result": 2}}            is what it reads back
    {"tool_result": {"name": "add", "ok": false, "error": "..."}}
    {"final": true}  or  {"final": "the answer"}                         ends an answer; so does its exit

Sans-IO: chunks in, events out, however they were cut. Only a line that begins with a brace is held back until
it is whole; everything else is passed on at once. Knows this protocol; refuses to know processes.

What a model without function calling is told: the tools, how to ask for one, and what was said before.

Knows document C's catalog and the line protocol's words. Refuses to know who reads them.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from toolcrib.agents.events import Event, Final, Token, ToolAnswer, ToolCall
from toolcrib.agents.process import GRACE_S, Child, start_child
from toolcrib.agents.provider import Status
from toolcrib.agents.session import Message, SessionCtx
from toolcrib.catalog.export.calls import ToolCall as RoutedCall
from toolcrib.catalog.export.prompt import Prompt
from toolcrib.errors import AgentError, ConfigurationError
from toolcrib.validation import codec

MAX_LINE_BYTES = 4 * 1024 * 1024
"""The longest line that can be a call."""
_INDENT = b" \t\r"
_DEEPEST_INDENT = 256
_LOOKS_LIKE_CALL = re.compile(rb'\s*\{\s*"tool_call"\s*:')
_SHOWN_CHARS = 120


@dataclass(frozen=True, slots=True)
class Done:
    """The program says that its answer ends; `text` is the answer where it repeats it."""

    text: str | None


Item = Token | ToolCall | Done


class Reader:
    """Feed it what was printed; `finish` when nothing more will come."""

    def __init__(self, limit_bytes: int = MAX_LINE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held = bytearray()  # a line that may be a call
        self._is_inside = False  # of a line of words, part of which was passed on
        self._is_skipping = False  # the rest of a call that was too long
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._calls = 0

    def feed(self, chunk: bytes) -> Iterator[Item]:
        words = bytearray()
        start = 0
        while start < len(chunk):
            end = chunk.find(b"\n", start) + 1 or len(chunk)
            yield from self._take(chunk[start:end], words)
            start = end
        if words:
            yield from self._say(bytes(words))

    def finish(self) -> Iterator[Item]:
        """What is left: a last line may lack its end."""
        if self._held:
            words = bytearray()
            yield from self._flush(words)
            if words:
                yield from self._say(bytes(words))
        rest = self._decoder.decode(b"", final=True)
        self._is_inside = self._is_skipping = False
        if rest:
            yield Token(rest)

    def _take(self, piece: bytes, words: bytearray) -> Iterator[Item]:
        is_end = piece.endswith(b"\n")
        if self._is_skipping:
            self._is_skipping = not is_end
        elif self._is_inside:
            words += piece
            self._is_inside = not is_end
        else:
            self._held += piece
            if is_end:
                yield from self._flush(words)
            elif not self._may_be_call():
                words += self._held  # no call begins so
                self._held.clear()
                self._is_inside = True
            elif len(self._held) > self._limit_bytes:
                yield from self._give_up(words)

    def _may_be_call(self) -> bool:
        """Whether the line that is held begins like one. Its beginning is enough to look at."""
        head = bytes(self._held[:_DEEPEST_INDENT]).lstrip(_INDENT)
        return head.startswith(b"{") or (not head and len(self._held) < _DEEPEST_INDENT)

    def _flush(self, words: bytearray) -> Iterator[Item]:
        """A whole line. What was said before it comes first."""
        line = bytes(self._held)
        self._held.clear()
        item = self._read(line)
        if item is None:
            words += line
            return
        if words:
            yield from self._say(bytes(words))
            words.clear()
        yield item

    def _give_up(self, words: bytearray) -> Iterator[Item]:
        line = bytes(self._held)
        self._held.clear()
        if _LOOKS_LIKE_CALL.match(line):
            self._is_skipping = True
            if words:
                yield from self._say(bytes(words))
                words.clear()
            yield self._flawed(f"the line is longer than {self._limit_bytes} bytes")
        else:
            self._is_inside = True
            words += line

    def _say(self, data: bytes) -> Iterator[Token]:
        text = self._decoder.decode(data)
        if text:
            yield Token(text)

    # --- lines ---

    def _read(self, line: bytes) -> Item | None:
        if not line[:_DEEPEST_INDENT].lstrip(_INDENT).startswith(b"{"):
            return None
        try:
            value = codec.parse(line.strip())
        except ValueError as error:
            return self._flawed(f"the line is not JSON: {error}") if _LOOKS_LIKE_CALL.match(line) else None
        if not isinstance(value, Mapping) or len(value) != 1:
            return None
        final = value.get("final")
        if final is True or isinstance(final, str):
            return Done(final if isinstance(final, str) else None)
        return self._read_call(value["tool_call"]) if "tool_call" in value else None

    def _read_call(self, asked: Any) -> ToolCall:
        if not isinstance(asked, Mapping):
            return self._flawed('write {"tool_call": {"name": ..., "args": {...}}}')
        name = asked.get("name")
        arguments = asked.get("args", asked.get("arguments"))
        if not isinstance(name, str) or not name:
            return self._flawed("the call has no name")
        if arguments is not None and not isinstance(arguments, Mapping):
            return self._flawed("args must be an object", name)
        return ToolCall(self._next_id(), name, arguments or {})

    def _flawed(self, words: str, name: str = "") -> ToolCall:
        return ToolCall(self._next_id(), name, flaw=f"This call cannot be read: {words[:_SHOWN_CHARS]}")

    def _next_id(self) -> str:
        self._calls += 1
        return f"call_{self._calls}"


def result_line(answer: ToolAnswer) -> bytes:
    """The line that tells a program what its call came to."""
    call = RoutedCall(answer.call.id, answer.call.name)
    return codec.encode(Prompt().write_result(call, answer.result)) + b"\n"


_HOW = """\
You can use the tools below. To use one, print a line with nothing but this JSON on it:
{"tool_call": {"name": "NAME", "args": {"PARAMETER": VALUE}}}
The whole call stands on one line. Then stop and wait; what it came to is one of these lines:
{"tool_result": {"name": "NAME", "ok": true, "result": VALUE}}
{"tool_result": {"name": "NAME", "ok": false, "error": "WHY NOT"}}
Never print such a line yourself. Everything else you print is read by the user. You may ask for tools as
often as you need them; use only names from the list, and arguments that fit the parameters."""
_NONE = "There are no tools; answer by yourself."


def introduce(catalog: Mapping[str, Any], instructions: str | None = None) -> str:
    """The beginning of every prompt: instructions, the tools, and how to ask for one."""
    parts = [instructions.strip()] if instructions and instructions.strip() else []
    if not catalog["functionSchema"]:
        return "\n\n".join([*parts, _NONE])
    parts += [_HOW, f"Tools:\n{catalog['promptList']}"]
    schemas = (
        f"{item['name']}: {codec.encode_text(item['parameters'])}" for item in catalog["functionSchema"]
    )
    parts.append("Parameters, as JSON Schema:\n" + "\n".join(schemas))
    return "\n\n".join(parts)


def recount(messages: Sequence[Message]) -> str:
    """What was said before, for a model that has not heard it."""
    if not messages:
        return ""
    said = "\n".join(f"{'User' if item.role == 'user' else 'You'}: {item.text}" for item in messages)
    return f"What was said so far:\n{said}"


def join(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


Way = Literal["conversation", "transcript"]
_ONE_SHOT = ("gemini", "gemini.cmd", "gemini.exe")
"""Programs that are known to read all of their input before they answer."""


class GeminiCLI:
    """`GeminiCLI(["my-model", "--quiet"])`; without a command it is `gemini`.

    `way` is chosen by the program's name where it is not given: "transcript" for `gemini`, "conversation" for
    everything else. `env` is added to the environment.
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
            hint = 'like ["gemini", "-m", "..."]; no shell is used'
            raise ConfigurationError("a command is a list of words", key="command", hint=hint)
        if way not in (None, "conversation", "transcript"):
            hint = "there are: conversation, transcript"
            raise ConfigurationError(f"there is no way {way!r}", key="way", hint=hint)
        self.command = [*command, *(["-m", model] if model else [])]
        self.place = Path(self.command[0]).name
        self.way: Way = way or ("transcript" if self.place.lower() in _ONE_SHOT else "conversation")
        self._env, self._cwd, self._grace_s = env, cwd, grace_s
        self._session: SessionCtx | None = None
        self._child: Child | None = None
        self._reader = Reader()
        self._is_working = False
        self._told: str | None = None  # the hash of the catalog that the program knows
        self._question = ""
        self._text = ""  # transcript: what the next process reads
        self._said: list[str] = []  # since it last got results
        self._has_answered = False
        self._ended: Done | None = None  # said beside calls: the answer ends once they were made

    @property
    def status(self) -> Status:
        if self._session is None:
            return "stopped"
        return "working" if self._is_working else "ready"

    @property
    def stall_hint(self) -> str:
        if self.way == "transcript":
            return "it must answer and exit; for a program that keeps running there is the way 'conversation'"
        return (
            'an answer ends with the line {"final": true}; for a program that reads all of its input first, '
            "there is the way 'transcript'"
        )

    async def start(self, session: SessionCtx) -> None:
        self._session = session

    async def stop(self) -> None:
        patience_s = 0.0 if self._is_working else self._grace_s
        self._session, self._is_working = None, False
        await self._end_child(patience_s)

    async def send(self, text: str) -> None:
        session = self._started()
        self._is_working, self._said, self._question, self._ended = True, [], text, None
        if self.way == "transcript":
            self._text = join(self._introduce(), recount(session.messages), f"User: {text}") + "\n"
            return
        if self._child is not None and not self._child.has_exited:
            self._child.take_unread()  # said before the question, so no part of the answer
            self._reader = Reader()
            try:
                await self._child.write(self._question_line())
                return
            except AgentError:
                pass  # it has just ended, which is another way to end an answer: another one takes over
        await self._begin()

    async def _begin(self) -> None:
        """A new process, told everything there is to know."""
        child = await self._start_child()
        await child.write(self._question_line())

    def _question_line(self) -> bytes:
        session = self._started()
        catalog = session.toolCatalog or {"hash": "", "functionSchema": []}
        line: dict[str, Any] = {"prompt": self._question, "message": self._question}
        if self._told != catalog["hash"]:
            before = recount(session.messages) if self._told is None else ""
            self._told = catalog["hash"]
            line["prompt"] = join(self._introduce(), before, self._question)
            line |= {"session": session.session_id, "toolCatalog": catalog}
        return codec.encode(line) + b"\n"

    async def answer(self, answers: Sequence[ToolAnswer]) -> None:
        lines = b"".join(result_line(item) for item in answers)
        said, self._said = "".join(self._said).strip(), []
        if self.way == "conversation":
            child = self._opened()
            try:
                await child.write(lines)
            except AgentError:
                if self._ended is None:  # else it has said all it had to say
                    raise await self._explain_end(child) from None
            return
        asked = "".join(_call_line(item.call) for item in answers if item.call.name)
        self._text += f"You: {said}\n{asked}{lines.decode()}Go on.\n"

    def events(self) -> AsyncGenerator[Event, None]:
        return self._converse() if self.way == "conversation" else self._recite()

    # --- one process for all ---

    async def _converse(self) -> AsyncGenerator[Event, None]:
        if self._ended is not None:
            yield self._finish(self._ended.text)
            return
        child, has_called = self._opened(), False
        while True:
            if has_called and not child.has_unread:
                return  # it waits for its results
            chunk = await child.read()
            items = self._reader.feed(chunk) if chunk else self._reader.finish()
            for item in items:
                if isinstance(item, Done) and has_called:  # it did not wait: its calls are made all the same
                    self._ended = Done("".join(self._said) if item.text is None else item.text)
                    return
                if isinstance(item, Done):
                    yield self._finish(item.text)
                    return
                has_called = has_called or isinstance(item, ToolCall)
                yield self._note(item)
            if chunk:
                continue
            if has_called:
                raise await self._explain_end(child)
            if not self._said and self._has_answered and await child.wait() == 0:
                await self._begin()  # it ended after its last answer, just when it was asked again
                child = self._opened()
                continue
            yield await self._finish_ended(child)
            return

    # --- one process for each turn ---

    async def _recite(self) -> AsyncGenerator[Event, None]:
        child = await self._start_child()
        try:
            await child.write(self._text.encode("utf-8", "replace"))
        except AgentError:
            pass  # one that does not want to read all may still answer
        child.close_stdin()
        calls, chunk = 0, b"..."
        done: Done | None = None
        while chunk:
            chunk = await child.read()
            for item in self._reader.feed(chunk) if chunk else self._reader.finish():
                if isinstance(item, Done):
                    done = item
                else:
                    calls += isinstance(item, ToolCall)
                    yield self._note(item)
        if calls:
            await self._end_child()
            return
        final = await self._finish_ended(child) if done is None else self._finish(done.text)
        await self._end_child()
        yield final

    # --- both ---

    def _note(self, item: Token | ToolCall) -> Event:
        if isinstance(item, Token):
            self._said.append(item.text)
        return item

    def _finish(self, text: str | None) -> Final:
        self._is_working, self._has_answered = False, True
        return Final(("".join(self._said) if text is None else text).strip())

    async def _finish_ended(self, child: Child) -> Final:
        """The program has ended: well, with an answer, or badly. Raises AgentError."""
        if await child.wait() != 0:
            raise await child.explain_end()
        if not "".join(self._said).strip():
            error = await child.explain_end(" without an answer")
            error.hint = self.stall_hint if self.way == "conversation" else None
            raise error
        return self._finish(None)

    async def _explain_end(self, child: Child) -> AgentError:
        error = await child.explain_end(" before it had read the result of its call")
        error.hint = self.stall_hint
        return error

    async def _start_child(self) -> Child:
        await self._end_child()
        self._reader, self._has_answered = Reader(), False
        self._child = await start_child(self.command, self._env, self._cwd, self._grace_s)
        return self._child

    async def _end_child(self, patience_s: float = 0.0) -> None:
        child, self._child = self._child, None
        self._told = None
        if child is not None:
            await child.stop(patience_s)

    def _opened(self) -> Child:
        if self._child is None:
            raise AgentError(f"{self.place} does not run", kind="died")
        return self._child

    def _started(self) -> SessionCtx:
        if self._session is None:
            raise AgentError(f"{self.place} was not started", kind="died")
        return self._session

    def _introduce(self) -> str:
        session = self._started()
        return introduce(session.toolCatalog or {"functionSchema": []}, session.instructions)


def _call_line(call: ToolCall) -> str:
    return codec.encode_text({"tool_call": {"name": call.name, "args": dict(call.arguments)}}) + "\n"
