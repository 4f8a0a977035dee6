"""Hostile folders: nothing outside the root is read or listed, nothing blocks, and memory is bounded."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib.errors import FileTooLargeError, FileUnavailableError
from toolcrib.registry import folders
from toolcrib.registry.folders import FileReader, Folder
from toolcrib.registry.uri_template import URITemplate

SECRET = b"the secret"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with one file, beside a folder with a secret."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_bytes(SECRET)
    (tmp_path / "root" / "sub").mkdir(parents=True)
    (tmp_path / "root" / "fine.txt").write_text("fine")
    return tmp_path / "root"


def paths(folder: Folder) -> list[str]:
    return [file.path for file in folder.files()]


def refused(folder: Folder, name: str) -> bool:
    """Return whether a file cannot be read, with a message that has no absolute path."""
    with pytest.raises(FileUnavailableError) as caught:
        folder.read(name)
    return str(folder.path.parent) not in str(caught.value)


def test_a_link_out_of_the_root_is_neither_listed_nor_read(root: Path) -> None:
    outside = root.parent / "outside"
    (root / "absolute.txt").symlink_to(outside / "secret.txt")
    (root / "relative.txt").symlink_to("../outside/secret.txt")
    (root / "absolute").symlink_to(outside)
    (root / "relative").symlink_to("../outside")
    (root / "sub" / "up").symlink_to("../..")
    (root / "sub" / "chain.txt").symlink_to("../relative.txt")
    (root / "dangling.txt").symlink_to("nothing")
    folder = Folder(root)
    assert paths(folder) == ["fine.txt"]
    for name in ("absolute.txt", "relative.txt", "sub/chain.txt", "dangling.txt"):
        assert refused(folder, name)
    for name in ("absolute/secret.txt", "relative/secret.txt", "sub/up/outside/secret.txt"):
        assert refused(folder, name)


def test_a_folder_whose_name_begins_like_the_root_is_outside(root: Path) -> None:
    other = root.parent / "root-of-others"
    other.mkdir()
    (other / "secret.txt").write_bytes(SECRET)
    (root / "link.txt").symlink_to(other / "secret.txt")
    assert refused(Folder(root), "link.txt")


def test_a_file_outside_is_not_taken_for_one_inside_with_the_same_name(root: Path) -> None:
    other = root.parent / "toor"
    other.mkdir()
    (other / "fine.txt").write_bytes(SECRET)
    (root / "link.txt").symlink_to(other / "fine.txt")
    assert refused(Folder(root), "link.txt")


def test_a_link_within_the_root_is_not_followed_since_rules_are_about_paths(root: Path) -> None:
    (root / "link.txt").symlink_to("sub/target.txt")
    (root / "folder").symlink_to(root / "sub")
    (root / "sub" / "target.txt").write_text("target")
    folder = Folder(root)
    assert paths(folder) == ["fine.txt", "sub/target.txt"]
    assert folder.read("sub/target.txt")[0] == b"target"
    assert refused(folder, "link.txt")
    assert refused(folder, "folder/target.txt")


def test_a_link_does_not_open_what_is_hidden(root: Path) -> None:
    (root / ".env").write_bytes(SECRET)
    (root / "env.txt").symlink_to(".env")
    folder = Folder(root)
    assert paths(folder) == ["fine.txt"]
    assert refused(folder, "env.txt")
    assert refused(folder, ".env")


def test_link_loops_end(root: Path) -> None:
    (root / "self").symlink_to("self")
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    (root / "sub" / "back").symlink_to("..")
    (root / "sub" / "here").symlink_to(".")
    folder = Folder(root)
    assert paths(folder) == ["fine.txt"]
    assert refused(folder, "self")
    assert refused(folder, "one/two")
    assert refused(folder, "self/" * 50 + "x")
    assert refused(folder, "sub/back/" * 20 + "fine.txt")


def swap_after(monkeypatch: pytest.MonkeyPatch, times: int, swap: Callable[[], None]) -> None:
    """Swap files when links were resolved `times` times, and nothing has been opened yet."""
    resolve, calls = os.path.realpath, [0]

    def realpath(*given: Any, **options: Any) -> str:
        resolved: str = resolve(*given, **options)
        calls[0] += 1
        if calls[0] == times:
            swap()
        return resolved

    monkeypatch.setattr(folders.os.path, "realpath", realpath)


def test_a_file_that_becomes_a_link_after_the_check_is_not_followed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap() -> None:
        (root / "fine.txt").unlink()
        (root / "fine.txt").symlink_to(root.parent / "outside" / "secret.txt")

    swap_after(monkeypatch, 2, swap)
    assert refused(Folder(root), "fine.txt")
    assert (root / "fine.txt").is_symlink()


def test_a_folder_that_becomes_a_link_after_the_check_is_not_followed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "sub" / "secret.txt").write_text("fine")

    def swap() -> None:
        (root / "sub").rename(root / "moved")
        (root / "sub").symlink_to(root.parent / "outside")

    swap_after(monkeypatch, 2, swap)
    assert refused(Folder(root), "sub/secret.txt")
    assert (root / "sub").is_symlink()


def test_a_folder_that_becomes_a_link_while_it_is_listed_is_not_entered(root: Path) -> None:
    listing = Folder(root).files()
    assert next(listing).path == "fine.txt"
    (root / "sub").rmdir()
    (root / "sub").symlink_to(root.parent / "outside")
    assert list(listing) == []


def test_a_link_that_is_swapped_all_the_time_never_gives_the_secret(root: Path) -> None:
    inside, outside = root / "inside.txt", root.parent / "outside" / "secret.txt"
    inside.write_text("fine")
    is_over = threading.Event()

    def swap() -> None:
        while not is_over.is_set():
            for number, target in enumerate((outside, inside)):
                draft = root / f".draft{number}"
                draft.symlink_to(target)
                draft.replace(root / "link.txt")
            (root / ".real").write_text("fine")
            (root / ".real").replace(root / "link.txt")

    swapper = threading.Thread(target=swap)
    swapper.start()
    folder, read = Folder(root), []
    try:
        for _ in range(500):
            with contextlib.suppress(FileUnavailableError):
                read.append(folder.read("link.txt")[0])
            assert all(file.size != len(SECRET) for file in folder.files())
    finally:
        is_over.set()
        swapper.join()
    assert SECRET not in read
    assert b"fine" in read


def test_a_fifo_a_socket_and_a_folder_are_neither_listed_nor_opened(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open, opened = os.open, list[object]()
    monkeypatch.setattr(
        folders.os, "open", lambda *given, **more: opened.append(given[0]) or real_open(*given, **more)
    )
    os.mkfifo(root / "fifo.txt")
    (root / "link.txt").symlink_to("fifo.txt")
    with socket.socket(socket.AF_UNIX) as listener, contextlib.chdir(root):  # the path of a socket is short
        listener.bind("socket.txt")
    folder = Folder(root)
    assert paths(folder) == ["fine.txt"]
    for name in ("fifo.txt", "link.txt", "socket.txt", "sub"):
        assert refused(folder, name)
    with pytest.raises(FileUnavailableError):
        FileReader(root / "fifo.txt").read()
    assert "fifo.txt" not in opened
    assert "socket.txt" not in opened


def test_a_fifo_that_replaces_a_file_after_the_check_does_not_block(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open = os.open

    def swap_and_open(path: Any, flags: int, *given: Any, **options: Any) -> int:
        if path == "fine.txt":
            (root / "fine.txt").unlink()
            os.mkfifo(root / "fine.txt")
            assert flags & os.O_NONBLOCK, "would block"
        return real_open(path, flags, *given, **options)

    monkeypatch.setattr(folders.os, "open", swap_and_open)
    assert refused(Folder(root), "fine.txt")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
def test_a_device_is_not_read() -> None:
    folder = Folder("/dev")
    assert "zero" not in paths(folder)
    assert refused(folder, "zero")
    with pytest.raises(FileUnavailableError):
        FileReader("/dev/zero").read()


def test_a_file_that_grows_while_it_is_read_is_too_large(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_read, total = os.read, [0]

    def grow_and_read(descriptor: int, count: int) -> bytes:
        if total[0] < 10 * folders.CHUNK:
            with (root / "fine.txt").open("ab") as file:
                file.write(b"x" * count)
        data = real_read(descriptor, count)
        total[0] += len(data)
        return data

    monkeypatch.setattr(folders.os, "read", grow_and_read)
    monkeypatch.setattr(folders, "MAX_BYTES", 5 * folders.CHUNK)
    with pytest.raises(FileTooLargeError):
        Folder(root).read("fine.txt")
    assert total[0] == 5 * folders.CHUNK + 1


def test_a_sparse_file_of_a_terabyte_is_too_large(root: Path) -> None:
    with (root / "huge.bin").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(FileTooLargeError):
        Folder(root).read("huge.bin")


def test_odd_names_are_listed_and_read_through_their_uris(root: Path) -> None:
    names = [
        "new\nline.txt",
        "a b",
        "ü",
        "100%.txt",
        "50%20off",
        "what?",
        "a#b",
        "a\\b",
        "a..\\x",
        "x:y",
        "{a}",
        "a;b",
    ]
    for name in names:
        (root / "sub" / name).write_text(name)
    folder, template = Folder(root), URITemplate("docs://{+path}")
    assert paths(folder) == sorted(["fine.txt", *(f"sub/{name}" for name in names)])
    for name in names:
        uri = template.expand({"path": f"sub/{name}"})
        assert "\n" not in uri
        values = template.match(uri)
        assert values is not None
        assert folder.read(str(values["path"]))[0] == name.encode()


def test_a_name_that_is_not_utf8_is_left_out(root: Path) -> None:
    name = os.fsdecode(b"bad\xff.txt")
    (root / name).write_bytes(b"")
    assert paths(Folder(root)) == ["fine.txt"]
    assert refused(Folder(root), name)


def test_every_spelling_of_a_path_to_the_outside_is_refused(root: Path) -> None:
    folder = Folder(root)
    secret = str(root.parent / "outside" / "secret.txt")
    up = "../outside/secret.txt"
    for name in (up, f"./{up}", f"sub/../{up}", secret, f"/{secret}", f"sub/{secret}", up.replace("/", "\\")):
        with pytest.raises(FileUnavailableError, match="not found"):
            folder.read(name)
    for name in ("%2e%2e/outside/secret.txt", "．．/outside/secret.txt", "․․/outside/secret.txt", "..\0/x"):
        assert refused(folder, name)


def test_a_tree_that_is_very_deep_is_listed_to_a_limit(root: Path) -> None:
    path = root
    for _ in range(150):
        path /= "d"
    path.mkdir(parents=True)
    (path / "bottom.txt").touch()
    (root / "d" / "top.txt").touch()
    folder = Folder(root)
    assert paths(folder) == ["d/top.txt", "fine.txt"]
    assert refused(folder, "d/" * 150 + "bottom.txt")


def test_no_file_stays_open(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_files = Path("/proc/self/fd")
    if not open_files.exists():
        pytest.skip("needs /proc")
    (root / "link.txt").symlink_to("fine.txt")
    (root / "out.txt").symlink_to("../outside/secret.txt")
    os.mkfifo(root / "fifo")
    monkeypatch.setattr(folders, "MAX_BYTES", 3)
    before = len(list(open_files.iterdir()))
    for _ in range(20):
        folder = Folder(root)
        assert paths(folder) == ["fine.txt"]
        for name in ("fine.txt", "link.txt", "out.txt", "fifo", "sub", "sub/x", "none"):
            assert refused(folder, name)
        next(folder.files()).path.encode()
    assert len(list(open_files.iterdir())) == before
