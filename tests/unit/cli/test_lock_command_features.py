"""`toolcrib lock` and `diff` with resources and prompts."""

from __future__ import annotations

import json
import sys

import pytest

from tests.support.servers.serve_process import SOURCES

from .conftest import SHOP, CommandLine

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


def test_everything_is_locked_and_counted(locked: CommandLine) -> None:
    assert locked.run("lock", "shop.py", "--check").stderr == f"note: toolcrib.lock is up to date: {ALL}\n"
    document = locked.json("lock", "shop.py", "--json")
    assert (document["tools"], document["resources"], document["prompts"]) == (1, 3, 2)
    assert "No changes: 6 definitions." in locked.run("diff", "toolcrib.lock", "shop.py").stdout


def test_changes_are_shown_and_make_the_lock_out_of_date(locked: CommandLine) -> None:
    change(locked, 'tone: Literal["polite", "firm"] = "polite"', 'tone: Literal["polite", "firm"]')
    done = locked.run("diff", "toolcrib.lock", "shop.py")
    assert done.exit_code == 1
    assert "prompt:complain" in done.stdout
    assert "`tone` is now required" in done.stdout
    assert "1 definition changed (6 before, 6 after)" in done.stdout
    assert locked.run("lock", "shop.py", "--check").exit_code == 1
    assert (
        "### Definitions: `toolcrib.lock`"
        in locked.run("diff", "toolcrib.lock", "shop.py", "--markdown").stdout
    )


def test_one_prompt_can_be_accepted(locked: CommandLine) -> None:
    change(locked, "text/markdown", "text/html")
    assert locked.run("lock", "shop.py", "--update", "prompt:*").stderr.startswith(
        "note: toolcrib.lock is up"
    )
    assert locked.run("lock", "shop.py", "--update", "resource:orders://{number}/invoice").exit_code == 0
    assert locked.run("lock", "shop.py", "--check").exit_code == 0
    done = locked.run("lock", "shop.py", "--update", "prompt:thnk")
    assert done.stderr == "error: Unknown prompt: prompt:thnk\nhint: did you mean 'prompt:thank'?\n"


def test_a_lock_of_an_older_toolcrib_is_refused(locked: CommandLine) -> None:
    path = locked.folder / "toolcrib.lock"
    document = json.loads(path.read_text())
    del document["resources"], document["prompts"]
    path.write_text(json.dumps(document))
    done = locked.run("lock", "shop.py", "--check")
    assert done.exit_code == 2
    assert done.stderr == (
        "error: toolcrib.lock: must have lists of 'tools', 'resources' and 'prompts'\n"
        "hint: run `toolcrib lock` again\n"
    )


def test_a_running_server_is_locked_as_its_source_is(locked: CommandLine) -> None:
    serve = f"import sys; sys.path.insert(0, {SOURCES!r}); from toolcrib.cli import main; main()"
    command = f"{sys.executable} -c {json.dumps(serve)} serve --stdio shop.py"
    done = locked.run("lock", "--check", "--command", command)
    assert (done.exit_code, done.stderr) == (0, f"note: toolcrib.lock is up to date: {ALL}\n")
