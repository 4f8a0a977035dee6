"""`toolcrib lock`: writing, checking and updating the lock file."""

from __future__ import annotations

import json
import os

import pytest

from tests.support.system.repository import Repository

from .conftest import ADD, CommandLine

FIND = '''
@tool
def find(text: str) -> str:
    """Find a text, wherever it is."""
    return text
'''


@pytest.fixture
def locked(cli: CommandLine) -> CommandLine:
    cli.write("tools.py", ADD + FIND)
    assert cli.run("lock", "tools.py").exit_code == 0
    return cli


def change(cli: CommandLine, old: str, new: str) -> None:
    """Change the tools; they are loaded anew, as in another process."""
    text = (cli.folder / "tools.py").read_text()
    assert old in text
    cli.write("tools.py", text.replace(old, new))
    os.utime(cli.folder / "tools.py", (1, 1))
    forget()


def forget() -> None:
    import sys

    for name in [
        name for name, module in sys.modules.items() if "tools.py" in str(getattr(module, "__file__", ""))
    ]:
        del sys.modules[name]


def test_the_lock_file_is_written(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    done = cli.run("lock", "tools.py")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "note: toolcrib.lock written: 1 tool\n"
    entry = json.loads((cli.folder / "toolcrib.lock").read_text())["tools"][0]
    assert (entry["name"], entry["source"]) == ("add", "tools.py")
    assert str(cli.folder) not in (cli.folder / "toolcrib.lock").read_text()


def test_a_lock_that_is_up_to_date_is_left_alone(locked: CommandLine) -> None:
    before = (locked.folder / "toolcrib.lock").stat()
    done = locked.run("lock", "tools.py")
    assert done.stderr == "note: toolcrib.lock is up to date: 2 tools\n"
    after = (locked.folder / "toolcrib.lock").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_reading_the_source_gives_the_same_lock(locked: CommandLine) -> None:
    done = locked.run("lock", "tools.py", "--static", "--check")
    assert done.exit_code == 0, done.stderr


def test_check_shows_differences_and_writes_nothing(locked: CommandLine) -> None:
    before = (locked.folder / "toolcrib.lock").read_bytes()
    assert locked.run("lock", "tools.py", "--check").exit_code == 0
    change(locked, "b: int = 1", "b: int")
    done = locked.run("lock", "tools.py", "--check")
    assert done.exit_code == 1
    assert "breaking    `b` is now required: callers that do not send it will fail" in done.stdout
    assert "error: toolcrib.lock is out of date\nhint: " in done.stderr
    assert (locked.folder / "toolcrib.lock").read_bytes() == before


def test_check_fails_where_there_is_no_lock(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    done = cli.run("lock", "tools.py", "--check")
    assert done.exit_code == 1
    assert "error: No such file: toolcrib.lock\nhint: write it: run this without --check\n" in done.stderr
    assert not (cli.folder / "toolcrib.lock").exists()


def test_update_changes_only_the_named_tools(locked: CommandLine) -> None:
    change(locked, "Add two whole numbers", "Add two numbers")
    change(locked, "def find(", "def seek(")
    assert locked.run("lock", "tools.py", "--update", "add").exit_code == 0
    assert locked.run("lock", "tools.py", "--check").exit_code == 1
    names = [entry["name"] for entry in json.loads((locked.folder / "toolcrib.lock").read_text())["tools"]]
    assert names == ["add", "find"]
    assert locked.run("lock", "tools.py", "--update", "find", "--update", "se*").exit_code == 0
    assert locked.run("lock", "tools.py", "--check").exit_code == 0


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["tools.py", "--update", "fnd"], "error: Unknown tool: fnd\nhint: did you mean 'find'?\n"),
        (["tools.py", "--base", "HEAD"], "error: --base requires --check"),
        (["tools.py", "--check", "--base", "tools.py"], "error: tools.py is not a lock file or a commit"),
        (["tools.py", "--update", "add", "--check"], "error: --check cannot be combined with --update"),
        (
            ["tools.py", "--output", "other.lock", "--update", "add"],
            "error: Cannot update other.lock: no such file",
        ),
    ],
)
def test_wrong_usage_is_refused_with_a_hint(locked: CommandLine, words: list[str], error: str) -> None:
    done = locked.run("lock", *words)
    assert done.exit_code == 2
    assert error in done.stderr
    assert done.stderr.startswith("error: ")


def test_errors_prevent_the_lock_unless_partial(cli: CommandLine) -> None:
    cli.write("tools.py", ADD + "\n@tool\ndef bad(*args): 'No.'\n")
    done = cli.run("lock", "tools.py")
    assert done.exit_code == 1
    assert "error: Not locked: 1 problem\nhint: fix them, or lock the others" in done.stderr
    assert not (cli.folder / "toolcrib.lock").exists()
    assert cli.run("lock", "tools.py", "--partial").exit_code == 0
    assert [e["name"] for e in json.loads((cli.folder / "toolcrib.lock").read_text())["tools"]] == ["add"]


