"""Wishes of users of such systems: filters, prefixes, isolation, versions, a command line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.definitions.small_tools import named, names
from tests.support.servers.serve_process import COMMAND
from tests.support.system import fork_server
from tests.support.system.source_folders import write
from toolcrib import Application, MCPServer, ToolAlreadyExistsError, tool

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def server() -> MCPServer:
    return MCPServer()


@pytest.mark.requirement("G-03")
async def test_text_that_looks_like_json_stays_text_and_stringified_data_is_decoded(
    server: MCPServer,
) -> None:
    @server.tool
    def take(
        text: str, items: list[int] | None = None, options: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Give back what came."""
        return {"text": text, "items": items, "options": options}

    for text in ('{"a": 1}', "[1, 2]", "5", "true", "null", '"quoted"'):
        assert (await server.call("take", {"text": text})).structured_content["text"] == text
    result = await server.call("take", {"text": "x", "items": "[1, 2]", "options": '{"a": 1}'})
    assert result.structured_content == {"text": "x", "items": [1, 2], "options": {"a": 1}}
    assert (await server.call("take", {"text": "x", "items": "[1, two]"})).is_error


class Tracker(Application):
    @tool
    def create_issue(self, title: str) -> str:
        """Create an issue."""
        return f"{self.name}: {title}"


@pytest.mark.requirement("G-06")
async def test_prefixes_keep_sources_apart_and_a_clash_names_both(server: MCPServer) -> None:
    server.add(Tracker("github"), namespace=True)
    server.add(Tracker("jira"), namespace=True)
    assert names(server.registry) == ["github_create_issue", "jira_create_issue"]
    assert (await server.call("jira_create_issue", {"title": "x"})).text == "jira: x"
    report = server.add(Tracker("github"), namespace=True)
    (finding,) = report.errors
    first = server.registry.get("github_create_issue").source
    assert finding.code == "duplicate-name"
    assert str(first) in (finding.hint or "")
    assert finding.file == __file__
    with pytest.raises(ToolAlreadyExistsError):
        server.add(named("GitHub_create_issue"))


# --- the command line ---------------------------------------------------------------------------------


def crib(*arguments: str, folder: Path, code: int = 0) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1", "NO_COLOR": "1"}
    done = fork_server.run(*COMMAND, *arguments, cwd=folder, env=environment, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.mark.requirement("G-15")
def test_tools_are_listed_described_and_called_as_json_without_a_question(tmp_path: Path) -> None:
    text = '''
        from toolcrib import tool

        @tool
        def add(a: int, b: int = 1) -> int:
            """Add two numbers.

            Args:
                a: First number
                b: Second number
            """
            return a + b

        @tool
        def fail() -> str:
            """Fail on purpose."""
            raise RuntimeError("no")
    '''
    write(tmp_path, {"desk.py": text})
    listed = json.loads(crib("list", "desk.py", "--json", folder=tmp_path))
    assert [(found["name"], Path(found["source"]["file"]).name) for found in listed["tools"]] == [
        ("add", "desk.py"),
        ("fail", "desk.py"),
    ]
    assert listed["findings"] == []
    described = json.loads(crib("show", "add", "-t", "desk.py", "--json", folder=tmp_path))
    assert described["inputSchema"]["properties"]["a"] == {"type": "integer", "description": "First number"}
    result = json.loads(crib("call", "add", "-t", "desk.py", "--json", '{"a": 2, "b": 3}', folder=tmp_path))
    assert (result["structuredContent"], result["isError"]) == (5, False)
    failed = json.loads(crib("call", "fail", "-t", "desk.py", "--json", "{}", folder=tmp_path, code=1))
    assert failed["isError"]
    crib("call", "nothing", "-t", "desk.py", folder=tmp_path, code=2)
