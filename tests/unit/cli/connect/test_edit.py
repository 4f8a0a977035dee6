"""Adding servers to the files of clients, and removing them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolcrib.cli.connect.clients import CLIENTS, Client, is_toolcrib
from toolcrib.cli.connect.edit import connect, disconnect, list_servers
from toolcrib.errors import ConfigurationError

ENTRY: dict[str, Any] = {"command": "/bin/toolcrib", "args": ["serve", "--stdio"]}
CURSOR = next(client for client in CLIENTS if client.key == "cursor")
CODEX = next(client for client in CLIENTS if client.key == "codex")
each_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.key)


@each_client
def test_an_entry_is_added_to_a_new_file_and_removed(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "folder" / "file"
    assert connect(client.editor, file, "tools", ENTRY).state == "connected"
    assert list_servers(client.editor, file) == {"tools": ENTRY}
    assert connect(client.editor, file, "tools", ENTRY).state == "already-connected"
    assert disconnect(client.editor, file, "tools", is_toolcrib).state == "removed"
    assert list_servers(client.editor, file) == {}
    assert disconnect(client.editor, file, "tools", is_toolcrib).state == "not-connected"


@each_client
def test_other_entries_are_kept(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "file"
    other = {"url": "https://x/mcp", "unknown": True}
    file.write_text(client.editor.put("", "theirs", other))
    before = file.read_bytes()
    done = connect(client.editor, file, "tools", ENTRY)
    assert done.backup is not None
    assert done.backup.read_bytes() == before
    assert list_servers(client.editor, file) == {"theirs": other, "tools": ENTRY}
    disconnect(client.editor, file, "tools", is_toolcrib)
    assert file.read_bytes() == before


def test_removal_keeps_later_changes(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{\n  "a": 1\n}')
    connect(CURSOR.editor, file, "tools", ENTRY)
    file.write_text(file.read_text().replace('"a": 1', '"a": 2 /* now */'))
    disconnect(CURSOR.editor, file, "tools", is_toolcrib)
    assert file.read_text() == '{\n  "mcpServers": {},\n  "a": 2 /* now */\n}'


def test_a_different_entry_is_replaced_only_with_force(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"tools": {"command": "npx"}}}')
    before = file.read_bytes()
    done = connect(CURSOR.editor, file, "tools", ENTRY)
    assert (done.state, done.existing) == ("different", {"command": "npx"})
    assert file.read_bytes() == before
    assert disconnect(CURSOR.editor, file, "tools", is_toolcrib).state == "foreign"
    assert file.read_bytes() == before
    assert connect(CURSOR.editor, file, "tools", ENTRY, force=True).state == "replaced"
    assert list_servers(CURSOR.editor, file) == {"tools": ENTRY}
    assert connect(CURSOR.editor, file, "tools", ENTRY, force=True).state == "already-connected"
    assert connect(CURSOR.editor, file, "new", ENTRY, force=True).state == "connected"


@pytest.mark.parametrize(
    ("existing", "expected"),
    [
        ({**ENTRY, "env": {}, "disabled": False}, "already-connected"),
        ({**ENTRY, "timeout": 5}, "already-connected"),
        ({**ENTRY, "env": {"A": "b"}}, "different"),
        ({**ENTRY, "args": ["serve"]}, "different"),
        ({"url": "http://x"}, "different"),
        (None, "different"),
        ([], "different"),
    ],
)
def test_an_entry_that_reaches_the_same_server_is_the_same(
    existing: Any, expected: str, tmp_path: Path
) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"tools": existing}}))
    assert connect(CURSOR.editor, file, "tools", ENTRY).state == expected


@each_client
def test_a_replaced_entry_keeps_other_keys(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "file"
    old = {"command": "old", "args": ["x"], "env": {"A": "b"}, "timeout": 5, "note": "mine"}
    file.write_text(client.editor.put("", "tools", old))
    connect(client.editor, file, "tools", ENTRY, force=True)
    assert list_servers(client.editor, file) == {"tools": {**ENTRY, "timeout": 5, "note": "mine"}}


@each_client
def test_a_replaced_entry_loses_keys_of_the_other_transport(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text(client.editor.put("", "tools", {"url": "http://x", "headers": {"A": "b"}}))
    connect(client.editor, file, "tools", ENTRY, force=True)
    assert list_servers(client.editor, file) == {"tools": ENTRY}


@pytest.mark.parametrize(
    ("key", "text", "place"),
    [
        ("cursor", '{\n  "mcpServers": {\n', "file:3: expecting property name enclosed"),
        ("cursor", '{\n  "mcpServers": []}', 'file:2: "mcpServers" must hold named servers'),
        ("vscode", "[]", "file:1: must be an object"),
        ("claude-code", "{\n// no\n}", "file:2: expecting property name"),
        ("gemini", '{"a": 1,}', "file:1: "),
        ("codex", "a = 1\na = 2\n", "file:2: not valid TOML"),
        ("codex", "mcp_servers = { x = { url = 'y' } }", "file: cannot be edited without losing"),
        ("goose", "a: 1\n b: 2\n", "file:2: is not valid YAML"),
        ("goose", "a: 1\nextensions: [x]\n", 'file:2: "extensions" must hold named servers'),
        ("goose", "- a\n", "file:1: must be a mapping"),
        ("goose", "extensions: {x: {uri: y}}\n", "file: cannot be edited without losing"),
        ("goose", "a: &x {}\nb: *x\n", "file:2: is not valid YAML: the alias *x is not supported"),
    ],
)
def test_an_invalid_file_is_never_changed(key: str, text: str, place: str, tmp_path: Path) -> None:
    client = next(client for client in CLIENTS if client.key == key)
    file = tmp_path / "file"
    file.write_text(text)
    for force in (False, True):
        with pytest.raises(ConfigurationError) as caught:
            connect(client.editor, file, "tools", ENTRY, force=force)
        assert place in str(caught.value)
        assert caught.value.hint
    assert file.read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_entry_is_in_the_hint_where_a_file_cannot_be_edited(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("mcp_servers = { tools = { command = 'toolcrib' }, x = { url = 'y' } }")
    with pytest.raises(ConfigurationError) as caught:
        connect(CODEX.editor, file, "new", {"url": "http://z/mcp"})
    assert caught.value.hint == 'add this by hand:\n[mcp_servers.new]\nurl = "http://z/mcp"'
    with pytest.raises(ConfigurationError) as caught:
        disconnect(CODEX.editor, file, "tools", is_toolcrib)
    assert caught.value.hint == "remove it by hand"


def test_a_new_file_is_private_unless_it_is_shared(tmp_path: Path) -> None:
    connect(CURSOR.editor, tmp_path / "mine", "tools", ENTRY)
    connect(CURSOR.editor, tmp_path / "ours", "tools", ENTRY, mode=None)
    assert (tmp_path / "mine").stat().st_mode & 0o077 == 0
    (tmp_path / "plain").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode
