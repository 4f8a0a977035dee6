"""A folder of tools, a server that serves them, and a reloader between the two."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from tests.support.source_folders import forgotten_imports, write
from toolcrib import Finding, MCPServer, Tool, collect
from toolcrib.registry.registry import Change
from toolcrib.sources.reload import Load, Reloader, watched_files

TIMEOUT_S = 20.0
TESTS = str(Path(__file__).resolve().parents[1]) + os.sep


class Workshop:
    """The parts of `toolcrib serve --reload`, with a record of everything that happens."""

    def __init__(self, folder: Path, *targets: str, **options: Any) -> None:
        self.folder = folder
        self.targets = targets or ("crib_tools.py",)
        self.loads: list[float] = []
        self.load: Load = self.load_targets
        self.changes: list[Change] = []
        self.server = MCPServer("workshop", dynamic=True)
        tools, findings, paths = self.load()
        registries = (self.server.registry, self.server.resources, self.server.prompts)
        refused: list[Finding] = []
        for kind, registry in zip(("tool", "resource", "prompt"), registries, strict=True):
            refused += registry.add_all(tool for tool in tools if tool.kind == kind).findings
            registry.eager = True  # as a dynamic server is once it has started
            registry.subscribe(self.changes.append)
        options.setdefault("after_reload", self.server.dispatcher.renew)
        options.setdefault("pause_s", 0.0)
        self.reloader = Reloader(
            lambda: self.load(),
            self.server.registry,
            resources=self.server.resources,
            prompts=self.server.prompts,
            paths=paths,
            findings=[*findings, *refused],
            **options,
        )

    def load_targets(self) -> tuple[Sequence[Tool], Sequence[Finding], Sequence[Path]]:
        self.loads.append(time.monotonic())
        places = [self.folder / target for target in self.targets]
        batch = collect(*(str(place) for place in places))
        return batch.everything, batch.findings, [Path(str(place).partition(":")[0]) for place in places]

    def write(self, **files: str) -> None:
        """Write files by their names, without `.py`; `__` stands for a folder."""
        write(self.folder, {f"{name.replace('__', '/')}.py": text for name, text in files.items()})

    async def say(self, name: str = "say", **arguments: Any) -> str:
        result = await self.server.call(name, arguments)
        assert not result.is_error, result.text
        return result.text

    @property
    def names(self) -> list[str]:
        return [tool.name for tool in self.server.registry]


@contextmanager
def workshop(folder: Path, *targets: str, **options: Any) -> Iterator[Workshop]:
    # Every load looks at every module there is, and hundreds of them are tests.
    excluded = mock.patch.object(
        watched_files, "_EXCLUDED_FOLDERS", (*watched_files._EXCLUDED_FOLDERS, TESTS)
    )
    with forgotten_imports(), excluded:
        shop = Workshop(folder, *targets, **options)
        try:
            yield shop
        finally:
            shop.reloader.close()
            shop.server.dispatcher.close()


def source(answer: str, name: str = "say", extra: str = "") -> str:
    """Return the source of a module with one tool that returns this answer."""
    return (
        f"from toolcrib import tool\n{extra}\n\n@tool\ndef {name}() -> str:\n"
        f'    """Say something."""\n    return {answer!r}\n'
    )


def complaints(records: Sequence[logging.LogRecord], level: int = logging.ERROR) -> list[str]:
    """Return the log messages of this level."""
    return [item.getMessage() for item in records if item.name == "toolcrib" and item.levelno == level]


async def until(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait for something that another thread does."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        outcome = holds()
        if outcome if isinstance(outcome, bool) else await outcome:
            return
        assert time.monotonic() < deadline, "it has not come about"
        await asyncio.sleep(0.005)
