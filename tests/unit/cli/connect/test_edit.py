"""A server in and out of a client's file."""

from __future__ import annotations

import json
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.cli.connect.clients import CLIENTS, Client, find_client, is_toolcrib
from toolcrib.cli.connect.edit import connect, disconnect, list_servers, replace
from toolcrib.errors import ConfigurationError

ENTRY: dict[str, Any] = {"command": "/bin/toolcrib", "args": ["serve", "--stdio"]}
CURSOR = next(client for client in CLIENTS if client.key == "cursor")
CODEX = next(client for client in CLIENTS if client.key == "codex")
each_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.key)


def parse(client: Client, text: str) -> Any:
    return tomllib.loads(text) if client is CODEX else json.loads(text)


@each_client
def test_an_entry_goes_in_and_out_of_a_file_that_was_not_there(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "folder" / "file"
    assert connect(client, file, "tools", ENTRY).state == "connected"
    assert list_servers(client, file) == {"tools": ENTRY}
    assert connect(client, file, "tools", ENTRY).state == "already-connected"
    assert disconnect(client, file, "tools", is_toolcrib).state == "removed"
    assert list_servers(client, file) == {}
    assert disconnect(client, file, "tools", is_toolcrib).state == "not-connected"


@each_client
def test_what_is_there_already_stays(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "file"
    other = {"url": "https://x/mcp", "unknown": True}
    file.write_text(client.editor.put("", "theirs", other))
    before = file.read_bytes()
    done = connect(client, file, "tools", ENTRY)
    assert done.backup is not None
    assert done.backup.read_bytes() == before
    assert list_servers(client, file) == {"theirs": other, "tools": ENTRY}
    disconnect(client, file, "tools", is_toolcrib)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{ }",
        '{"a":1}',
        '{\n  "mcpServers": {\n  }\n}',
        "// mine\n",
        '{"mcpServers":{}, }\r\n',
        " ",
        "\ufeff{}\n",
    ],
)
def test_in_and_out_gives_back_every_letter(text: str, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_bytes(text.encode())
    connect(CURSOR, file, "tools", ENTRY)
    disconnect(CURSOR, file, "tools", is_toolcrib)
    assert file.read_bytes() == text.encode()


@given(
    st.lists(
        st.sampled_from(["a = 1\n", "\n", "# note\n", "[x]\n", "[mcp_servers]\n", "b.c = 2 # d"]), unique=True
    )
)
def test_in_and_out_gives_back_every_letter_of_toml(lines: list[str]) -> None:
    text = "".join(lines)
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "config.toml")
        file.write_text(text)
        connect(CODEX, file, "tools", ENTRY)
        disconnect(CODEX, file, "tools", is_toolcrib)
        assert file.read_text() == text


def test_what_was_written_since_is_not_undone(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"a": 1}')
    connect(CURSOR, file, "tools", ENTRY)
    file.write_text(file.read_text().replace('"a": 1', '"a": 2 /* now */'))
    disconnect(CURSOR, file, "tools", is_toolcrib)
    assert file.read_text() == '{"a": 2 /* now */, "mcpServers": {}}'


def test_another_entry_of_that_name_is_not_touched_unless_asked(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"tools": {"command": "npx"}}}')
    before = file.read_bytes()
    done = connect(CURSOR, file, "tools", ENTRY)
    assert (done.state, done.existing) == ("different", {"command": "npx"})
    assert file.read_bytes() == before
    assert disconnect(CURSOR, file, "tools", is_toolcrib).state == "foreign"
    assert file.read_bytes() == before
    assert replace(CURSOR, file, "tools", ENTRY).state == "replaced"
    assert list_servers(CURSOR, file) == {"tools": ENTRY}
    assert replace(CURSOR, file, "tools", ENTRY).state == "already-connected"
    assert replace(CURSOR, file, "new", ENTRY).state == "connected"


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
def test_the_same_way_to_the_server_is_the_same_entry(existing: Any, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"tools": existing}}))
    assert connect(CURSOR, file, "tools", ENTRY).state == expected


@each_client
def test_a_replaced_entry_keeps_the_users_own_switches(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "file"
    old = {"command": "old", "args": ["x"], "env": {"A": "b"}, "timeout": 5, "note": "mine"}
    file.write_text(client.editor.put("", "tools", old))
    replace(client, file, "tools", ENTRY)
    assert list_servers(client, file) == {"tools": {**ENTRY, "timeout": 5, "note": "mine"}}


@each_client
def test_what_belongs_to_an_address_does_not_stay_with_a_command(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text(client.editor.put("", "tools", {"url": "http://x", "headers": {"A": "b"}}))
    replace(client, file, "tools", ENTRY)
    assert list_servers(client, file) == {"tools": ENTRY}


@pytest.mark.parametrize(
    ("key", "text", "place"),
    [
        ("cursor", '{\n  "mcpServers": {\n', "file:3: expecting property name enclosed"),
        ("cursor", '{\n  "mcpServers": []}', 'file:2: "mcpServers" must be an object'),
        ("vscode", "[]", "file:1: must be an object"),
        ("claude-code", "{\n// no\n}", "file:2: comments are not allowed"),
        ("gemini", '{"a": 1,}', "file:1: comma after the last item"),
        ("codex", "a = 1\na = 2\n", "file:2: is not TOML"),
        ("codex", "mcp_servers = { x = { url = 'y' } }", "file: cannot be edited without losing"),
    ],
)
def test_a_file_that_is_not_valid_is_never_touched(key: str, text: str, place: str, tmp_path: Path) -> None:
    client = find_client(key)
    assert client is not None
    file = tmp_path / "file"
    file.write_text(text)
    for act in (connect, replace):
        with pytest.raises(ConfigurationError) as caught:
            act(client, file, "tools", ENTRY)
        assert place in str(caught.value)
        assert caught.value.hint
    assert file.read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_cannot_be_edited_is_handed_over_to_paste(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("mcp_servers = { tools = { command = 'toolcrib' }, x = { url = 'y' } }")
    with pytest.raises(ConfigurationError) as caught:
        connect(CODEX, file, "new", {"url": "http://z/mcp"})
    assert caught.value.hint == 'add this by hand:\n[mcp_servers.new]\nurl = "http://z/mcp"'
    with pytest.raises(ConfigurationError) as caught:
        disconnect(CODEX, file, "tools", is_toolcrib)
    assert caught.value.hint == "remove it by hand"


def test_a_new_file_is_private_and_a_shared_one_is_not(tmp_path: Path) -> None:
    connect(CURSOR, tmp_path / "mine", "tools", ENTRY)
    connect(CURSOR, tmp_path / "ours", "tools", ENTRY, mode=None)
    assert (tmp_path / "mine").stat().st_mode & 0o077 == 0
    (tmp_path / "plain").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_an_old_backup_of_something_else_is_no_guide(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    for backup in ("not json", '{"mcpServers": {"tools": {"command": "/bin/toolcrib"}}}', "[]"):
        (tmp_path / "mcp.json.bak").write_text(backup)
        file.write_text('{"mcpServers": {"tools": {"command": "/bin/toolcrib"}}}')
        disconnect(CURSOR, file, "tools", is_toolcrib)
        assert file.read_text() == '{"mcpServers": {}}'
