"""What users of such systems ask for: filters, prefixes, isolation, versions, a command line."""

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
from toolcrib.errors import BatchError, ConfigurationError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def server() -> MCPServer:
    return MCPServer()


async def test_g_03_text_that_looks_like_json_stays_text_and_stringified_data_is_decoded(
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


def test_g_05_tools_are_chosen_by_name_glob_pattern_and_tag_and_excluding_wins(server: MCPServer) -> None:
    many = [
        named("github_list", tags=["read"]),
        named("github_delete", destructive=True),
        named("jira_list", tags=["read"]),
        named("mail_send"),
    ]

    def chosen(include: list[str], exclude: list[str]) -> list[str]:
        server = MCPServer()
        server.add(many, include=include, exclude=exclude)
        return names(server.registry)

    assert chosen(["github_*", "mail_send"], []) == ["github_list", "github_delete", "mail_send"]
    assert chosen(["re:(jira|mail)_.*"], []) == ["jira_list", "mail_send"]
    assert chosen(["tag:read"], ["jira_*"]) == ["github_list"]
    assert chosen([], ["tag:destructive", "mail_send"]) == ["github_list", "jira_list"]
    for selectors in (["gitlab_*"], ["tag:write"], ["re:git"], ["github_list", "nothing"]):
        with pytest.raises(ConfigurationError, match="matches no tool"):
            chosen(selectors, [])


class Tracker(Application):
    @tool
    def create_issue(self, title: str) -> str:
        """Create an issue."""
        return f"{self.name}: {title}"


async def test_g_06_prefixes_keep_sources_apart_and_a_clash_names_both(server: MCPServer) -> None:
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


def test_g_08_one_bad_tool_is_set_apart_with_its_reason_or_nothing_is_registered(server: MCPServer) -> None:
    def wrong(**anything: Any) -> None: ...

    batch = [named("one"), wrong, named("bad name"), 5, named("ONE"), named("two")]
    report = server.add(batch)
    assert names(server.registry) == ["one", "two"]
    assert [finding.code for finding in report.errors] == [
        "invalid-signature",
        "invalid-tool",
        "invalid-name",
        "duplicate-name",
    ]
    assert all(finding.message for finding in report.errors)
    other = MCPServer()
    with pytest.raises(BatchError) as refusal:
        other.add(batch, strict=True)
    assert names(other.registry) == []
    assert refusal.value.findings


async def test_g_12_versions_live_side_by_side_and_one_can_be_pinned(server: MCPServer) -> None:
    for version in ("1", "10", "2"):
        server.add(lambda version=version: version, name="price", version=version, extra="ignore")
    assert names(server.registry) == ["price"]
    assert (await server.call("price")).text == "10"
    assert [(await server.call(f"price@{version}")).text for version in ("1", "2", "10")] == ["1", "2", "10"]
    server.registry.disable("price@10")
    assert (await server.call("price")).text == "2"
    prints = {tool.version: tool.definition.fingerprint for tool in server.registry.versions("price")}
    assert len(prints) == 3


# --- the command line ---------------------------------------------------------------------------------


def crib(*arguments: str, folder: Path, code: int = 0) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1", "NO_COLOR": "1"}
    done = fork_server.run(*COMMAND, *arguments, cwd=folder, env=environment, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout


def test_g_15_tools_are_listed_described_and_called_as_json_without_a_question(tmp_path: Path) -> None:
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
