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
WRITABLE = [client for client in CLIENTS if client.editor.is_writable]
each_client = pytest.mark.parametrize("client", WRITABLE, ids=lambda client: client.key)


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
    file.write_text(client.editor.show("theirs", other))
    before = file.read_bytes()
    done = connect(client.editor, file, "tools", ENTRY)
    assert done.backup is not None
    assert done.backup.read_bytes() == before
    assert list_servers(client.editor, file) == {"theirs": other, "tools": ENTRY}
    disconnect(client.editor, file, "tools", is_toolcrib)
    assert list_servers(client.editor, file) == {"theirs": other}


def test_removal_keeps_later_changes(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{\n  "a": 1\n}')
    connect(CURSOR.editor, file, "tools", ENTRY)
    file.write_text(file.read_text().replace('"a": 1', '"a": 2'))
    disconnect(CURSOR.editor, file, "tools", is_toolcrib)
    assert file.read_text() == '{\n  "a": 2,\n  "mcpServers": {}\n}'


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
    file.write_text(client.editor.show("tools", old))
    connect(client.editor, file, "tools", ENTRY, force=True)
    assert list_servers(client.editor, file) == {"tools": {**ENTRY, "timeout": 5, "note": "mine"}}


@each_client
def test_a_replaced_entry_loses_keys_of_the_other_transport(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text(client.editor.show("tools", {"url": "http://x", "headers": {"A": "b"}}))
    connect(client.editor, file, "tools", ENTRY, force=True)
    assert list_servers(client.editor, file) == {"tools": ENTRY}


@pytest.mark.parametrize(
    ("key", "text", "place"),
    [
        ("cursor", '{\n  "mcpServers": {\n', "file:3: not plain JSON: expecting property name enclosed"),
        ("cursor", '{\n  "mcpServers": []}', 'file:2: "mcpServers" must hold named servers'),
        ("vscode", "[]", "file:1: must be an object"),
        ("vscode", "{\n// no\n}", "file:2: not plain JSON: expecting property name"),
        ("gemini", '{"a": 1,}', "file:1: "),
        ("codex", "a = 1\na = 2\n", "file:2: not valid TOML"),
        ("cursor", '{"a": 1, "a": 2}', "file: cannot be edited: a key is there twice"),
        ("goose", "a: 1\n", "file: is a YAML file, which is not edited"),
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
    file = tmp_path / "mcp.json"
    file.write_text('{\n  // mine\n  "mcpServers": {}\n}')
    with pytest.raises(ConfigurationError) as caught:
        connect(CURSOR.editor, file, "new", {"url": "http://z/mcp"})
    shown = CURSOR.editor.show("new", {"url": "http://z/mcp"}).rstrip()
    assert caught.value.hint == f"add this below 'mcpServers' by hand:\n{shown}"
    with pytest.raises(ConfigurationError) as caught:
        disconnect(CURSOR.editor, file, "tools", is_toolcrib)
    assert caught.value.hint == "remove 'tools' below 'mcpServers' by hand"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a = 1\n",
        "# c\n[x]\nb=1 # d\n\n[mcp_servers.old]\nurl='x'\n# after\n[y]\nz=1\n",
        "[mcp_servers.a]\r\nurl='b'\r\n",
        "mcp_servers = { x = { url = 'y' } }",
        "mcp_servers.x.url='q' # q\n[z]\n",
        "[[other]]\na = 1\n[mcp_servers.x]\nurl = 'x'\n[[other]]\na = 2\n[mcp_servers.x.env]\nA = 'b'\n",
    ],
)
def test_toml_keeps_its_comments_and_everything_else(text: str) -> None:
    editor = CODEX.editor
    entry = {**ENTRY, "env": {"A": "b"}}
    added = editor.change(text, "tools", entry)
    assert editor.servers(added) == {**editor.servers(text), "tools": entry}
    assert added.count("#") == text.count("#")
    assert added.count("\r\n") == (added.count("\n") if "\r\n" in text else 0)
    removed = editor.change(added, "tools", None)
    assert {"mcp_servers": {}, **editor.parse(removed)} == {"mcp_servers": {}, **editor.parse(text)}
    assert removed.count("#") == text.count("#")


@pytest.mark.parametrize("indent", ["  ", "    ", "\t"])
@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_json_keeps_its_order_indentation_and_line_ends(indent: str, eol: str) -> None:
    lines = ["{", f'{indent}"z": [],', f'{indent}"mcpServers": {{}},', f'{indent}"a": "\u00e9"', "}", ""]
    text = eol.join(lines)
    added = CURSOR.editor.change(text, "tools", ENTRY)
    assert f'{eol}{indent * 2}"tools": {{{eol}{indent * 3}"command"' in added
    again = json.loads(CURSOR.editor.change(added, "tools", None))
    assert again == json.loads(text)
    assert list(again) == ["z", "mcpServers", "a"]
    assert added.endswith(f"}}{eol}")


def test_a_new_file_is_private_unless_it_is_shared(tmp_path: Path) -> None:
    connect(CURSOR.editor, tmp_path / "mine", "tools", ENTRY)
    connect(CURSOR.editor, tmp_path / "ours", "tools", ENTRY, mode=None)
    assert (tmp_path / "mine").stat().st_mode & 0o077 == 0
    (tmp_path / "plain").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode
