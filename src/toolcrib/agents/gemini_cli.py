"""`gemini_cli`: a model that is a program, with the catalog in its prompt.

Any program will do that reads its prompt from stdin and prints its answer, and that asks for tools by the
line protocol. It is spoken to in one of two ways:

- conversation: one process for the whole session. Each question is one line, `{"prompt": "..."}`; the first
  has the tools in it, and beside it `message`, `session` and `toolCatalog` for programs. Results are lines.
- transcript: one process for each turn. It reads plain text to the end, prints, and exits; where it has asked
  for tools, the next one reads the same text with the results below. This is what Gemini CLI itself does with
  a pipe, and most other command lines of models.

Knows the two ways; the lines are line_protocol's, the process is child's.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from toolcrib import codec
from toolcrib.agents.child import GRACE_S, Child, start_child
from toolcrib.agents.event import Event, Final, Token, ToolAnswer, ToolCall
from toolcrib.agents.line_protocol import Done, Reader, result_line
from toolcrib.agents.prompt import introduce, join, recount
from toolcrib.agents.provider import Status
from toolcrib.agents.session import SessionCtx
from toolcrib.errors import AgentError, ConfigurationError

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
        if self._child is not None and not self._child.has_ended:
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
        child.close_input()
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
            await child.end(patience_s)

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