def test_two_servers_with_one_name_are_not_locked_together(cli: CommandLine) -> None:
    server = "from fastmcp import FastMCP\n{0} = FastMCP('{0}')\n@{0}.tool\ndef find(x: {1}): 'Find it.'\n"
    cli.write("a.py", server.format("users", "int"))
    cli.write("b.py", server.format("orders", "str"))
    done = cli.run("lock", "--static", "a.py", "b.py")
    assert done.exit_code == 1
    assert "Tool 'find' is defined twice: at " in done.stderr
    assert "a.py:3" in done.stderr
    assert "b.py:3" in done.stderr
    assert "hint: take one server at a time: name its file, or FILE:SERVER" in done.stderr
    assert cli.run("lock", "--static", "a.py").exit_code == 0
    done = cli.run("export", "--to", "openai", "--static", "a.py", "b.py")
    assert done.exit_code == 1
    assert "Tool 'find' is defined twice" in done.stderr


def test_an_edited_lock_is_not_overwritten(locked: CommandLine) -> None:
    path = locked.folder / "toolcrib.lock"
    path.write_text(path.read_text().replace("Find a text", "Send a text"))
    done = locked.run("lock", "tools.py")
    assert done.exit_code == 2
    assert "its fingerprint does not match its definition; it was edited by hand" in done.stderr
    assert "Send a text" in path.read_text()


def test_the_configuration_names_targets_and_lock_file(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    cli.write("toolcrib.toml", '[server]\ntargets = ["tools.py"]\n[lock]\nfile = "pins/all.lock"\n')
    (cli.folder / "pins").mkdir()
    done = cli.run("lock")
    assert done.exit_code == 0, done.stderr
    entry = json.loads((cli.folder / "pins" / "all.lock").read_text())["tools"][0]
    assert entry["source"] == "add" or entry["source"].endswith("tools.py")


def test_disabled_tools_and_older_versions_are_locked(cli: CommandLine) -> None:
    off = ADD.replace("@tool", '@tool(enabled=False, name="off")').replace("def add", "def off_add")
    older = ADD.replace("@tool", '@tool(version="1")') + ADD.replace("@tool", '@tool(version="2")').replace(
        "def add", "def add_again"
    ).replace('version="2"', 'version="2", name="add"')
    cli.write("tools.py", off + older)
    assert cli.run("lock", "tools.py").exit_code == 0
    entries = json.loads((cli.folder / "toolcrib.lock").read_text())["tools"]
    assert [(e["name"], e.get("version")) for e in entries] == [("add", "1"), ("add", "2"), ("off", None)]
    assert cli.run("lock", "tools.py", "--check").exit_code == 0


def test_the_json_says_what_was_done(locked: CommandLine) -> None:
    change(locked, "b: int = 1", "b: int")
    document = locked.json("lock", "tools.py", "--check", "--json")
    assert (document["written"], document["up_to_date"], document["tools"]) == (False, False, 2)
    assert document["counts"]["breaking"] == 1
    document = locked.json("lock", "tools.py", "--json")
    assert (document["written"], document["up_to_date"]) == (True, True)


def test_fail_on_lets_smaller_changes_pass(locked: CommandLine) -> None:
    change(locked, "Add two whole numbers", "Add two numbers")
    assert locked.run("lock", "tools.py", "--check").exit_code == 1
    done = locked.run("lock", "tools.py", "--check", "--fail-on", "breaking")
    assert (done.exit_code, "the description was reworded" in done.stdout) == (0, True)


def test_another_lock_file_can_be_the_base(locked: CommandLine) -> None:
    (locked.folder / "toolcrib.lock").rename(locked.folder / "old.lock")
    change(locked, "b: int = 1", "b: int")
    locked.run("lock", "tools.py")
    assert locked.run("lock", "tools.py", "--check").exit_code == 0
    done = locked.run("lock", "tools.py", "--check", "--base", "old.lock")
    assert (done.exit_code, "`b` is now required" in done.stdout) == (1, True)
    assert (
        locked.run("lock", "tools.py", "--check", "--base", "old.lock", "--fail-on", "never").exit_code == 0
    )


def test_a_commit_can_be_the_base_and_the_report_is_the_one_of_diff(cli: CommandLine) -> None:
    made = Repository(cli.folder)
    made.commit(tools=ADD)
    cli.write("tools.py", ADD.replace("b: int = 1", "b: int"))
    for option in ([], ["--json"], ["--markdown"]):
        base = cli.run("lock", "tools.py", "--check", "--base", "HEAD", *option)
        assert base.stdout == cli.run("diff", "HEAD", "tools.py", *option).stdout
        assert (base.exit_code, "is now required" in base.stdout) == (1, True)
