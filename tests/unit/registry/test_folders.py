"""Files and folders as resources: what is listed, what is read, and which media type it has."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from toolcrib.content import is_text_type
from toolcrib.errors import FileTooLargeError, FileUnavailableError, InvalidToolError
from toolcrib.registry import folders
from toolcrib.registry.folders import FileEntry, FileReader, Folder, mime_type_of

FILES = [
    "a-b.md",
    "a/.git/config",
    "a/b/c.md",
    "a/d.txt",
    "a/z.MD",
    "index.md",
    ".env",
    "node_modules/x/y.md",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in FILES:
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "root"


def paths(folder: Folder) -> list[str]:
    return [file.path for file in folder.files()]


def test_a_folder_lists_its_files_in_order_and_leaves_out_hidden_ones(root: Path) -> None:
    expected = sorted(name for name in FILES if "." not in (name[0], name.partition("/")[2][:1]))
    assert paths(Folder(root)) == expected


def test_every_listed_file_can_be_read_and_no_other(root: Path) -> None:
    folder = Folder(root)
    listed = paths(folder)
    for name in FILES:
        if name in listed:
            assert folder.read(name)[0] == name.encode()
        else:
            with pytest.raises(FileUnavailableError):
                folder.read(name)


def test_an_entry_has_size_type_and_time(root: Path) -> None:
    os.utime(root / "index.md", (5, 5))
    assert FileEntry("index.md", 8, "text/markdown", 5.0) in Folder(root).files()


def test_a_list_ends_at_the_limit_and_the_log_tells(
    root: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level(logging.WARNING, "toolcrib"):
        assert len(paths(Folder(root))) == 6
        assert not caplog.records
        monkeypatch.setattr(folders, "MAX_FILES", 2)
        assert paths(Folder(root)) == ["a-b.md", "a/b/c.md"]
    assert "too many files; the list ends after 2" in caplog.text


def test_a_list_looks_at_a_bounded_number_of_entries(
    root: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        (root / f"0empty{number:03}" / "deeper").mkdir(parents=True)
    opened: list[object] = []
    real_open = folders._open_folder
    monkeypatch.setattr(folders, "_open_folder", lambda *given: opened.append(given) or real_open(*given))
    monkeypatch.setattr(folders, "MAX_FILES", 3)
    assert not list(Folder(root).files())
    assert len(opened) <= 31
    assert "too many files" in caplog.text


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            "/",
            ".",
            "..",
            "a",
            "a/",
            "a//d.txt",
            "./index.md",
            "a/../index.md",
            "/index.md",
            "missing.md",
        ),
        *(
            "index.md/",
            "index.md/x",
            "index.md\0",
            "INDEX\ud800",
            "x" * 300,
            "a/" * 20_000 + "b",
            "~/index.md",
        ),
    ],
)
def test_a_name_that_is_not_the_path_of_a_file_is_not_found(root: Path, name: str) -> None:
    with pytest.raises(FileUnavailableError) as caught:
        Folder(root).read(name)
    assert str(root) not in str(caught.value)
    assert len(str(caught.value)) < 300
    assert caught.value.code == "file-unavailable"
    assert caught.value.__cause__ is None


def test_a_file_over_the_limit_is_too_large(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "big.txt").write_bytes(b"12345")
    monkeypatch.setattr(folders, "MAX_BYTES", 5)
    assert Folder(root).read("big.txt") == (b"12345", "text/plain")
    monkeypatch.setattr(folders, "MAX_BYTES", 4)
    with pytest.raises(FileTooLargeError, match=r"File 'big\.txt' is larger than 4 bytes"):
        Folder(root).read("big.txt")
    with pytest.raises(FileTooLargeError):
        FileReader(root / "big.txt", 4).read()


def test_a_file_of_several_chunks_is_read_completely(root: Path) -> None:
    data = os.urandom(3 * folders.CHUNK + 7)
    (root / "big.bin").write_bytes(data)
    assert Folder(root).read("big.bin") == (data, "application/octet-stream")


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("missing", "file"):
        with pytest.raises(InvalidToolError, match="is not a folder") as caught:
            Folder(tmp_path / name)
        assert caught.value.hint


def test_a_folder_that_is_removed_has_no_files(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    folder = Folder(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert paths(folder) == []
    with pytest.raises(FileUnavailableError):
        folder.read("x")


def test_a_root_may_be_a_link_that_changes(tmp_path: Path) -> None:
    for version in ("one", "two"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "file.txt").write_text(version)
    link = tmp_path / "current"
    link.symlink_to("one")
    folder = Folder(link)
    assert folder.read("file.txt")[0] == b"one"
    link.unlink()
    link.symlink_to(tmp_path / "two")
    assert folder.read("file.txt")[0] == b"two"
    assert paths(folder) == ["file.txt"]


def test_the_folder_of_the_whole_system_can_be_a_root(root: Path) -> None:
    name = str((root / "index.md").resolve()).lstrip("/")
    assert Folder("/").read(name)[0] == b"index.md"


def test_a_relative_path_belongs_to_the_folder_where_it_was_given(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    folder, reader = Folder("a"), FileReader("a/d.txt")
    monkeypatch.chdir("/")
    assert folder.read("d.txt")[0] == b"a/d.txt"
    assert reader.read() == (b"a/d.txt", "text/plain")


def test_a_file_reader_tells_only_the_name_of_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "folder.d").mkdir()
    for name in ("missing.txt", "folder.d"):
        with pytest.raises(FileUnavailableError) as caught:
            FileReader(tmp_path / name).read()
        assert str(caught.value) == f"File '{name}' not found"


def test_without_relative_opening_links_are_not_followed_either(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "CAN_OPEN_RELATIVE", False)
    (root / "in.md").symlink_to("a/b/c.md")
    (root / "out.md").symlink_to(root.parent / "secret.md")
    (root / "up").symlink_to("..")
    (root.parent / "secret.md").write_text("secret")
    folder = Folder(root)
    assert paths(folder) == ["a-b.md", "a/b/c.md", "a/d.txt", "a/z.MD", "index.md", "node_modules/x/y.md"]
    assert folder.read("a/b/c.md")[0] == b"a/b/c.md"
    for name in ("in.md", "out.md", "up/secret.md"):
        with pytest.raises(FileUnavailableError):
            folder.read(name)


@pytest.mark.parametrize(
    ("name", "mime_type", "is_shown_as_text"),
    [
        ("a.md", "text/markdown", True),
        ("A.MD", "text/markdown", True),
        ("pyproject.toml", "application/toml", True),
        ("a.yml", "application/yaml", True),
        ("a.jsonl", "application/jsonl", True),
        ("a.json", "application/json", True),
        ("a.svg", "image/svg+xml", True),
        ("a.ts", "text/typescript", True),
        ("a.html", "text/html", True),
        ("README", "text/plain", True),
        ("folder.md/Makefile", "text/plain", True),
        ("a.png", "image/png", False),
        ("a.pdf", "application/pdf", False),
        ("a.txt.gz", "application/gzip", False),
        ("a.txt.bz2", "application/octet-stream", False),
        ("a.svgz", "application/octet-stream", False),
        ("data:text/html,x", "application/octet-stream", False),
        ("a", "application/octet-stream", False),
        (".md", "application/octet-stream", False),
    ],
)
def test_the_media_type_follows_from_the_name(name: str, mime_type: str, is_shown_as_text: bool) -> None:
    assert mime_type_of(name) == mime_type
    assert is_text_type(mime_type) is is_shown_as_text


def test_parameters_and_case_of_a_media_type_do_not_matter() -> None:
    assert is_text_type("Text/Plain; charset=utf-8")
    assert is_text_type("application/ld+json;profile=x")
    assert not is_text_type("json")
