"""The file of each client on each platform, and its entry."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolcrib.cli.connect.clients import CLIENTS, Client
from toolcrib.errors import ConfigurationError

URL = "http://127.0.0.1:8000/mcp"
HOME = Path("/home/me")
WINDOWS = {"APPDATA": "/users/me/Roaming", "LOCALAPPDATA": "/users/me/Local"}


def client(name: str) -> Client:
    return next(each for each in CLIENTS if each.key == name)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tests find no real client."""
    monkeypatch.setenv("HOME", str(HOME))
    monkeypatch.setattr(sys, "platform", "linux")
    own = ("CLAUDE_CONFIG_DIR", "GEMINI_CLI_HOME", "CODEX_HOME", "GOOSE_PATH_ROOT")
    for variable in (*WINDOWS, "XDG_CONFIG_HOME", *own):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize(
    ("name", "platform", "environ", "file"),
    [
        ("claude-desktop", "linux", {}, "/home/me/.config/Claude/claude_desktop_config.json"),
        ("claude-desktop", "linux", {"XDG_CONFIG_HOME": "/c"}, "/c/Claude/claude_desktop_config.json"),
        (
            "claude-desktop",
            "darwin",
            {"XDG_CONFIG_HOME": "/c"},
            "/home/me/Library/Application Support/Claude/claude_desktop_config.json",
        ),
        ("claude-desktop", "win32", WINDOWS, "/users/me/Roaming/Claude/claude_desktop_config.json"),
        ("claude-desktop", "win32", {}, "/home/me/AppData/Roaming/Claude/claude_desktop_config.json"),
        ("claude-code", "linux", {}, "/home/me/.claude.json"),
        ("claude-code", "win32", WINDOWS, "/home/me/.claude.json"),
        ("claude-code", "darwin", {"CLAUDE_CONFIG_DIR": "/cc"}, "/cc/.claude.json"),
        ("cursor", "linux", {}, "/home/me/.cursor/mcp.json"),
        ("cursor", "win32", WINDOWS, "/home/me/.cursor/mcp.json"),
        ("vscode", "linux", {}, "/home/me/.config/Code/User/mcp.json"),
        ("vscode", "darwin", {}, "/home/me/Library/Application Support/Code/User/mcp.json"),
        ("vscode", "win32", WINDOWS, "/users/me/Roaming/Code/User/mcp.json"),
        ("gemini", "linux", {}, "/home/me/.gemini/settings.json"),
        ("gemini", "win32", {"GEMINI_CLI_HOME": "/g"}, "/g/.gemini/settings.json"),
        ("codex", "darwin", {}, "/home/me/.codex/config.toml"),
        ("codex", "win32", {"CODEX_HOME": "/k"}, "/k/config.toml"),
        ("codex", "linux", {"CODEX_HOME": " "}, "/home/me/.codex/config.toml"),
        ("goose", "linux", {}, "/home/me/.config/goose/config.yaml"),
        ("goose", "darwin", {}, "/home/me/.config/goose/config.yaml"),
        ("goose", "darwin", {"XDG_CONFIG_HOME": "/c"}, "/c/goose/config.yaml"),
        ("goose", "win32", WINDOWS, "/users/me/Roaming/Block/goose/config/config.yaml"),
        ("goose", "linux", {"GOOSE_PATH_ROOT": "/g"}, "/g/config/config.yaml"),
        ("goose", "linux", {"GOOSE_PATH_ROOT": "relative"}, "/home/me/.config/goose/config.yaml"),
        ("windsurf", "linux", {"XDG_CONFIG_HOME": "/c"}, "/home/me/.codeium/windsurf/mcp_config.json"),
        ("windsurf", "win32", WINDOWS, "/home/me/.codeium/windsurf/mcp_config.json"),
    ],
)
def test_user_files(
    name: str, platform: str, environ: dict[str, str], file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    assert client(name).file("user").as_posix() == file


def test_the_packaged_claude_desktop_on_windows_has_its_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "Local"))
    usual = client("claude-desktop").file("user")
    packages = tmp_path / "Local" / "Packages"
    (packages / "Claude_aaa").mkdir(parents=True)
    second = packages / "Claude_bbb" / "LocalCache" / "Roaming" / "Claude"
    second.mkdir(parents=True)
    first = client("claude-desktop").file("user")
    assert first == packages / "Claude_aaa/LocalCache/Roaming/Claude/claude_desktop_config.json"
    assert first != usual
    (second / "claude_desktop_config.json").write_text("{}")
    assert client("claude-desktop").file("user") == second / "claude_desktop_config.json"


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("claude-code", ".mcp.json"),
        ("cursor", ".cursor/mcp.json"),
        ("vscode", ".vscode/mcp.json"),
        ("gemini", ".gemini/settings.json"),
        ("codex", ".codex/config.toml"),
    ],
)
def test_project_files(name: str, file: str) -> None:
    assert client(name).file("project") == Path.cwd() / file
    assert client(name).next_step_in_project not in ("", client(name).next_step)


