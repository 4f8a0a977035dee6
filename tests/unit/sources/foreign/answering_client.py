"""Run the tools of a file, with a client that records what a call reports and answers its questions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from toolcrib import MCPServer, Result
from toolcrib.context import InputNeeded, NullChannel, Question, Reply
from toolcrib.errors import CannotAskError

GUESTS = Path(__file__).parents[3] / "fixtures" / "foreign_servers"


class Person(NullChannel):
    """Answers in order. One that `calls_again` ends the call with each question, as 2026-07-28 does."""

    def __init__(self, *replies: Reply, calls_again: bool = False) -> None:
        self.replies = list(replies)
        self.calls_again = calls_again
        self.answers: dict[str, Reply] = {}
        self.questions: list[Question] = []
        self.told: list[tuple[Any, ...]] = []
        self.logged: list[tuple[str, Any]] = []
        self.closed = 0

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.told.append((progress, total, message))

    def log(self, level: str, data: Any) -> None:
        self.logged.append((level, data))

    def close_stream(self) -> None:
        self.closed += 1

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Reply]:
        missing = {key: question for key, question in questions.items() if key not in self.answers}
        if missing and not self.replies:
            raise CannotAskError("Nobody answers.")
        for key, question in missing.items():
            self.questions.append(question)
            self.answers[key] = self.replies.pop(0)
        if missing and self.calls_again:
            raise InputNeeded(missing)
        return {key: self.answers[key] for key in questions}

    async def call(self, server: MCPServer, name: str, arguments: dict[str, Any] | None = None) -> Result:
        """Call a tool, as often as it takes."""
        while True:
            asked = len(self.questions)
            try:
                return await server.call(name, arguments or {}, channel=self)
            except InputNeeded:
                assert len(self.questions) > asked, "it asks what was answered"


@asynccontextmanager
async def running(path: Path) -> AsyncIterator[MCPServer]:
    """Run a server with the tools of a file."""
    server = MCPServer("test")
    server.add(str(path))
    async with server:
        yield server
