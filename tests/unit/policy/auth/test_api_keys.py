"""API keys: format, the keys file and its problems, reloading."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.records.key_files import Keys
from tests.support.system.manual_clock import Clock
from toolcrib.config import atomic_file
from toolcrib.context import Principal
from toolcrib.errors import ConfigurationError
from toolcrib.policy.auth import api_keys as module
from toolcrib.policy.auth.api_keys import (
    PREFIX,
    InvalidKeyError,
    KeySnapshot,
    NameTakenError,
    hash_secret,
    is_complete_key,
    make_secret,
    principal_of,
    state_of,
)
from toolcrib.state.base import Key, run_now

SAMPLE = f"tck_{'A' * 43}2BxA51"


def test_a_key_is_a_prefix_and_256_bits_and_a_checksum() -> None:
    made = make_secret()
    assert re.fullmatch(r"tck_[A-Za-z0-9_-]{43}[0-9A-Za-z]{6}", made)
    assert PREFIX == "tck_"
    assert is_complete_key(made)


def test_no_two_keys_are_alike() -> None:
    assert len({make_secret() for _ in range(500)}) == 500


def test_the_checksum_is_the_same_everywhere_and_for_ever() -> None:
    assert is_complete_key(SAMPLE)
    assert is_complete_key(f"tck_{'_-9z' * 10}abc{'1sCDFW'}")


@pytest.mark.parametrize("place", range(53))
def test_a_key_with_one_character_changed_is_not_whole(place: int) -> None:
    other = "B" if SAMPLE[place] != "B" else "C"
    assert not is_complete_key(SAMPLE[:place] + other + SAMPLE[place + 1 :])


@pytest.mark.parametrize("length", range(53))
def test_a_key_that_is_cut_off_is_not_whole(length: int) -> None:
    assert not is_complete_key(SAMPLE[:length])


@pytest.mark.parametrize("text", [f"{SAMPLE}A", f" {SAMPLE}", f"{SAMPLE}\n", SAMPLE.replace("tck_", "TCK_")])
def test_a_key_with_more_around_it_is_not_whole(text: str) -> None:
    assert not is_complete_key(text)


def test_of_a_key_its_sha_256_is_kept() -> None:
    assert hash_secret("tck_x") == hashlib.sha256(b"tck_x").hexdigest()


NOW_S = 1_800_000_000.0  # 2027-01-15T08:00:00Z


NOW_MS = 1_800_000_000_000


@pytest.fixture
def wall() -> Clock:
    return Clock(NOW_S + 0.25)


@pytest.fixture
def file(tmp_path: Path, wall: Clock) -> Keys:
    return Keys(tmp_path / "keys.json", wall=wall)


# --- making ---


def test_a_key_is_made_and_all_but_itself_is_kept(file: Keys) -> None:
    secret, key = file.create("ana", ["orders:read", "b", "b"], ["support"], NOW_S + 60)
    assert is_complete_key(secret)
    assert key == Key(
        key.id,
        "ana",
        hash_secret(secret),
        secret[:8],
        ("orders:read", "b"),
        ("support",),
        NOW_MS,
        NOW_MS + 60_000,
        None,
    )
    assert file.entries() == (key,)
    assert secret not in file.path.read_text()
    assert json.loads(file.path.read_text()) == {
        "format": 1,
        "keys": [
            {
                "id": key.id,
                "name": "ana",
                "hash": hash_secret(secret),
                "prefix": secret[:8],
                "scopes": ["orders:read", "b"],
                "roles": ["support"],
                "created": "2027-01-15T08:00:00Z",
                "expires": "2027-01-15T08:01:00Z",
                "revoked": None,
            }
        ],
    }


def test_a_key_without_more_is_good_for_nothing_in_particular_for_ever(file: Keys) -> None:
    _, key = file.create("ana")
    assert (key.scopes, key.roles, key.expires_ms, key.revoked_ms) == ((), (), None, None)
    assert state_of(key, NOW_S * 10) == "active"
    _, short = file.create("bo", expires=NOW_S + 60)
    assert [state_of(short, NOW_S + 59), state_of(short, NOW_S + 60)] == ["active", "expired"]


def test_the_file_is_for_its_owner_only_and_so_is_the_lock(file: Keys) -> None:
    before = os.umask(0)
    try:
        file.create("ana")
    finally:
        os.umask(before)
    assert {item.name: item.stat().st_mode & 0o777 for item in file.path.parent.iterdir()} == {
        "keys.json": 0o600,
        ".keys.json.lock": 0o600,
    }


def test_folders_are_made_on_the_way(tmp_path: Path) -> None:
    file = Keys(tmp_path / "a" / "b" / "keys.json")
    file.create("ana")
    assert [key.name for key in file.entries()] == ["ana"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "real.json")
    Keys(link).create("ana")
    assert link.is_symlink()
    assert [key.name for key in Keys(tmp_path / "real.json").entries()] == ["ana"]


def test_a_link_that_leads_to_itself_is_not_taken_for_a_new_file(tmp_path: Path) -> None:
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    with pytest.raises(ConfigurationError, match="cannot be read: Too many levels of symbolic links"):
        Keys(loop).create("ana")
    assert loop.is_symlink()


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 65, "ä", "a\n", "tck_ana", 5, None])
def test_a_name_that_cannot_be_one_is_refused(file: Keys, name: Any) -> None:
    with pytest.raises(InvalidKeyError):
        file.create(name)
    assert not file.path.exists()


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 64])
def test_letters_digits_and_three_marks_make_a_name(file: Keys, name: str) -> None:
    assert file.create(name)[1].name == name


@pytest.mark.parametrize("word", ["", "a b", 'a"', "a\\", "ä", "a\n", "x" * 257])
def test_a_scope_or_a_role_that_no_header_could_hold_is_refused(file: Keys, word: str) -> None:
    for scopes, roles in (([word], []), ([], [word])):
        with pytest.raises(InvalidKeyError, match="invalid scope or role"):
            file.create("ana", scopes, roles)
    assert not file.path.exists()


def test_a_name_is_taken_while_its_key_is_active(file: Keys, wall: Clock) -> None:
    file.create("ana", expires=NOW_S + 60)
    with pytest.raises(NameTakenError, match="an active key 'ana' exists already"):
        file.create("ana")
    wall.pass_s(60)
    file.create("ana")
    with pytest.raises(NameTakenError):
        file.create("ana")
    file.revoke("ana")
    file.create("ana")
    assert [state_of(key, wall()) for key in file.entries()] == ["revoked", "revoked", "active"]


# --- finding ---


def test_whose_a_key_is(file: Keys, wall: Clock) -> None:
    _, key = file.create("ana", ["read"], ["support"], NOW_S + 60)
    assert principal_of(key) == Principal(
        "key:ana", frozenset({"read"}), frozenset({"support"}), f"key:ana:{key.id}"
    )
    assert [state_of(key, NOW_S + 59.9), state_of(key, NOW_S + 60)] == ["active", "expired"]
    _, other = file.create("bo")
    assert state_of(other, NOW_S * 2) == "active"
    (revoked,) = file.revoke("bo")
    assert state_of(revoked, NOW_S) == "revoked"


def test_two_keys_of_one_name_are_not_one_caller(file: Keys) -> None:
    _, first = file.create("ana")
    file.revoke("ana")
    _, second = file.create("ana")
    assert principal_of(first).name == principal_of(second).name == "key:ana"
    assert principal_of(first).binding != principal_of(second).binding


# --- revoking ---


@pytest.mark.parametrize("by", ["name", "id", "secret"])
def test_a_key_is_ended_by_its_name_its_id_or_itself(file: Keys, wall: Clock, by: str) -> None:
    secret, key = file.create("ana")
    _, other = file.create("bo")
    wall.pass_s(100)
    word = {"name": "ana", "id": key.id, "secret": hash_secret(secret)}[by]
    ended = file.revoke(word)
    assert [(item.id, item.revoked_ms) for item in ended] == [(key.id, NOW_MS + 100_000)]
    assert file.entries() == (*ended, other)


def test_a_key_that_was_ended_before_is_left_as_it_is(file: Keys, wall: Clock) -> None:
    file.create("ana")
    file.revoke("ana")
    before = file.path.stat()
    wall.pass_s(100)
    assert file.revoke("ana") == ()
    after = file.path.stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_size) == (
        before.st_ino,
        before.st_mtime_ns,
        before.st_size,
    )
    assert file.entries()[0].revoked_ms == NOW_MS


def test_all_keys_of_a_name_are_ended_the_expired_ones_too(file: Keys, wall: Clock) -> None:
    file.create("ana", expires=NOW_S + 1)
    wall.pass_s(10)
    file.create("ana")
    assert len(file.revoke("ana")) == 2
    assert {state_of(key, NOW_S) for key in file.entries()} == {"revoked"}


def test_a_name_goes_before_an_id(file: Keys) -> None:
    _, key = file.create("ana")
    file.create(key.id)
    assert [item.name for item in file.revoke(key.id)] == [key.id]


def test_a_key_that_does_not_exist_is_not_revoked(file: Keys) -> None:
    _, key = file.create("ana")
    assert file.revoke("bo") == ()
    assert file.entries() == (key,)


def test_a_lock_that_is_a_folder_is_named(file: Keys) -> None:
    lock = file.path.with_name(f".{file.path.name}.lock")
    lock.mkdir(parents=True)
    with pytest.raises(ConfigurationError, match=r"its lock .*lock cannot be opened: Is a directory"):
        file.create("ana")


def edit(file: Keys, **changes: Any) -> None:
    """Change the first key in the file, by hand."""
    document = json.loads(file.path.read_text())
    document["keys"][0].update(changes)
    file.path.write_text(json.dumps(document))


def refuse(file: Keys) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        file.entries()
    assert caught.value.file == str(file.path)
    return caught.value


# --- what is wrong with a file ---


def test_a_file_that_is_not_there_says_how_to_make_one(file: Keys) -> None:
    error = refuse(file)
    assert error.message == "no such file"
    assert error.hint == f"create a key: toolcrib keys create NAME --file {file.path}"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601])
def test_a_file_that_others_can_read_or_write_is_refused(file: Keys, mode: int) -> None:
    file.create("ana")
    file.path.chmod(mode)
    error = refuse(file)
    assert error.message == "accessible to other users"
    assert error.hint == f"chmod 600 {file.path}"
    with pytest.raises(ConfigurationError):
        file.create("bo")


def test_a_file_of_another_user_is_refused_and_one_of_root_is_not(
    file: Keys, monkeypatch: pytest.MonkeyPatch
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


def test_where_modes_mean_nothing_they_are_not_looked_at(file: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_anything_that_is_not_a_file_of_keys_is_refused(file: Keys, text: str, words: str) -> None:
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
def test_a_key_with_a_field_that_is_wrong_is_refused(file: Keys, field: str, value: Any) -> None:
    file.create("ana")
    edit(file, **{field: value})
    assert refuse(file).message.startswith("key 1: ")


def test_a_field_that_is_misspelt_is_refused_and_not_overlooked(file: Keys) -> None:
    file.create("ana")
    edit(file, expire="2027-01-15T08:00:00Z")
    assert refuse(file).message.startswith("key 1 must have exactly")


@pytest.mark.parametrize("field", ["id", "hash"])
def test_two_keys_of_one_id_or_one_hash_are_refused(file: Keys, field: str) -> None:
    file.create("ana")
    _, other = file.create("bo")
    edit(file, **{field: getattr(other, field)})
    assert refuse(file).message == f"two keys have the same {field}"


def test_other_zones_are_understood(file: Keys) -> None:
    file.create("ana")
    edit(file, expires="2027-01-15T10:00:00+02:00")
    assert file.entries()[0].expires_ms == NOW_MS


def test_anything_that_is_not_a_plain_file_is_refused(tmp_path: Path) -> None:
    assert refuse(Keys(tmp_path)).message in ("not a regular file", "cannot be read: Is a directory")
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert refuse(Keys(tmp_path / "pipe")).message == "not a regular file"


def test_a_file_that_is_too_large_is_refused(file: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    file.create("ana")
    monkeypatch.setattr(module, "MAX_BYTES", file.path.stat().st_size)
    file.entries()
    monkeypatch.setattr(module, "MAX_BYTES", file.path.stat().st_size - 1)
    assert refuse(file).message == "larger than 0 MiB"


def test_a_name_that_leads_nowhere_says_so(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    file = Keys(tmp_path / "plain" / "keys.json")
    assert refuse(file).message == "cannot be read: Not a directory"
    with pytest.raises(ConfigurationError, match=r"cannot be written: (File exists|Not a directory)"):
        file.create("ana")


def test_a_file_that_cannot_be_examined_is_not_replaced(file: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    file.create("ana")
    path = os.path.realpath(file.path)

    def failing(function: Any) -> Any:
        def examine(name: Any, **options: Any) -> os.stat_result:
            if str(name) == path:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return function(name, **options)  # type: ignore[no-any-return]

        return examine

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", failing(os.stat))
        patch.setattr(os, "lstat", failing(os.lstat))
        file.create("bo")
    assert [key.name for key in file.entries()] == ["ana", "bo"]


def test_a_disk_that_is_full_leaves_the_file_as_it_was(file: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_command_waits_for_another_and_not_for_ever(file: Keys, tmp_path: Path) -> None:
    file.create("ana")
    with open(tmp_path / ".keys.json.lock") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ConfigurationError, match="being changed by another command"):
            Keys(file.path, lock_s=0.03).create("bo")
    assert [key.name for key in file.entries()] == ["ana"]
    Keys(file.path, lock_s=0).create("bo")


def test_a_command_goes_on_as_soon_as_the_other_is_done(
    file: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.create("ana")
    waited: list[float] = []
    with open(tmp_path / ".keys.json.lock") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        def let_go(seconds: float) -> None:
            waited.append(seconds)
            fcntl.flock(held, fcntl.LOCK_UN)

        monkeypatch.setattr(module.time, "sleep", let_go)
        Keys(file.path, lock_s=5).create("bo")
    assert waited == [0.01]
    assert (module.LOCK_S, module.MAX_BYTES) == (10.0, 16 * 2**20)


def test_a_system_without_locks_makes_keys_all_the_same(file: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "fcntl", None)
    file.create("ana")
    assert len(file.entries()) == 1


def test_many_commands_at_a_time_lose_no_key(file: Keys) -> None:
    script = (
        "import sys; from toolcrib.policy.auth.api_keys import KeyFile, create_key\n"
        "from toolcrib.state.base import run_now\n"
        "for number in range(10): run_now(create_key(KeyFile(sys.argv[1]), f'{sys.argv[2]}{number}'))"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, str(file.path), letter]) for letter in "abcd"]
    assert [process.wait() for process in running] == [0, 0, 0, 0]
    names = {key.name for key in file.entries()}
    assert names == {f"{letter}{number}" for letter in "abcd" for number in range(10)}


@pytest.fixture
def now() -> Clock:
    return Clock(100.0)


@pytest.fixture
def file_reloading_keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "keys.json")


def words(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    said = [(record.levelno, record.getMessage()) for record in caplog.records]
    caplog.clear()
    return said


def test_keys_are_read_and_found_whatever_their_state(file_reloading_keys: Keys, now: Clock) -> None:
    secret, key = file_reloading_keys.create("ana")
    gone, _ = file_reloading_keys.create("bo")
    file_reloading_keys.revoke("bo")
    keys = KeySnapshot(file_reloading_keys.store, str(file_reloading_keys.path), now=now)
    assert not keys.is_open
    assert len(keys) == 0
    run_now(keys.load())
    assert keys.is_open
    assert len(keys) == 2
    assert keys.find(secret) == (key, principal_of(key))
    found = keys.find(gone)
    assert found is not None
    assert found[0].revoked_ms is not None
    assert keys.find("tck_other") is None


def test_a_file_that_cannot_be_read_at_the_start_is_an_error(file_reloading_keys: Keys, now: Clock) -> None:
    keys = KeySnapshot(file_reloading_keys.store, str(file_reloading_keys.path), now=now)
    with pytest.raises(ConfigurationError):
        run_now(keys.load())
    assert not keys.is_open


def test_anything_that_does_not_change_is_read_once_more_and_then_left_alone(
    file_reloading_keys: Keys, now: Clock
) -> None:
    file_reloading_keys.create("ana")
    keys = KeySnapshot(file_reloading_keys.store, str(file_reloading_keys.path), now=now)
    run_now(keys.load())
    assert [run_now(keys.refresh()), run_now(keys.refresh()), run_now(keys.refresh())] == [True, False, False]


def test_a_change_is_seen_at_the_next_look(file_reloading_keys: Keys, now: Clock) -> None:
    secret, _ = file_reloading_keys.create("ana")
    keys = KeySnapshot(file_reloading_keys.store, str(file_reloading_keys.path), now=now)
    run_now(keys.load())
    run_now(keys.refresh())
    assert not run_now(keys.refresh())
    file_reloading_keys.revoke("ana")
    assert run_now(keys.refresh())
    found = keys.find(secret)
    assert found is not None
    assert found[0].revoked_ms is not None
    assert [run_now(keys.refresh()), run_now(keys.refresh())] == [True, False]


def test_a_change_within_one_tick_of_the_clock_of_files_is_seen_too(
    file_reloading_keys: Keys, now: Clock
) -> None:
    secret, _ = file_reloading_keys.create("ana")
    keys = KeySnapshot(file_reloading_keys.store, str(file_reloading_keys.path), now=now)
    run_now(keys.load())
    before = file_reloading_keys.path.read_text()
    file_reloading_keys.path.write_text(
        before.replace('"revoked": null', '"revoked": "2026-01-01T00:00:00Z"')
    )
    # As if it had happened within the tick: the file looks as it did before.
    keys._version = file_reloading_keys.store._find_version()
    assert run_now(keys.refresh())
    found = keys.find(secret)
    assert found is not None
    assert found[0].revoked_ms is not None


def test_a_file_that_breaks_keeps_the_keys_for_a_minute(
    file_reloading_keys: Keys, now: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    secret, _ = file_reloading_keys.create("ana")
    keys = KeySnapshot(file_reloading_keys.store, str(file_reloading_keys.path), now=now)
    run_now(keys.load())
    good = file_reloading_keys.path.read_bytes()
    file_reloading_keys.path.write_text("{")
    assert not run_now(keys.refresh())
    broken = f"keys cannot be read: {file_reloading_keys.path}: not JSON; the last keys hold for 60 s"
    assert words(caplog) == [(logging.ERROR, broken)]
    now.pass_s(59.9)
    assert not run_now(keys.refresh())
    assert keys.is_open
    assert keys.find(secret) is not None
    assert words(caplog) == []
    now.pass_s(0.1)
    assert run_now(keys.refresh())
    assert not keys.is_open
    assert keys.find(secret) is None
    closed = (
        f"keys still cannot be read: {file_reloading_keys.path}: not JSON; from now on no key is accepted"
    )
    assert words(caplog) == [(logging.ERROR, closed)]
    now.pass_s(100)
    assert not run_now(keys.refresh())
    assert words(caplog) == []
    file_reloading_keys.path.write_bytes(good)
    assert run_now(keys.refresh())
    assert keys.is_open
    assert keys.find(secret) is not None
    assert words(caplog) == [(logging.WARNING, f"the keys in {file_reloading_keys.path} can be read again")]


def test_a_file_that_is_gone_and_comes_back_is_read_again(file_reloading_keys: Keys, now: Clock) -> None:
    secret, _ = file_reloading_keys.create("ana")
    keys = KeySnapshot(file_reloading_keys.store, str(file_reloading_keys.path), now=now)
    run_now(keys.load())
    run_now(keys.refresh())
    aside = file_reloading_keys.path.with_name("aside")
    os.rename(file_reloading_keys.path, aside)
    assert not run_now(keys.refresh())
    now.pass_s(30)
    os.rename(aside, file_reloading_keys.path)
    assert run_now(keys.refresh())
    os.rename(file_reloading_keys.path, aside)
    assert not run_now(keys.refresh())
    now.pass_s(59)
    assert not run_now(keys.refresh())  # the minute began anew
    assert keys.find(secret) is not None


def test_keys_that_were_never_read_are_not_waited_for(
    file_reloading_keys: Keys, now: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    keys = KeySnapshot(file_reloading_keys.store, str(file_reloading_keys.path), now=now)
    assert not run_now(keys.refresh())
    assert not run_now(keys.refresh())
    assert not keys.is_open
    [(level, text)] = words(caplog)
    assert level == logging.ERROR
    assert text == f"keys cannot be read: {file_reloading_keys.path}: no such file; no key is accepted"
    secret, _ = file_reloading_keys.create("ana")
    assert run_now(keys.refresh())
    assert keys.find(secret) is not None
