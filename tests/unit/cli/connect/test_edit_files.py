"""Reading and writing files of clients: atomic, with mode, owner and format kept."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from toolcrib.cli.connect import edit as store
from toolcrib.errors import ConfigurationError


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def others_in(folder: Path, *known: str) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name not in known)


def test_a_new_file_is_created_with_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "mcp.json"
    content = store.read(path)
    assert (content.data, content.text) == (None, "")
    assert store.write(content, "{}", 0o600) is None
    assert path.read_bytes() == b"{}"
    assert mode_of(path) == 0o600
    assert others_in(path.parent, "mcp.json") == []


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_mode_byte_order_mark_and_line_ends_are_kept(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(b"\xef\xbb\xbf{\r\n}\r\n")
    path.chmod(mode)
    content = store.read(path)
    assert content.text == "{\r\n}\r\n"
    backup = store.write(content, '{\r\n"a": "é"\r\n}\r\n', 0o600)
    assert path.read_bytes() == b'\xef\xbb\xbf{\r\n"a": "\xc3\xa9"\r\n}\r\n'
    assert backup == tmp_path / "mcp.json.bak"
    assert (mode_of(path), mode_of(backup)) == (mode, mode)


def test_the_backup_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text("first")
    assert store.write(store.read(path), "second", 0o600) == tmp_path / "mcp.json.bak"
    assert store.write(store.read(path), "third", 0o600) is None
    assert (tmp_path / "mcp.json.bak").read_text() == "first"
    assert others_in(tmp_path, "mcp.json", "mcp.json.bak") == []


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "real.json"
    real.parent.mkdir()
    real.write_text("old")
    link = tmp_path / "mcp.json"
    link.symlink_to(Path("dotfiles") / "real.json")
    store.write(store.read(link), "new", 0o600)
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert (tmp_path / "dotfiles" / "real.json.bak").read_text() == "old"


@pytest.mark.parametrize("change", ["other", None])
def test_a_change_by_another_program_is_kept(tmp_path: Path, change: str | None) -> None:
    path = tmp_path / "mcp.json"
    path.write_text("mine")
    content = store.read(path)
    if change is None:
        path.unlink()
    else:
        path.write_text(change)
    with pytest.raises(ConfigurationError, match="another program") as caught:
        store.write(content, "new", 0o600)
    assert caught.value.hint
    assert (path.read_text() if path.exists() else None) == change
    assert others_in(tmp_path, "mcp.json") == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only an administrator can do it")
def test_a_file_keeps_its_owner_when_an_administrator_writes(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text("old")
    os.chown(path, 1234, 4321)
    backup = store.write(store.read(path), "new", 0o600)
    assert backup is not None
    assert [(file.stat().st_uid, file.stat().st_gid) for file in (path, backup)] == [(1234, 4321)] * 2


def test_other_encodings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(b'{\n"a": "\xff"}')
    with pytest.raises(ConfigurationError, match=r"mcp\.json: is not UTF-8"):
        store.read(path)
    path.write_bytes("{}".encode("utf-16"))
    with pytest.raises(ConfigurationError, match="is not UTF-8"):
        store.read(path)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not a file"):
        store.read(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match="is not a file"):
        store.read(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        store.read(tmp_path / "loop")


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    content = store.Content(tmp_path / "file" / "mcp.json", None, "")
    with pytest.raises(ConfigurationError, match="cannot be written") as caught:
        store.write(content, "new", 0o600)
    assert "--print" in (caught.value.hint or "")


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="an administrator may write anywhere"
)
def test_a_read_only_file_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(ConfigurationError, match="read-only"):
        store.write(store.read(path), "new", 0o600)
    assert path.read_text() == "old"


def test_text_that_cannot_be_encoded_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text("old")
    with pytest.raises(ConfigurationError, match="not text"):
        store.write(store.read(path), "\udcff", 0o600)
    assert path.read_text() == "old"
    assert others_in(tmp_path, "mcp.json") == []
