"""A scan runs nothing of what it reads, also where the source says what else to load; and it ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolcrib import build_catalog
from toolcrib.errors import SourceError
from toolcrib.sources.loading import imports_forbidden, load_file, load_module
from toolcrib.sources.scan import scan

PAYLOAD = """\
from pathlib import Path
from toolcrib import tool
Path(__file__).with_name("trace").write_text("ran")

@tool
def injected(): "Is here."
"""
OURS = "from toolcrib import MCPServer, tool\nserver = MCPServer('x')\n"
THAT_NAME_A_FILE = {
    "a file": 'server.add("payload.py")',
    "a constant": 'NAME = "payload.py"\nserver.add(NAME)',
    "a star": 'server.add(*["payload.py"])',
    "a list": 'server.add(["payload.py"])',
    "a loop": 'for name in ["payload.py"]:\n    server.add(name)',
    "a module": 'server.add("payload")',
    "a folder": 'server.add("inner")',
    "a decorator": 'server.tool()("payload.py")',
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "payload.py").write_text(PAYLOAD)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "payload.py").write_text(PAYLOAD)
    return tmp_path


def traces(folder: Path) -> list[Path]:
    return list(folder.rglob("trace"))


@pytest.mark.parametrize("name", THAT_NAME_A_FILE)
def test_a_file_that_the_source_names_is_not_run(folder: Path, name: str) -> None:
    (folder / "m.py").write_text(f"{OURS}{THAT_NAME_A_FILE[name]}\n\n@tool\ndef honest(): 'Is here.'\n")
    found = scan("m.py")
    assert not traces(folder)
    assert [tool.name for tool in found.tools] == ["honest"]
    assert {finding.code for finding in found.findings} & {"unresolved-tool", "source", "invalid-tool"}


def test_a_target_that_is_a_text_is_not_run(folder: Path) -> None:
    (folder / "v.py").write_text('x = "payload.py"\n')
    assert not scan("v.py:x").tools
    assert not traces(folder)


def test_files_are_read_whatever_holds_their_names(folder: Path) -> None:
    for adapter in (Path("inner").glob("*.py"), {"payload.py": 1}.keys(), iter(["payload.py"])):
        assert build_catalog(adapter)["count"] == 1
    with pytest.raises(ValueError, match="flat list"):
        build_catalog([["payload.py"]])
    assert not traces(folder)


def test_where_nothing_runs_nothing_is_loaded(folder: Path) -> None:
    with imports_forbidden():
        for load in (lambda: load_file(folder / "payload.py"), lambda: load_module("payload")):
            with pytest.raises(SourceError, match="would have to be imported"):
                load()
    assert not traces(folder)


@pytest.mark.parametrize(
    "default",
    [
        'list(ipaddress.IPv4Network("0.0.0.0/0"))',
        'Fraction(numerator=Decimal("1e999999999"))',
        'Decimal("1e999999999")',
    ],
)
def test_a_default_that_would_take_for_ever_is_left_alone(folder: Path, default: str) -> None:
    imports = "import ipaddress\nfrom decimal import Decimal\nfrom fractions import Fraction\n"
    text = (
        f"{OURS}{imports}\n@tool\ndef slow(x: Decimal = {default}): 'Is slow.'\n\n@tool\ndef quick(): 'Is.'\n"
    )
    (folder / "m.py").write_text(text)
    found = scan("m.py")
    assert "quick" in [tool.name for tool in found.tools]
    assert found.findings


def test_names_that_make_tools_elsewhere_are_looked_for_in_every_file(tmp_path: Path) -> None:
    (tmp_path / "base.py").write_text(
        f"{OURS}action = tool\npublish = server.tool\n\ndef register(f):\n    server.add(f)\n    return f\n"
    )
    for name in ("action", "publish", "register"):
        text = f"from base import {name}\n\n@{name}\ndef by_{name}(): 'Is here.'\n"
        (tmp_path / f"{name}s.py").write_text(text)
    found = scan(tmp_path)
    assert {tool.name for tool in found.tools} == {"by_action", "by_publish", "by_register"}


def test_letters_of_another_kind_hide_no_tool(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "from \U0001d42d\U0001d428\U0001d428\U0001d425crib import "
        "\U0001d42d\U0001d428\U0001d428\U0001d425 as t\n\n@t\ndef hidden(): 'Is here.'\n"
    )
    assert [tool.name for tool in scan(tmp_path).tools] == ["hidden"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0)
    (tmp_path / "m.py").write_text("from toolcrib import tool\n\n@tool\ndef found(): 'Is here.'\n")
    assert [tool.name for tool in scan(tmp_path).tools] == ["found"]


def test_a_name_that_may_mean_two_things_is_a_finding(tmp_path: Path) -> None:
    text = "try:\n    import nope\n    T = int\nexcept ImportError:\n    T = str\n"
    (tmp_path / "m.py").write_text(f"from toolcrib import tool\n{text}\n@tool\ndef f(x: T): 'Is here.'\n")
    found = scan(tmp_path / "m.py")
    assert [tool.name for tool in found.tools] == ["f"]
    assert found.findings


def test_a_loop_is_one_finding(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        f"{OURS}def a(): 'A.'\ndef b(): 'B.'\nfor f in (a, b):\n    server.add(f)\n    break\n"
    )
    found = scan(tmp_path / "m.py")
    assert [(finding.code, finding.line) for finding in found.findings] == [
        ("guessed-condition", 5),
        ("unresolved-tool", 6),
    ]
