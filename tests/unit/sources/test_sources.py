"""The contract of a source, from outside: passed as an object, or installed with an entry point."""

from __future__ import annotations

import json.decoder  # noqa: F401 - a module that is imported
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from toolcrib import MCPServer, Tool, collect, sources
from toolcrib.errors import Location, SourceError
from toolcrib.registry.plugins import find_plugins, load_plugin
from toolcrib.sources import Batch, ReadOptions, Target, find_files


class WordSource:
    """Reads tools that answer with their own name, from a file of words or an address."""

    def accepts(self, target: Any) -> bool:
        return isinstance(target, Target) and target.text.endswith((".words", "words://all"))

    def read(self, target: Any, options: ReadOptions) -> Batch:
        names = target.path.read_text().split() if target.path else ["all"]
        return Batch([options.apply(Tool.from_function(lambda: "word", name=name)) for name in names])

    def files(self, target: Any) -> Sequence[Path]:
        return [target.path] if target.path else []


@pytest.fixture
def words(tmp_path: Path) -> Path:
    file = tmp_path / "some.words"
    file.write_text("one two")
    return file


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Install WordSource by an entry point; the list has the groups that were looked up."""
    asked: list[str] = []

    def entry_points(group: str) -> list[metadata.EntryPoint]:
        asked.append(group)
        return [metadata.EntryPoint("words", f"{__name__}:WordSource", group)]

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    caches = [sources._installed_sources, find_plugins, load_plugin]
    for cache in caches:
        cache.cache_clear()
    yield asked
    for cache in caches:
        cache.cache_clear()


def test_a_source_that_is_passed_is_asked_first(words: Path) -> None:
    batch = collect(words, sources=[WordSource()], tags=["word"])
    assert [(tool.name, tool.options.tags) for tool in batch.tools] == [("one", ["word"]), ("two", ["word"])]


async def test_a_server_takes_sources_too(words: Path) -> None:
    server = MCPServer()
    report = server.add(str(words), sources=[WordSource()])
    assert [tool.name for tool in report.registered] == ["one", "two"]
    assert (await server.call("two")).text == "word"


def test_an_installed_source_is_asked_where_no_other_accepts(installed: list[str]) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    collect(add)
    assert installed == []  # looking for entry points is slow
    assert [tool.name for tool in collect("words://all").tools] == ["all"]
    assert [tool.name for tool in collect("words://all").tools] == ["all"]
    assert installed == ["toolcrib.sources"]


@pytest.mark.usefixtures("installed")
def test_an_installed_source_reads_files_that_are_neither_python_nor_descriptors(words: Path) -> None:
    assert [tool.name for tool in collect(str(words)).tools] == ["one", "two"]


def test_a_source_reads_what_a_module_or_a_list_holds(words: Path) -> None:
    batch = collect([str(words), Tool.from_function(lambda: 1, name="three")], sources=[WordSource()])
    assert [tool.name for tool in batch.tools] == ["one", "two", "three"]


def test_the_files_of_a_source_are_watched(words: Path, tmp_path: Path) -> None:
    (tmp_path / "tools.py").touch()
    targets = [str(words), str(tmp_path / "tools.py"), str(tmp_path), "json.decoder", len]
    found = find_files(targets, sources=[WordSource()])
    assert [path.name for path in found] == ["some.words", "tools.py", tmp_path.name, "decoder.py"]


def test_a_target_that_no_source_accepts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="Cannot read tools from https://host/mcp"):
        collect("https://host/mcp")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(SourceError, match="Cannot read tools from"):
        collect(tmp_path / "notes.txt")


def test_a_source_names_the_location_of_its_tools(tmp_path: Path) -> None:
    class LineSource:
        def accepts(self, target: Any) -> bool:
            return isinstance(target, Target) and target.text.endswith(".words")

        def read(self, target: Any, options: ReadOptions) -> Batch:
            tool = Tool.from_function(lambda: "", name="hello", description="Say hello.")
            return Batch([options.apply(tool, Location(target.text, 7))])

        def files(self, target: Any) -> list[Path]:
            return [target.path]

    path = tmp_path / "greetings.words"
    path.write_text("hello")
    (tool,) = collect(str(path), sources=[LineSource()], tags=["x"]).tools
    assert tool.definition.source == Location(str(path), 7)
