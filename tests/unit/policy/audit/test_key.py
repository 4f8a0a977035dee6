"""The key of a log: found, made, refused."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from tests.support.records.audit_logs import make_log, make_writer, verify
from toolcrib.errors import ConfigurationError
from toolcrib.policy.audit import checkpoints as key
from toolcrib.policy.audit import open_log
from toolcrib.policy.audit.checkpoints import AuditKey


def write_key(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_digests_and_seals_are_of_the_key_and_unlike_each_other() -> None:
    one, other = AuditKey(b"a" * 32), AuditKey(b"b" * 32)
    assert len(one.digest(b"x").hexdigest()) == 32
    assert one.digest(b"x").hexdigest() == one.digest(b"x").hexdigest() != other.digest(b"x").hexdigest()
    assert one.digest(b"x").hexdigest() != one.digest(b"y").hexdigest()
    assert len(one.seal(b"x")) == 64
    assert one.is_seal(b"x", one.seal(b"x"))
    assert not one.is_seal(b"x", other.seal(b"x"))
    assert not one.is_seal(b"y", one.seal(b"x"))


def test_digests_and_seals_stay_what_they_are_from_release_to_release() -> None:
    secret = AuditKey(b"k" * 32)
    assert secret.digest(b"{}").hexdigest() == "d7c6b620d37be6e1716c6c4550690490"
    assert secret.seal(b"{}") == b"34d37c64b50138dc3c1582d03bfd379955cf954629087398daea8feddb75725d"


def test_a_key_is_made_once_and_kept(tmp_path: Path) -> None:
    log = tmp_path / "new" / "audit.db"
    assert key.find_key(log, None) is None
    made = key.create_key(log, None)
    text = (tmp_path / "new" / "audit.db.key").read_text()
    assert len(bytes.fromhex(text)) == 32
    assert text.endswith("\n")
    again = key.create_key(log, None)
    found = key.find_key(log, None)
    assert found is not None
    assert made.digest(b"x").hexdigest() == again.digest(b"x").hexdigest() == found.digest(b"x").hexdigest()
    assert [path.name for path in log.parent.iterdir()] == ["audit.db.key"]


def test_processes_that_create_a_key_at_once_get_the_same(tmp_path: Path) -> None:
    made: list[str] = []
    start = threading.Barrier(8)

    def make() -> None:
        start.wait()
        made.append(key.create_key(tmp_path / "audit.db", None).digest(b"x").hexdigest())

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8
    assert len(set(made)) == 1


def test_a_key_that_is_removed_at_once_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key, "find_key", lambda log, key_file: None)
    with pytest.raises(FileNotFoundError) as caught:
        key.create_key(tmp_path / "audit.db", None)
    assert caught.value.strerror == "the audit key was removed at once"
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, str(tmp_path / "audit.db.key"))


def test_a_key_is_created_although_its_temporary_file_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", os.rename)
    made = key.create_key(tmp_path / "audit.db", None)
    found = key.find_key(tmp_path / "audit.db", None)
    assert found is not None
    assert made.digest(b"x").hexdigest() == found.digest(b"x").hexdigest()
    assert os.listdir(tmp_path) == ["audit.db.key"]


def test_a_new_key_and_its_folder_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []

    def note(descriptor: int) -> None:
        name = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        synced.append(f"{name}, named: {(tmp_path / 'audit.db.key').exists()}")

    monkeypatch.setattr(os, "fsync", note)
    key.create_key(tmp_path / "audit.db", None)
    assert synced == ["file, named: False", "folder, named: True"]


def test_only_the_beginning_of_a_long_file_is_the_key(tmp_path: Path) -> None:
    found = key.find_key(tmp_path / "audit.db", write_key(tmp_path / "key", "k" * 5000))
    assert found is not None
    assert found.digest(b"").hexdigest() == AuditKey(b"k" * 4096).digest(b"").hexdigest()


def test_space_around_a_key_does_not_matter(tmp_path: Path) -> None:
    one = key.find_key(tmp_path / "x", write_key(tmp_path / "one", "k" * 32))
    other = key.find_key(tmp_path / "x", write_key(tmp_path / "other", "\n " + "k" * 32 + " \n"))
    assert one is not None
    assert other is not None
    assert one.digest(b"").hexdigest() == other.digest(b"").hexdigest()


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o601, 0o644, 0o666])
def test_a_key_that_everybody_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = write_key(tmp_path / "key", "k" * 32, mode)
    with pytest.raises(ConfigurationError) as caught:
        key.find_key(tmp_path / "audit.db", path)
    assert (
        str(caught.value)
        == f"{path}: audit.key_file: the audit key is accessible to every user of this machine"
    )
    assert caught.value.hint == f"chmod 600 {path}"


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o440])
def test_a_key_for_its_owner_and_group_is_fine(tmp_path: Path, mode: int) -> None:
    assert key.find_key(tmp_path / "audit.db", write_key(tmp_path / "key", "k" * 32, mode)) is not None


def test_a_short_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_key(tmp_path / "key", "k" * 31)
    with pytest.raises(ConfigurationError) as caught:
        key.find_key(tmp_path / "audit.db", path)
    assert str(caught.value) == f"{path}: audit.key_file: the audit key is too short"
    assert "at least 32 random characters" in str(caught.value.hint)
    monkeypatch.setenv("TOOLCRIB_AUDIT_KEY", "k" * 31 + "  ")
    with pytest.raises(ConfigurationError, match="TOOLCRIB_AUDIT_KEY: the audit key is too short") as caught:
        key.find_key(tmp_path / "audit.db", None)
    assert "at least 32 random characters" in str(caught.value.hint)


def test_a_key_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot read the audit key: Is a directory") as caught:
        key.find_key(tmp_path / "audit.db", tmp_path)
    assert (caught.value.file, caught.value.key) == (str(tmp_path), "audit.key_file")


def test_the_key_comes_from_the_environment_without_a_key_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCRIB_AUDIT_KEY", " " + "e" * 32)
    path = tmp_path / "audit.db"
    make_log(path, 3)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["audit.db", "audit.db.checkpoints"]
    assert verify(path).is_keyed
    named = key.find_key(path, write_key(tmp_path / "key", "f" * 32))
    assert named is not None
    assert named.digest(b"").hexdigest() == AuditKey(b"f" * 32).digest(b"").hexdigest()
    monkeypatch.delenv("TOOLCRIB_AUDIT_KEY")
    assert not verify(path).is_keyed


def test_a_key_in_the_environment_may_be_any_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCRIB_AUDIT_KEY", os.fsdecode(b"\xff" * 32))
    found = key.find_key(tmp_path / "audit.db", None)
    assert found is not None
    assert found.digest(b"").hexdigest() == AuditKey(b"\xff" * 32).digest(b"").hexdigest()


@pytest.mark.parametrize("kept", ["audit.db", "audit.db.checkpoints"])
def test_a_lost_key_is_not_replaced(tmp_path: Path, kept: str) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 3)
    for each in tmp_path.iterdir():
        if each.name != kept:
            each.unlink()
    with pytest.raises(ConfigurationError, match=r"the key of .* is missing") as caught:
        make_writer(path).open()
    assert caught.value.file == f"{path}.key"
    assert caught.value.key == "audit.key_file"
    assert caught.value.hint == "restore the key, or start a new log in another file"
    assert os.listdir(tmp_path) == [kept]


def test_a_damaged_log_is_not_reported_as_a_foreign_database(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    path.write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    with pytest.raises(ConfigurationError, match=r"the key of .* is missing"):
        make_writer(path).open()


def test_empty_files_need_no_key(tmp_path: Path) -> None:
    for name in ("audit.db", "audit.db.checkpoints"):
        (tmp_path / name).touch(0o600)
    make_log(tmp_path / "audit.db", 3)
    assert verify(tmp_path / "audit.db").is_sound


def test_files_given_to_a_reader_must_exist(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    with pytest.raises(ConfigurationError, match="no such audit log"):
        open_log(path)
    make_log(path, 1)
    with pytest.raises(ConfigurationError, match=r"audit.key_file: no such audit key"):
        open_log(path, key_file=tmp_path / "none")
    with pytest.raises(ConfigurationError, match=r"audit.checkpoints: no such checkpoints"):
        open_log(path, checkpoints=tmp_path / "none")
