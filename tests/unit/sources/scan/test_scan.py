"""`scan`: targets of every kind, settings, order, names, findings; nothing is imported."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from toolcrib.errors import ConfigurationError, SourceError
from toolcrib.sources.scan import Scan, scan

TWO = '''
    from toolcrib import tool

    @tool
    def second(a: int) -> int:
        """The second."""
        return a

    @tool(group="extra", tags=["t"])
    def first(b: str) -> str:
        """The first."""
        return b
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text))
    return path


def names(found: Scan) -> list[str]:
    return [tool.name for tool in found.tools]


def codes(found: Scan) -> list[str]:
    return [finding.code for finding in found.findings]


def test_tools_come_in_the_order_of_files_and_lines(folder: Path) -> None:
    write(folder / "b.py", TWO)
    write(folder / "a.py", TWO.replace("second", "third").replace("first", "fourth"))
    found = scan(folder)
    assert names(found) == ["third", "fourth", "second", "first"]
    assert found.files == [folder / "a.py", folder / "b.py"]
    assert [tool.source.line for tool in found.tools] == [4, 9, 4, 9]


def test_a_target_may_be_a_module_found_without_importing_its_parents(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder / "lib" / "pack" / "__init__.py", "raise SystemExit('it was imported')")
    write(folder / "lib" / "pack" / "inner" / "deep.py", TWO)
    monkeypatch.syspath_prepend(str(folder / "lib"))
    assert names(scan("pack.inner.deep")) == ["second", "first"]
    assert names(scan("pack")) == ["second", "first"]
    assert "pack" not in sys.modules


def test_a_target_may_be_one_thing_in_a_file(folder: Path) -> None:
    write(
        folder / "a.py",
        """
        from toolcrib import Application, MCPServer, tool

        def unmarked(a: int) -> int:
            '''Has no mark.'''
            return a

        class App(Application):
            @tool
            def method(self) -> int:
                '''A method.'''
                return 1

        server = MCPServer("x")
        server.add(unmarked, name="on_server")
        """,
    )
    assert names(scan("a.py:unmarked")) == ["unmarked"]
    assert names(scan("a:App")) == ["method"]
    assert names(scan(f"{folder / 'a.py'}:server")) == ["on_server"]
    with pytest.raises(SourceError, match=r"There is no 'nothing' in a\.py"):
        scan("a.py:nothing")


@pytest.mark.parametrize("target", ["nope.py", "no/where", "no_such_module_at_all", "nope.py:x", "nope.toml"])
def test_a_target_that_is_not_there_is_the_callers_mistake(folder: Path, target: str) -> None:
    with pytest.raises(SourceError, match=r"There is no |No such file or folder: "):
        scan(target)


def test_a_file_of_another_kind_is_refused(folder: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        scan(write(folder / "a.txt", "x"))


def test_settings_are_honoured(folder: Path) -> None:
    write(folder / "code" / "a.py", TWO)
    write(
        folder / "toolcrib.toml",
        """
        [server]
        targets = ["code", "gone.py"]
        namespace = "shop"
        [tools]
        exclude = ["second"]
        enable_extra_tools = false
        enable_odd_tools = true
        """,
    )
    found = scan("toolcrib.toml")
    assert names(found) == []
    assert [tool.name for tool in found.unlisted] == ["shop_first"]
    assert codes(found) == ["unreadable-source", "unused-switch"]
    assert found.findings[0].line == 3
    assert scan().unlisted[0].name == "shop_first"  # the toolcrib.toml here is what none means


def test_a_selector_that_fits_nothing_is_a_finding(folder: Path) -> None:
    write(folder / "a.py", TWO)
    write(folder / "toolcrib.toml", '[server]\ntargets = ["a.py"]\n[tools]\ninclude = ["nothing_*"]\n')
    found = scan("toolcrib.toml")
    assert [(finding.code, finding.line) for finding in found.findings] == [("invalid-configuration", 4)]


def test_settings_that_are_wrong_are_the_callers_mistake(folder: Path) -> None:
    write(folder / "toolcrib.toml", "[server]\nnaem = 1\n")
    with pytest.raises(ConfigurationError, match="naem"):
        scan("toolcrib.toml")


def test_no_target_and_no_settings_are_an_error(folder: Path) -> None:
    with pytest.raises(SourceError, match=r"No target, and no toolcrib\.toml in this folder"):
        scan()


def test_switches_come_from_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCRIB_ENABLE_EXTRA_TOOLS", "0")
    found = scan(write(folder / "a.py", TWO))
    assert (names(found), [tool.name for tool in found.unlisted]) == (["second"], ["first"])


def test_equal_names_in_two_files_are_both_kept(folder: Path) -> None:
    write(folder / "a.py", TWO)
    write(folder / "b.py", TWO.replace("def second", "def Second").replace("def first", "def other"))
    found = scan(folder)
    assert names(found) == ["second", "first", "Second", "other"]
    assert not found.findings  # each file may be a server of its own


def test_one_file_by_two_targets_is_one(folder: Path) -> None:
    path = write(folder / "a.py", TWO)
    found = scan(path, folder, "a")
    assert names(found) == ["second", "first"]
    assert not found.findings


def test_a_broken_file_is_a_finding_and_hides_nothing_else(folder: Path) -> None:
    write(folder / "a.py", TWO)
    write(folder / "b.py", "from toolcrib import tool\ndef broken(:\n")
    (folder / "c.py").write_bytes(b"# toolcrib \xff\xfe\n")
    (folder / "d.py").write_bytes(b"tool\0")
    os.mkfifo(folder / "e.py")
    (folder / "f.py").symlink_to(folder / "g.py")
    (folder / "g.py").symlink_to(folder / "f.py")
    found = scan(folder)
    assert names(found) == ["second", "first"]
    assert {finding.code for finding in found.findings} == {"unreadable-source"}
    assert [Path(finding.file or "").name for finding in found.findings][:4] == [
        "b.py",
        "c.py",
        "d.py",
        "e.py",
    ]
    assert found.findings[0].line == 2


def test_a_folder_that_cannot_be_read_is_a_finding(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "a.py", TWO)
    write(folder / "closed" / "b.py", TWO)
    real = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = scan(folder)
    assert names(found) == ["second", "first"]
    assert [(finding.code, finding.file) for finding in found.findings] == [
        ("unreadable-source", str(folder / "closed"))
    ]


def test_nothing_found_says_what_was_looked_for_and_where(folder: Path) -> None:
    write(folder / "a.py", "def plain(tool):\n    pass\n")
    (finding,) = scan(folder).findings
    assert finding.code == "no-marked-tools"
    assert "looked for @tool" in finding.message
    assert finding.hint == "add @tool, or name one, a.py:plain"
    write(folder / "a.py", "x = 1\n")
    (finding,) = scan(folder).findings
    assert finding.code == "no-tools"
    assert finding.file == str(folder / "a.py")


def test_a_server_in_a_file_without_a_telling_word_is_found(folder: Path) -> None:
    write(folder / "base.py", "from toolcrib import MCPServer\ndesk = MCPServer('x')\n")
    write(folder / "more.py", "from base import desk\ndef f(a: int):\n    '''Words.'''\ndesk.add(f)\n")
    assert names(scan(folder)) == ["f"]


def test_progress_is_told(folder: Path) -> None:
    write(folder / "a.py", TWO)
    write(folder / "b.py", "")
    told: list[tuple[str, int, int]] = []
    scan(folder, progress=lambda *progress: told.append(progress))
    assert [step for step, _, _ in told] == 2 * ["files"] + ["modules"] + 2 * ["tools"]
    assert [progress[1:] for progress in told] == [(0, 2), (1, 2), (0, 1), (0, 2), (1, 2)]


def test_a_generated_file_with_thousands_of_tools_ends(folder: Path) -> None:
    body = "".join(f"@s.tool\ndef f{n}(): '''W.'''\n" for n in range(3_000))
    write(folder / "a.py", f"from toolcrib import MCPServer\ns = MCPServer('x')\n{body}")
    found = scan(folder)
    assert len(found.tools) == 3_000
