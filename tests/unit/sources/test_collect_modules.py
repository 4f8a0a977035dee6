"""Collecting tools from files, folders and modules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.system.source_folders import forgotten_imports, write
from toolcrib import MCPServer, collect
from toolcrib.errors import SourceError
from toolcrib.sources import Batch
from toolcrib.sources.loading import load_file

MARKED = """
from toolcrib import tool
@tool
def {name}(): ...
"""


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    with forgotten_imports():
        yield


def names(batch: Batch) -> list[str]:
    return [tool.name for tool in batch.tools]


def marked(*functions: str) -> str:
    return "".join(MARKED.format(name=name) for name in functions)


# --- targets ------------------------------------------------------------------------------------------


def test_a_place_can_be_named_in_many_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = marked("one", "two") + "class Box:\n    def three(self): ...\nbox = Box()\n"
    write(tmp_path, {"crib_tools.py": text, "crib_pkg/__init__.py": "", "crib_pkg/more.py": marked("four")})
    monkeypatch.chdir(tmp_path)
    module = load_file(tmp_path / "crib_tools.py")
    for target in (
        "crib_tools.py",
        str(tmp_path / "crib_tools.py"),
        tmp_path / "crib_tools.py",
        "crib_tools",
        module,
    ):
        assert names(collect(target)) == ["one", "two"]
    for target in ("crib_tools.py:two", "crib_tools:two"):
        batch = collect(target)
        assert (names(batch), batch.single) == (["two"], True)
    assert names(collect("crib_tools:box.three")) == ["three"]
    for target in ("crib_pkg", "crib_pkg/", "crib_pkg.more", "crib_pkg/more.py", "crib_pkg.more:four"):
        assert names(collect(target)) == ["four"]
    assert names(collect(".")) == ["four", "one", "two"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nothing.py", "No such file or folder: nothing.py"),
        ("some/where", "No such file or folder: some/where"),
        ("nothing.py:name", "No such file or folder: nothing.py"),
        ("crib_nothing", "There is no module 'crib_nothing'"),
        ("crib_nothing:name", "There is no module 'crib_nothing'"),
        ("nothing.ini", "There is no file or module 'nothing.ini'"),
        ("data.json", "data.json describes no tools"),
        ("x" * 5000, "There is no module 'xxx"),
        ("nul\0l.py", "No such file or folder: nul"),
    ],
)
def test_a_target_that_leads_nowhere_says_so(
    target: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.json").write_text("{}")
    with pytest.raises(SourceError) as refusal:
        collect(target)
    assert str(refusal.value).startswith(message)


def test_a_single_file_that_is_broken_raises(tmp_path: Path) -> None:
    write(tmp_path, {"crib_broken.py": "1 / 0"})
    with pytest.raises(SourceError, match="ZeroDivisionError"):
        collect(tmp_path / "crib_broken.py")


# --- folders and packages -----------------------------------------------------------------------------


def test_a_broken_file_hides_no_other(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "crib_a.py": marked("one"),
            "crib_b.py": "def f(:",
            "crib_c.py": "import sys; sys.exit(1)",
            "crib_d.py": "import crib_not_there",
            "crib_e.py": marked("two") + "if __name__ == '__main__':\n    raise SystemExit\n",
        },
    )
    (tmp_path / "crib_f.py").write_bytes(b"x = '\xff'")
    batch = collect(tmp_path)
    assert names(batch) == ["one", "two"]
    assert [Path(finding.file or "").name for finding in batch.findings] == [
        "crib_b.py",
        "crib_c.py",
        "crib_d.py",
        "crib_f.py",
    ]


def test_packages_with_relative_imports_are_read_and_nothing_is_found_twice(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "crib_kit/__init__.py": "from .math import add\nfrom .app import app\n__all__ = ['add', 'app']",
            "crib_kit/math.py": "from .marks import tool\n@tool\ndef add(): ...",
            "crib_kit/marks.py": "from toolcrib import tool",
            "crib_kit/app.py": """
                from toolcrib import Application, tool
                class Box(Application):
                    @tool
                    def ping(self): ...
                app = Box()
            """,
            "crib_kit/broken.py": "1 / 0",
        },
    )
    for target in (tmp_path / "crib_kit", load_file(tmp_path / "crib_kit" / "__init__.py")):
        batch = collect(target)
        assert sorted(names(batch)) == ["add", "ping"]
        assert ["ZeroDivisionError" in finding.message for finding in batch.findings] == [True]


def test_a_file_that_imports_the_files_that_import_it_is_loaded_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "crib_app.py": "from toolcrib import MCPServer\nserver = MCPServer('app')\nimport crib_math",
            "crib_math.py": "from crib_app import server\n@server.tool\ndef add(): ...",
        },
    )
    assert names(collect(f"{tmp_path}/crib_app.py:server")) == ["add"]


def test_definitions_and_handlers_may_be_in_different_files(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "crib_definitions.py": """
                TOOL_GROUP = "basic"
                SCHEMA = {"type": "object", "properties": {}}
                ENTRY = {"description": "Do it.", "schema": SCHEMA}
                TOOL_DEFINITIONS = {"one": ENTRY, "two": ENTRY}
            """,
            "crib_handlers.py": """
                async def handle(arguments): ...
                TOOL_HANDLERS = {"one": handle, "two": handle, "three": handle}
            """,
            "crib_server.py": """
                from crib_definitions import TOOL_DEFINITIONS
                from crib_handlers import TOOL_HANDLERS
            """,
        },
    )
    batch = collect(tmp_path)
    assert names(batch) == ["one", "two"]
    assert {tool.options.group for tool in batch.tools} == {"basic"}
    assert [finding.tool for finding in batch.findings] == ["three"]
    alone = collect(tmp_path / "crib_definitions.py", handlers={"one": print})
    assert (names(alone), [finding.tool for finding in alone.findings]) == (["one"], ["two"])


def test_a_group_holds_for_the_tools_of_its_module_that_have_none(tmp_path: Path) -> None:
    text = 'TOOL_GROUP = "math"\n' + marked("add") + "@tool(group='other')\ndef sub(): ...\n"
    write(tmp_path, {"crib_math.py": text, "crib_text.py": marked("upper")})
    batch = collect(tmp_path, switches={"enable_math_tools": False})
    assert [(tool.name, tool.options.group, tool.options.enabled) for tool in batch.tools] == [
        ("add", "math", False),
        ("sub", "other", True),
        ("upper", None, True),
    ]


def test_a_folder_without_tools_says_so(tmp_path: Path) -> None:
    (finding,) = collect(tmp_path).findings
    assert (finding.code, finding.message) == ("no-tools", f"{tmp_path} has no tools")
    write(tmp_path, {"crib_x.py": "def f(): ..."})
    (finding,) = collect(tmp_path).findings
    assert finding.code == "no-marked-tools"


def test_an_application_class_of_a_module_is_made(tmp_path: Path) -> None:
    text = """
        from toolcrib import Application, tool
        class Box(Application):
            @tool
            def ping(self): ...
        class Failing(Application):
            def __init__(self): raise RuntimeError("no engine")
        class Needy(Application):
            def __init__(self, engine): ...
    """
    write(tmp_path, {"crib_apps.py": text})
    batch = collect(tmp_path / "crib_apps.py")
    assert names(batch) == ["ping"]
    assert [(finding.code, finding.level) for finding in batch.findings] == [
        ("unreadable-source", "error"),
        ("needs-arguments", "advice"),
    ]


def test_a_class_that_a_server_of_the_file_has_an_instance_of_is_not_made_again(tmp_path: Path) -> None:
    source = """
from toolcrib import Application, MCPServer

class Weather(Application):
    def list_tools(self):
        return [self.forecast]

    def forecast(self) -> str:
        "Tell."
        return "rain"

server = MCPServer("desk")
server.add(Weather("weather"), namespace="desk")
"""
    write(tmp_path, {"crib_desk.py": source})
    batch = collect(str(tmp_path / "crib_desk.py"))
    assert [tool.name for tool in MCPServer().add(batch.tools).registered] == ["desk_forecast"]


def test_problems_of_tables_name_the_file_of_the_module(tmp_path: Path) -> None:
    table = "TOOL_DEFINITIONS = {'lonely': {'schema': {}}}\nTOOL_HANDLERS = {'left_over': print}\n"
    write(tmp_path, {"crib_table.py": table, "crib_plain.py": "x = 1"})
    findings = collect(tmp_path).findings
    assert [(finding.tool, finding.file) for finding in findings] == [
        ("lonely", str(tmp_path / "crib_table.py")),
        ("left_over", str(tmp_path / "crib_table.py")),
    ]