@pytest.mark.parametrize("name", ["claude-desktop", "goose", "windsurf"])
def test_some_clients_have_no_project_file(name: str) -> None:
    with pytest.raises(ConfigurationError, match="no project configuration") as caught:
        client(name).file("project")
    assert caught.value.hint


STARTED: dict[str, Any] = {"command": "/bin/toolcrib", "args": ["serve", "--stdio", "/x/tools.py"]}


@pytest.mark.parametrize(
    ("name", "stdio", "http"),
    [
        ("claude-desktop", STARTED, None),
        ("claude-code", {"type": "stdio", **STARTED}, {"type": "http", "url": URL}),
        ("cursor", {"type": "stdio", **STARTED}, {"url": URL}),
        ("vscode", {"type": "stdio", **STARTED}, {"type": "http", "url": URL}),
        ("gemini", STARTED, {"httpUrl": URL}),
        ("codex", STARTED, {"url": URL}),
        ("windsurf", STARTED, {"serverUrl": URL}),
    ],
)
def test_entries(name: str, stdio: dict[str, Any], http: dict[str, Any] | None) -> None:
    assert client(name).entry(STARTED, "shop") == stdio
    assert client(name).entry({**STARTED, "env": {"KEY": "v"}}, "shop") == {**stdio, "env": {"KEY": "v"}}
    if http is not None:
        assert client(name).entry({"url": URL}, "shop") == http
        return
    with pytest.raises(ConfigurationError, match="does not support URLs") as caught:
        client(name).entry({"url": URL}, "shop")
    assert "--url" in (caught.value.hint or "")


def test_entries_of_goose_have_its_own_keys() -> None:
    common = {"enabled": True, "description": "Tools served by toolcrib", "timeout": 300, "name": "shop"}
    assert client("goose").entry({**STARTED, "env": {"KEY": "v"}}, "shop") == {
        **common,
        "type": "stdio",
        "cmd": STARTED["command"],
        "args": STARTED["args"],
        "envs": {"KEY": "v"},
    }
    assert client("goose").entry({"url": URL, "headers": {"A": "b"}}, "shop") == {
        **common,
        "type": "streamable_http",
        "uri": URL,
        "headers": {"A": "b"},
    }
    assert client("goose").server_name("Shop") == "shop"


def test_a_variable_that_goose_does_not_pass_on_is_an_error() -> None:
    for variable, hint in (("PYTHONPATH", "name a file instead of a module"), ("PATH", "omit it")):
        with pytest.raises(ConfigurationError, match=f"Goose does not pass {variable}") as caught:
            client("goose").entry({**STARTED, "env": {variable: "/x", "KEY": "v"}}, "shop")
        assert caught.value.hint == hint


@pytest.mark.parametrize("each", CLIENTS, ids=lambda each: each.key)
def test_a_shown_entry_is_valid(each: Client) -> None:
    entry = each.entry(
        {"command": "C:\\bin\\toolcrib.exe", "args": ["serve", 'a "b"\n'], "env": {"K": "é\x7f"}},
        "my-tools",
    )
    text = each.editor.show("my-tools", entry)
    parse = {"codex": tomllib.loads, "goose": yaml.safe_load}.get(each.key, json.loads)
    (servers,) = parse(text).values()
    assert servers == {"my-tools": entry}


def test_a_client_that_has_run_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert not any(each.is_found() for each in CLIENTS)
    (tmp_path / ".claude.json").touch()
    (tmp_path / ".cursor").mkdir()
    assert [each.key for each in CLIENTS if each.is_found()] == ["claude-code", "cursor"]
