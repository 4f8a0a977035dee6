"""Files of keys that are wrong, too open, or changed by several at a time."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.manual_clock import Clock
from toolcrib.config import atomic_file
from toolcrib.errors import ConfigurationError
from toolcrib.policy.auth import api_keys as module
from toolcrib.policy.auth.api_keys import KeyFile

NOW_S = 1_800_000_000.0  # 2027-01-15T08:00:00Z


@pytest.fixture
def wall() -> Clock:
    return Clock(NOW_S + 0.25)


@pytest.fixture
def file(tmp_path: Path, wall: Clock) -> KeyFile:
    return KeyFile(tmp_path / "keys.json", wall=wall)


def edit(file: KeyFile, **changes: Any) -> None:
    """Change the first key in the file, by hand."""
    document = json.loads(file.path.read_text())
    document["keys"][0].update(changes)
    file.path.write_text(json.dumps(document))


def refuse(file: KeyFile) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        file.entries()
    assert caught.value.file == str(file.path)
    return caught.value


# --- what is wrong with a file ---


def test_a_file_that_is_not_there_says_how_to_make_one(file: KeyFile) -> None:
    error = refuse(file)
    assert error.message == "no such file"
    assert error.hint == f"create a key: toolcrib keys create NAME --file {file.path}"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601])
def test_a_file_that_others_can_read_or_write_is_refused(file: KeyFile, mode: int) -> None:
    file.create("ana")
    file.path.chmod(mode)
    error = refuse(file)
    assert error.message == "accessible to other users"
    assert error.hint == f"chmod 600 {file.path}"
    with pytest.raises(ConfigurationError):
        file.create("bo")


def test_a_file_of_another_user_is_refused_and_one_of_root_is_not(
    file: KeyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.create("ana")
    facts = os.stat(file.path)
    monkeypatch.setattr(module.os, "geteuid", lambda: facts.st_uid + 1)
    monkeypatch.setattr(module.os, "fstat", lambda _: _owned(facts, 0))
    assert len(file.entries()) == 1
    for uid, owner in ((facts.st_uid + 2, None), (2**31 - 7, "uid 2147483641")):
        monkeypatch.setattr(module.os, "fstat", lambda _, uid=uid: _owned(facts, uid))
        error = refuse(file)
        assert error.message.startswith("belongs to another user (")
        assert owner is None or error.message == f"belongs to another user ({owner})"
        assert error.hint is not None
        assert error.hint.endswith(f"chown {facts.st_uid + 1} {file.path}")
    monkeypatch.delattr(module.os, "geteuid")  # as on Windows, where files have no such owners
    assert len(file.entries()) == 1


def _owned(facts: os.stat_result, uid: int) -> os.stat_result:
    return os.stat_result((*facts[:4], uid, *facts[5:10]))


def test_where_modes_mean_nothing_they_are_not_looked_at(
    file: KeyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.create("ana")
    file.path.chmod(0o666)
    monkeypatch.setattr(module.os, "name", "nt")
    assert len(file.entries()) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("\xff", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a keys file"),
        ("{}", "not a keys file"),
        ('{"format": 1, "keys": {}}', "not a keys file"),
        ('{"keys": []}', "written by another version of toolcrib"),
        ('{"format": 2, "keys": []}', "written by another version of toolcrib"),
        ('{"format": 1, "keys": [5]}', "key 1 must have exactly id, name, hash, prefix, scopes, roles, "
         "created, expires, revoked"),
    ],
)  # fmt: skip
def test_what_is_not_a_file_of_keys_is_refused(file: KeyFile, text: str, words: str) -> None:
    file.path.write_bytes(text.encode("latin-1"))
    file.path.chmod(0o600)
    assert refuse(file).message == words


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", "A"),
        ("id", 5),
        ("name", "a b"),
        ("hash", "ab"),
        ("prefix", "x" * 17),
        ("scopes", "read"),
        ("scopes", ["a b"]),
        ("roles", [5]),
        ("roles", None),
        ("created", None),
        ("created", 5),
        ("created", "2027-01-15T08:00:00"),
        ("expires", "soon"),
        ("expires", 0),
        ("revoked", False),
    ],
)
def test_a_key_with_a_field_that_is_wrong_is_refused(file: KeyFile, field: str, value: Any) -> None:
    file.create("ana")
    edit(file, **{field: value})
    assert refuse(file).message.startswith("key 1: ")


def test_a_field_that_is_misspelt_is_refused_and_not_overlooked(file: KeyFile) -> None:
    file.create("ana")
    edit(file, expire="2027-01-15T08:00:00Z")
    assert refuse(file).message.startswith("key 1 must have exactly")


@pytest.mark.parametrize("field", ["id", "hash"])
def test_two_keys_of_one_id_or_one_hash_are_refused(file: KeyFile, field: str) -> None:
    file.create("ana")
    _, other = file.create("bo")
    edit(file, **{field: getattr(other, field)})
    assert refuse(file).message == f"two keys have the same {field}"


def test_other_zones_are_understood(file: KeyFile) -> None:
    file.create("ana")
    edit(file, expires="2027-01-15T10:00:00+02:00")
    assert file.entries()[0].expires == NOW_S


def test_what_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    assert refuse(KeyFile(tmp_path)).message in ("not a regular file", "cannot be read: Is a directory")
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert refuse(KeyFile(tmp_path / "pipe")).message == "not a regular file"


def test_a_file_that_is_too_large_is_refused(file: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    file.create("ana")
    monkeypatch.setattr(module, "MAX_BYTES", file.path.stat().st_size)
    file.entries()
    monkeypatch.setattr(module, "MAX_BYTES", file.path.stat().st_size - 1)
    assert refuse(file).message == "larger than 0 MiB"


def test_a_name_that_leads_nowhere_says_so(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    file = KeyFile(tmp_path / "plain" / "keys.json")
    assert refuse(file).message == "cannot be read: Not a directory"
    with pytest.raises(ConfigurationError, match=r"cannot be written: (File exists|Not a directory)"):
        file.create("ana")


def test_a_disk_that_is_full_leaves_the_file_as_it_was(
    file: KeyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.create("ana")
    before = file.path.read_bytes()

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic_file.os, "fsync", fail)
    with pytest.raises(ConfigurationError, match="cannot be written: No space left on device"):
        file.create("bo")
    monkeypatch.undo()
    assert file.path.read_bytes() == before
    assert sorted(item.name for item in file.path.parent.iterdir()) == [".keys.json.lock", "keys.json"]


# --- several at a time ---


def test_a_command_waits_for_another_and_not_for_ever(file: KeyFile, tmp_path: Path) -> None:
    file.create("ana")
    with open(tmp_path / ".keys.json.lock") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ConfigurationError, match="being changed by another command"):
            KeyFile(file.path, lock_s=0.03).create("bo")
    assert [key.name for key in file.entries()] == ["ana"]
    KeyFile(file.path, lock_s=0).create("bo")


def test_a_command_goes_on_as_soon_as_the_other_is_done(
    file: KeyFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.create("ana")
    waited: list[float] = []
    with open(tmp_path / ".keys.json.lock") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        def let_go(seconds: float) -> None:
            waited.append(seconds)
            fcntl.flock(held, fcntl.LOCK_UN)

        monkeypatch.setattr(module.time, "sleep", let_go)
        KeyFile(file.path, lock_s=5).create("bo")
    assert waited == [0.01]
    assert (module.LOCK_S, module.MAX_BYTES) == (10.0, 16 * 2**20)


def test_a_system_without_locks_makes_keys_all_the_same(
    file: KeyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "fcntl", None)
    file.create("ana")
    assert len(file.entries()) == 1


def test_many_commands_at_a_time_lose_no_key(file: KeyFile) -> None:
    script = (
        "import sys; from toolcrib.policy.auth.api_keys import KeyFile\n"
        "for number in range(10): KeyFile(sys.argv[1]).create(f'{sys.argv[2]}{number}')"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, str(file.path), letter]) for letter in "abcd"]
    assert [process.wait() for process in running] == [0, 0, 0, 0]
    names = {key.name for key in file.entries()}
    assert names == {f"{letter}{number}" for letter in "abcd" for number in range(10)}
