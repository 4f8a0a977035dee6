"""`toolcrib serve --reload` over HTTP: the process behind the socket is replaced."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.clients.legacy_client import Older
from tests.support.servers.serve_process import SOURCES, TOOLCRIB, Calling, Serving, children_of, wait_until
from tests.unit.cli.conftest import ADD, CommandLine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs sockets to inherit, and /proc")

ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCES}
KEPT = "not reloaded, the previous tools stay active"
WORK = '''
import asyncio, os, sys
from toolcrib import Context, tool

@tool
async def slow(seconds: float) -> str:
    """Wait."""
    print("waiting", file=sys.stderr, flush=True)
    await asyncio.sleep(seconds)
    return "old"
'''


def test_changed_files_are_loaded_and_broken_ones_are_not(cli: CommandLine) -> None:
    path = cli.write("tools.py", ADD)
    with Serving("tools.py", "--reload", cwd=cli.folder) as serving:
        path.write_text(ADD.replace("return a + b", "return a * b"))
        serving.wait_for("note: reloaded 1 tool\n")
        assert serving.call("add", a=4, b=5) == "20"
        path.write_text(ADD + "\ndef broken(:\n")
        serving.wait_for(KEPT)
        assert "error: tools.py:17: tools.py has a syntax error" in serving.errors
        assert serving.call("add", a=4, b=5) == "20"
        path.unlink()
        serving.wait_for(KEPT, 2)
        assert "error: No such file or folder: tools.py" in serving.errors
        assert serving.call("add", a=4, b=5) == "20"
        path.write_text(ADD.replace("def add", "def plus"))
        serving.wait_for("note: reloaded 1 tool (changed: add, plus)")
        assert serving.names() == ["plus"]
        wait_until(lambda: len(children_of(serving.process.pid)) == 1)
        assert serving.end() == 0
        assert "Traceback" not in serving.errors


def test_a_tool_with_a_new_error_prevents_it_and_one_that_had_it_before_does_not(cli: CommandLine) -> None:
    cli.write("good/tools.py", ADD)
    cli.write("good/bad.py", ADD.replace("def add(a: int, b: int = 1)", "def bad(*args)"))
    with Serving("good", "--reload", cwd=cli.folder) as serving:
        serving.wait_for("Tool 'bad' takes *args")
        cli.write("good/late.py", ADD.replace("def add", "def late"))
        serving.wait_for("note: reloaded 2 tools (changed: late)")
        cli.write("good/twin.py", ADD)
        serving.wait_for(KEPT)
        assert serving.errors.count("Tool 'bad' takes *args") == 1
        assert sorted(serving.names()) == ["add", "late"]


def test_running_calls_end_on_the_process_that_they_began_on(cli: CommandLine) -> None:
    path = cli.write("work.py", WORK)
    with Serving("work.py", "--reload", cwd=cli.folder) as serving:
        calling = Calling(serving, "slow", seconds=4.0)
        serving.wait_for("waiting")
        path.write_text(WORK.replace('"old"', '"new"'))
        serving.wait_for("note: reloaded 1 tool")
        assert serving.call("slow", seconds=0.0) == "new"
        calling.join(20)
        assert calling.outcome == "old"
        wait_until(lambda: len(children_of(serving.process.pid)) == 1)


def test_files_that_everybody_can_change_are_not_loaded_again(cli: CommandLine) -> None:
    path = cli.write("tools.py", ADD)
    with Serving("tools.py", "--reload", cwd=cli.folder) as serving:
        path.chmod(0o666)
        path.write_text(ADD.replace("return a + b", "return 0"))
        serving.wait_for("warning: not reloaded: every user of this machine can change tools.py")
        assert serving.call("add", a=4, b=5) == "9"


def test_several_workers_are_replaced_together(cli: CommandLine) -> None:
    path = cli.write("tools.py", ADD)
    with Serving("tools.py", "--reload", "--workers", "2", cwd=cli.folder) as serving:
        before = set(children_of(serving.process.pid))
        path.write_text(ADD.replace("return a + b", "return a * b"))
        serving.wait_for("note: reloaded 1 tool")
        wait_until(lambda: len(set(children_of(serving.process.pid)) - before) == 2)
        wait_until(lambda: not before & set(children_of(serving.process.pid)))
        assert {serving.call("add", a=4, b=5) for _ in range(10)} == {"20"}


def run_lock(folder: Path) -> None:
    """Lock tools in another process, as this one has imported them."""
    subprocess.run([*TOOLCRIB, "lock", "tools.py"], cwd=folder, env=ENVIRONMENT, check=True, timeout=60)


def test_reviewed_changes_are_let_through_by_a_new_lock(cli: CommandLine) -> None:
    path = cli.write("tools.py", ADD)
    run_lock(cli.folder)
    with Serving("tools.py", "--reload", "--locked", cwd=cli.folder) as serving:
        path.write_text(ADD.replace("Add two whole numbers", "Add two numbers"))
        serving.wait_for(KEPT)
        run_lock(cli.folder)
        serving.wait_for("note: reloaded 1 tool (changed: add)")


ASKS = """

from toolcrib import Context

@tool
async def greet(ctx: Context) -> str:
    '''Ask for a name.'''
    name = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return f"Hello, {(await ctx.ask('who', 'Who?', name))['name']}!"
"""


def test_a_legacy_session_goes_on_and_answers_reach_the_process_before(cli: CommandLine) -> None:
    path = cli.write("tools.py", ADD + ASKS)
    with Serving("tools.py", "--reload", cwd=cli.folder) as serving:
        client = Older(urlsplit(serving.address).port or 0, elicitation={})
        client.initialize()
        assert client.ask("logging/setLevel", level="error").result == {}
        asking = client.call("greet")
        event = asking.event()
        assert event is not None
        assert event.id is not None  # a single process: the stream can be resumed
        asked = next(event for event in asking.events() if event.data)
        path.write_text(ADD.replace("return a + b", "return a - b") + ASKS)
        serving.wait_for("note: reloaded")
        assert client.call("add", {"a": 1, "b": 1}).result["content"][0]["text"] == "0"
        answer = client.reply(asked.message["id"], {"action": "accept", "content": {"name": "Ada"}})
        assert answer.status == 202
        assert asking.result["content"][0]["text"] == "Hello, Ada!"
        good, client.session = client.session, "unknown"
        assert client.ask("ping").status == 404
        client.session = good
        assert client.end() == 200
        assert client.ask("ping").status == 404
    assert "Traceback" not in serving.errors


def test_where_sockets_cannot_be_inherited_the_port_is_bound_again(cli: CommandLine) -> None:
    """As on Windows."""
    path = cli.write("tools.py", ADD)
    program = "from toolcrib.cli import main, workers; workers.PASSES_SOCKETS = False; main()"
    with Serving("tools.py", "--reload", cwd=cli.folder, command=("-c", program)) as serving:
        wait_until(lambda: serving.call("add", a=4, b=5) == "9")
        path.write_text(ADD + "\ndef broken(:\n")
        serving.wait_for(KEPT)
        assert serving.call("add", a=4, b=5) == "9"
        path.write_text(ADD.replace("return a + b", "return a * b"))
        serving.wait_for("note: reloaded 1 tool")
        wait_until(lambda: len(children_of(serving.process.pid)) == 1)
        assert serving.call("add", a=4, b=5) == "20"
        assert serving.end() == 0
