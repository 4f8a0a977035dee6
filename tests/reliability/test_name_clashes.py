"""Duplicate and case-only names across sources are refused, naming both sources; look-alikes are linted."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.definitions.small_tools import names
from tests.support.system.source_folders import forgotten_imports, write
from toolcrib import MCPServer, Tool, ToolAlreadyExistsError
from toolcrib.catalog.lint import inspect_tools
from toolcrib.errors import BatchError

pytestmark = pytest.mark.row("C3")

SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
PAIRS = [
    ("send_mail", "send_mail"),
    ("send_mail", "Send_Mail"),
    ("SEND_MAIL", "send_mail"),
]
LOOK_ALIKES = [
    ("delete_all", "de1ete_all"),
    ("delete_all", "deIete_all"),
    ("drop_o", "drop_0"),
    ("modern", "modem"),
]


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    with forgotten_imports():
        yield


async def work(arguments: dict[str, Any]) -> str:
    return "done"


def from_function(name: str, folder: Path) -> Any:
    return Tool.from_function(work, name=name, input_schema=SCHEMA)


def from_application(name: str, folder: Path) -> Any:
    return SimpleNamespace(list_tools=lambda: [from_function(name, folder)])


def from_object(name: str, folder: Path) -> Any:
    return SimpleNamespace(name=name, description="Do it.", input_schema=SCHEMA, execute=work)


def from_table(name: str, folder: Path) -> Any:
    return {name: {"description": "Do it.", "schema": SCHEMA, "handler": work}}


def from_file(name: str, folder: Path) -> Any:
    return write_tool(name, folder) / "clash_tool.py"


def from_folder(name: str, folder: Path) -> Any:
    return str(write_tool(name, folder))


def from_server(name: str, folder: Path) -> Any:
    server = MCPServer()
    server.add(from_function(name, folder))
    return server


def write_tool(name: str, folder: Path) -> Path:
    text = f"from toolcrib import tool\n@tool(name={name!r})\ndef function(): ...\n"
    return write(folder, {"clash_tool.py": text})


SOURCES: list[Callable[[str, Path], Any]] = [
    from_function,
    from_application,
    from_object,
    from_table,
    from_file,
    from_folder,
    from_server,
]


@pytest.mark.parametrize(
    ("first", "second"), list(itertools.product(SOURCES, SOURCES)), ids=lambda f: f.__name__
)
def test_no_source_overrides_another(first: Any, second: Any, tmp_path: Path) -> None:
    for number, (held, newcomer) in enumerate(PAIRS):
        server = MCPServer()
        server.add(first(held, tmp_path / f"{number}a"))
        existing = server.registry.get(held)
        thing = second(newcomer, tmp_path / f"{number}b")
        with pytest.raises((ToolAlreadyExistsError, BatchError)):
            server.add(thing, strict=True)
        try:
            report = server.add(thing)
        except ToolAlreadyExistsError as error:
            finding, both = error.finding, (error.source, error.existing)
            assert both[1] == existing.source
        else:
            (finding,) = report.errors
        assert finding.code == "duplicate-name"
        assert finding.file in (__file__, str(tmp_path / f"{number}b" / "clash_tool.py"))
        assert str(existing.source) in (finding.hint or "")
        assert server.registry.get_all() == [existing]


def test_an_alias_can_be_no_disguise(tmp_path: Path) -> None:
    server = MCPServer()
    server.add(from_function("delete_all", tmp_path))
    with pytest.raises(ToolAlreadyExistsError):
        server.add(lambda: 1, name="harmless", aliases=["Delete_All"])
    assert names(server.registry) == ["delete_all"]


@pytest.mark.parametrize(("held", "newcomer"), LOOK_ALIKES)
@pytest.mark.parametrize("is_alias", [False, True])
def test_a_look_alike_is_a_finding_that_names_both(
    held: str, newcomer: str, is_alias: bool, tmp_path: Path
) -> None:
    server = MCPServer()
    server.add(from_file(held, tmp_path))
    options = {"name": "harmless", "aliases": [newcomer]} if is_alias else {"name": newcomer}
    server.add(Tool.from_function(work, input_schema=SCHEMA, **options))
    found = [item for item in inspect_tools(server.registry).findings if item.code == "look-alike-name"]
    assert [item.level for item in found] == ["warning"]
    assert f"'{newcomer}' looks like '{held}' of another tool" in found[0].message
    assert str(tmp_path / "clash_tool.py") in found[0].message
