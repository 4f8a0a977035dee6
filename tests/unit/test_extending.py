"""The extension package of docs/extending.md, installed outside the source tree and used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.system import fork_server
from tests.support.system.worker_lock import alone, shared_folder

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = ROOT / "examples" / "extension"
TIMEOUT_S = 120


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the installed package, shared by all test workers."""
    folder = shared_folder(tmp_path_factory) / "extension"
    with alone(folder.with_suffix(".lock")):
        if not folder.exists():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
            command = [*pip, "--no-index", "--target", str(folder), str(EXTENSION)]
            subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_S)
    return folder


def run(installed: Path, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(installed)}
    return fork_server.run(*command, cwd=cwd, env=environ, text=True, timeout=TIMEOUT_S)


def toolcrib(installed: Path, *arguments: str, cwd: Path) -> str:
    done = run(installed, "-m", "toolcrib", *arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_shows_the_files_of_the_package() -> None:
    page = (ROOT / "docs/extending.md").read_text()
    shown = dict(re.findall(r"```python\n# (crib_extras/\w+\.py)\n(.*?)```", page, re.DOTALL))
    files = {
        f"crib_extras/{path.name}": path.read_text()
        for path in (EXTENSION / "crib_extras").glob("*.py")
        if path.name != "__init__.py"
    }
    assert shown == files


def test_every_example_of_the_page_compiles() -> None:
    page = (ROOT / "docs/extending.md").read_text()
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page, re.DOTALL)):
        compile(block, f"example {number}", "exec")


def test_a_source_reads_a_new_kind_of_target(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("name,description,text\nmotto,Return the motto.,Keep it simple.\n")
    listed = json.loads(toolcrib(installed, "list", "texts.csv", "--json", cwd=tmp_path))
    assert [tool["name"] for tool in listed["tools"]] == ["motto"]
    assert toolcrib(installed, "call", "motto", "-t", "texts.csv", cwd=tmp_path).strip() == "Keep it simple."


def test_a_target_that_a_source_cannot_read_is_an_error(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("name,text\nmotto,Keep it simple.\n")
    done = run(installed, "-m", "toolcrib", "check", "texts.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: texts.csv: the columns must be name, description, text\n"


TOOLS = '''
from toolcrib import tool

@tool
def find_order(number: int) -> dict:
    """Find an order by its number. TODO: explain the result."""
    return {"number": number}
'''


def test_an_export_format_is_available_by_its_name(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    (exported,) = json.loads(toolcrib(installed, "export", "--to", "acme", "tools.py", cwd=tmp_path))
    assert exported["tool"] == "find_order"
    assert exported["schema"]["required"] == ["number"]


def test_a_lint_rule_runs_with_the_others(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    document = json.loads(toolcrib(installed, "check", "tools.py", "--json", cwd=tmp_path))
    assert "todo" in {finding["code"] for finding in document["findings"]}


def test_a_provider_answers_by_its_name(installed: Path, tmp_path: Path) -> None:
    code = "from toolcrib.agents import AgentRunner; print(AgentRunner([], 'echo').run('which order?'))"
    assert run(installed, "-c", code, cwd=tmp_path).stdout == "which order?\n"


MIDDLEWARE = """
import asyncio, logging
from toolcrib import MCPServer, Principal
from crib_extras.slow_calls import SlowCalls

logging.basicConfig(format="%(message)s")
server = MCPServer("shop", middleware=[SlowCalls(limit_s=0)])
calls = []

@server.middleware
async def count(call, next):
    calls.append(call.tool.name)
    return await next(call)

@server.tool(tags=["internal"])
def audit() -> str:
    "Audit the shop."
    return "done"

@server.tool
def sell() -> str:
    "Sell something."
    return "sold"

async def main():
    assert [tool.name for tool in server.list_tools()] == ["sell"]
    result = await server.call("sell")
    assert result.text == "sold" and calls == ["sell"], (result, calls)
    admin = Principal("key:admin")
    assert (await server.call("audit", principal=admin)).text == "done"

asyncio.run(main())
"""


def test_middleware_runs_around_calls_and_hides_tools(installed: Path, tmp_path: Path) -> None:
    done = run(installed, "-c", MIDDLEWARE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"sell took \d", done.stderr)


METHOD = """
import asyncio
from toolcrib import MCPServer
from crib_extras.count_method import add_count_method

server = MCPServer("shop")
add_count_method(server)

@server.tool
def sell() -> str:
    "Sell something."
    return "sold"

async def main():
    async with server.connect() as client:
        assert "example/count" in client.capabilities["experimental"]
        print((await client.request("example/count"))["count"])

asyncio.run(main())
"""


def test_a_method_is_served_and_announced(installed: Path, tmp_path: Path) -> None:
    done = run(installed, "-c", METHOD, cwd=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "1"), done.stderr
