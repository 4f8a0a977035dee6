"""`toolcrib serve --locked`: clients see what was locked and nothing else, whatever becomes of the files."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.servers.serve_process import TIMEOUT_S, Serving, start
from toolcrib.catalog.lock import Lock
from toolcrib.cli import app
from toolcrib.sources.scan import scan

TOOLS = '''
from toolcrib import tool

@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b

@tool
def find(text: str) -> str:
    """Find a text, wherever it is."""
    return text
'''
CHANGED = TOOLS.replace("b: int = 1", "b: int")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS)
    lock(tmp_path, "tools.py")
    return tmp_path


def lock(folder: Path, *names: str, file: str = "toolcrib.lock") -> None:
    """As `toolcrib lock` does it, without a process of its own."""
    tools = scan(*(folder / name for name in names)).tools
    Lock.of(tools, folder / file).save()


def refusal(folder: Path, *words: str) -> tuple[int, str]:
    """What it says where it does not start."""
    process = start("serve", *words, cwd=folder)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert out == ""
    return process.returncode, err


def test_anything_that_is_as_locked_is_served(folder: Path) -> None:
    with Serving("tools.py", "--locked", cwd=folder) as serving:
        assert serving.names() == ["add", "find"]
        assert serving.info["findings"] == []
        done = CliRunner().invoke(app, ["diff", str(folder / "toolcrib.lock"), serving.address])
        assert (done.exit_code, done.stdout) == (0, "No changes: 2 tools.\n")


@pytest.mark.parametrize("more", [["--port", "0"], ["--stdio"], ["--port", "0", "--workers", "2"]])
def test_anything_that_changed_is_not_served_and_the_change_is_said(folder: Path, more: list[str]) -> None:
    (folder / "tools.py").write_text(CHANGED)
    code, words = refusal(folder, "tools.py", "--locked", *more)
    assert code == 1
    assert "tools.py:4: 'add' is not what was locked: `b` is now required" in words
    assert (
        "`toolcrib lock --check tools.py` shows it; `toolcrib lock --update add tools.py` accepts it" in words
    )
    assert (
        "error: Not started: 1 tool different from the lock file\nhint: `toolcrib lock tools.py` accepts all"
        in words
    )


def test_quarantine_serves_the_rest_and_says_so(folder: Path) -> None:
    (folder / "tools.py").write_text(CHANGED + "\n@tool\ndef stranger() -> str:\n    'New.'\n    return ''\n")
    with Serving("tools.py", "--on-drift", "quarantine", cwd=folder) as serving:
        assert serving.names() == ["find"]
        found = {(finding["code"], finding["tool"]) for finding in serving.info["findings"]}
        assert {("drift", "add"), ("drift", "stranger")} <= found
        serving.wait_for("'stranger' is not in the lock")


def test_settings_choose_quarantine_and_missing_tools_are_warned_of(folder: Path) -> None:
    (folder / "toolcrib.toml").write_text(
        '[server]\ntargets = ["tools.py"]\n[lock]\non_drift = "quarantine"\n'
    )
    (folder / "gone.py").write_text(TOOLS.replace("def add", "def gone").partition("@tool\ndef find")[0])
    lock(folder, "tools.py", "gone.py")
    (folder / "tools.py").write_text(CHANGED)
    with Serving("--locked", "--workers", "2", cwd=folder) as serving:
        assert serving.names() == ["find"]
        serving.wait_for("'gone' is locked but not here")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--locked"], "edited by hand"),
        (["--lock", "nowhere.lock"], "nowhere.lock: there is no such lock file"),
    ],
)
def test_without_a_lock_that_can_be_trusted_it_does_not_start(
    folder: Path, words: list[str], said: str
) -> None:
    path = folder / "toolcrib.lock"
    path.write_text(path.read_text().replace("Find a text", "Send a text"))
    code, told = refusal(folder, "tools.py", "--port", "0", *words)
    assert code == 2
    assert said in told


def test_a_reload_that_drifts_keeps_what_served_until_it_is_locked(folder: Path) -> None:
    with Serving("tools.py", "--locked", "--reload", cwd=folder) as serving:
        (folder / "tools.py").write_text(CHANGED)
        serving.wait_for("not reloaded, the previous tools stay active")
        assert "`b` is now required" in serving.errors
        assert serving.call("add", a=1) == "2"
        lock(folder, "tools.py")
        serving.wait_for("reloaded 2 tools (changed: add)")
        assert serving.call("add", a=1, b=5) == "6"


def test_a_tool_that_adds_tools_cannot_add_what_is_not_locked(folder: Path) -> None:
    (folder / "server.py").write_text(
        """
from toolcrib import Context, MCPServer

server = MCPServer("own", dynamic=True)

@server.tool
def grow(ctx: Context) -> str:
    '''Add a tool.'''
    def stranger() -> str:
        '''Nobody has seen this one.'''
        return ''
    try:
        getattr(server, "ad" + "d")(stranger)  # as no scan can see it coming
    except Exception as error:
        return str(error)
    return "grown"
"""
    )
    lock(folder, "server.py", file="own.lock")
    with Serving("server.py", "--lock", "own.lock", cwd=folder) as serving:
        assert serving.call("grow") == "'stranger' is not in the lock"
        assert serving.names() == ["grow"]


SHOP = '''
from toolcrib import MCPServer

server = MCPServer("shop")
server.add_resource("shop://terms", "Pay soon.")

@server.prompt
def thank(who: str) -> str:
    """Thank somebody.

    Args:
        who: A name
    """
    return f"Thank {who}."
'''


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    targets = [str(tmp_path / "shop.py"), "--output", str(tmp_path / "toolcrib.lock")]
    assert CliRunner().invoke(app, ["lock", *targets]).exit_code == 0
    return tmp_path


def test_changed_prompts_and_new_resources_are_not_served(shop: Path) -> None:
    more = 'server.add_resource("shop://more", "")\n'
    (shop / "shop.py").write_text(SHOP.replace("Thank somebody.", "Praise a person.") + more)
    code, words = refusal(shop, "shop.py", "--locked", "--stdio")
    assert code == 1
    assert "'prompt:thank' is not what was locked: the description has a new meaning" in words
    assert "'resource:shop://more' is not in the lock" in words
    assert "error: Not started: 2 definitions different from the lock file" in words
    with Serving("shop.py", "--locked", "--on-drift", "quarantine", cwd=shop) as serving:
        assert serving.info["resources"] == ["shop://terms"]
        assert "prompts" not in serving.info


def test_a_reload_keeps_prompts_as_locked_until_the_lock_accepts_them(shop: Path) -> None:
    changed = SHOP.replace("Thank somebody.", "Praise a person.")
    with Serving("shop.py", "--locked", "--reload", cwd=shop) as serving:
        assert serving.info["prompts"] == ["thank"]
        (shop / "shop.py").write_text(changed)
        serving.wait_for("'prompt:thank' is not what was locked")
        assert serving.ask("prompts/list")["prompts"][0]["description"] == "Thank somebody"
        (shop / "accepted.py").write_text(changed)
        targets = [str(shop / "accepted.py"), "--output", str(shop / "toolcrib.lock")]
        assert CliRunner().invoke(app, ["lock", *targets]).exit_code == 0
        serving.wait_for("reloaded 1 resource and 1 prompt (changed: thank)")
        assert serving.ask("prompts/list")["prompts"][0]["description"] == "Praise a person"
