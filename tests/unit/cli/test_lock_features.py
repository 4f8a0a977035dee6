"""`toolcrib lock` and `diff` with resources and prompts, and locks of an older toolcrib."""

from __future__ import annotations

import json
import sys

import pytest

from tests.support.serve_process import SOURCES

from .conftest import ADD, SHOP, CommandLine

ALL = "1 tool, 2 resources, 1 template and 2 prompts"


@pytest.fixture
def locked(cli: CommandLine) -> CommandLine:
    cli.write("shop.py", SHOP)
    assert cli.run("lock", "shop.py").stderr == f"note: toolcrib.lock written: {ALL}\n"
    return cli


def change(cli: CommandLine, old: str, new: str) -> None:
    """Change the file; it is loaded anew, as in another process."""
    assert old in SHOP
    cli.write("shop.py", SHOP.replace(old, new))
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(cli.folder)):
            del sys.modules[name]


def make_old(cli: CommandLine) -> None:
    """Make the lock one of an older toolcrib."""
    path = cli.folder / "toolcrib.lock"
    document = json.loads(path.read_text())
    del document["resources"], document["prompts"]
    path.write_text(json.dumps(document))


def test_everything_is_locked_and_counted(locked: CommandLine) -> None:
    assert locked.run("lock", "shop.py", "--check").stderr == f"note: toolcrib.lock is up to date: {ALL}\n"
    document = locked.json("lock", "shop.py", "--json")
    assert (document["tools"], document["resources"], document["prompts"]) == (1, 3, 2)
    assert "No changes: 6 definitions." in locked.run("diff", "shop.py").stdout


def test_changes_are_shown_and_make_the_lock_out_of_date(locked: CommandLine) -> None:
    change(locked, 'tone: Literal["polite", "firm"] = "polite"', 'tone: Literal["polite", "firm"]')
    done = locked.run("diff", "shop.py")
    assert done.exit_code == 1
    assert "prompt:complain" in done.stdout
    assert "`tone` is now required" in done.stdout
    assert "1 definition changed (6 before, 6 after)" in done.stdout
    assert locked.run("lock", "shop.py", "--check").exit_code == 1
    assert "### Definitions: `toolcrib.lock`" in locked.run("diff", "shop.py", "--markdown").stdout


def test_one_prompt_can_be_accepted(locked: CommandLine) -> None:
    change(locked, "text/markdown", "text/html")
    assert locked.run("lock", "shop.py", "--update", "prompt:*").stderr.startswith(
        "note: toolcrib.lock is up"
    )
    assert locked.run("lock", "shop.py", "--update", "resource:orders://{number}/invoice").exit_code == 0
    assert locked.run("lock", "shop.py", "--check").exit_code == 0
    done = locked.run("lock", "shop.py", "--update", "prompt:thnk")
    assert done.stderr == "error: Unknown prompt: prompt:thnk\nhint: did you mean 'prompt:thank'?\n"


def test_a_lock_of_an_older_toolcrib_stays_valid_and_covers_tools_only(locked: CommandLine) -> None:
    make_old(locked)
    done = locked.run("lock", "shop.py", "--check")
    assert (done.exit_code, done.stderr) == (
        0,
        "warning: toolcrib.lock is of an older toolcrib and does not cover 2 resources, 1 template and 2"
        " prompts\n"
        "hint: `toolcrib lock` pins them too\n"
        "note: toolcrib.lock is up to date: 1 tool\n",
    )
    assert "No changes: 1 tool." in locked.run("diff", "shop.py").stdout
    locked.run("lock", "shop.py", "--update", "find_order")
    assert "prompts" not in json.loads((locked.folder / "toolcrib.lock").read_text())
    assert f"written: {ALL}" in locked.run("lock", "shop.py").stderr
    assert locked.run("lock", "shop.py", "--check").exit_code == 0


def test_a_lock_of_tools_alone_is_brought_up_to_date_too(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    cli.run("lock", "tools.py")
    text = (cli.folder / "toolcrib.lock").read_text()
    make_old(cli)
    assert cli.run("lock", "tools.py", "--check").exit_code == 0
    cli.run("lock", "tools.py")
    assert (cli.folder / "toolcrib.lock").read_text() == text


def test_a_running_server_is_locked_as_its_source_is(locked: CommandLine) -> None:
    serve = f"import sys; sys.path.insert(0, {SOURCES!r}); from toolcrib.cli import main; main()"
    command = f"{sys.executable} -c {json.dumps(serve)} serve --stdio shop.py"
    done = locked.run("diff", "toolcrib.lock", f"cmd:{command}")
    assert (done.exit_code, done.stdout) == (0, "No changes: 6 definitions.\n")
