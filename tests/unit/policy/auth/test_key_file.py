"""The file of keys: what is made, kept, found and ended."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.manual_clock import Clock
from toolcrib.context import Principal
from toolcrib.errors import ConfigurationError
from toolcrib.policy.auth import api_keys as module
from toolcrib.policy.auth.api_keys import (
    InvalidKeyError,
    Key,
    KeyFile,
    NameTakenError,
    hash_secret,
    is_complete_key,
)

NOW_S = 1_800_000_000.0  # 2027-01-15T08:00:00Z


@pytest.fixture
def wall() -> Clock:
    return Clock(NOW_S + 0.25)


@pytest.fixture
def file(tmp_path: Path, wall: Clock) -> KeyFile:
    return KeyFile(tmp_path / "keys.json", wall=wall)


# --- making ---


def test_a_key_is_made_and_all_but_itself_is_kept(file: KeyFile) -> None:
    secret, key = file.create("ana", ["orders:read", "b", "b"], ["support"], NOW_S + 60)
    assert is_complete_key(secret)
    assert key == Key(
        key.id,
        "ana",
        hash_secret(secret),
        secret[:8],
        ("orders:read", "b"),
        ("support",),
        NOW_S,
        NOW_S + 60,
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


def test_a_key_without_more_is_good_for_nothing_in_particular_for_ever(file: KeyFile) -> None:
    _, key = file.create("ana")
    assert (key.scopes, key.roles, key.expires, key.revoked) == ((), (), None, None)
    assert key.state(NOW_S * 10) == "active"
    _, short = file.create("bo", expires=NOW_S + 60)
    assert [short.state(NOW_S + 59), short.state(NOW_S + 60)] == ["active", "expired"]


def test_the_file_is_for_its_owner_only_and_so_is_the_lock(file: KeyFile) -> None:
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
    file = KeyFile(tmp_path / "a" / "b" / "keys.json")
    file.create("ana")
    assert [key.name for key in file.entries()] == ["ana"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "real.json")
    KeyFile(link).create("ana")
    assert link.is_symlink()
    assert [key.name for key in KeyFile(tmp_path / "real.json").entries()] == ["ana"]


def test_a_link_that_leads_to_itself_is_not_taken_for_a_new_file(tmp_path: Path) -> None:
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    with pytest.raises(ConfigurationError, match="cannot be read: Too many levels of symbolic links"):
        KeyFile(loop).create("ana")
    assert loop.is_symlink()


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 65, "ä", "a\n", "tck_ana", 5, None])
def test_a_name_that_cannot_be_one_is_refused(file: KeyFile, name: Any) -> None:
    with pytest.raises(InvalidKeyError):
        file.create(name)
    assert not file.path.exists()


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 64])
def test_letters_digits_and_three_marks_make_a_name(file: KeyFile, name: str) -> None:
    assert file.create(name)[1].name == name


@pytest.mark.parametrize("word", ["", "a b", 'a"', "a\\", "ä", "a\n", "x" * 257])
def test_a_scope_or_a_role_that_no_header_could_hold_is_refused(file: KeyFile, word: str) -> None:
    for scopes, roles in (([word], []), ([], [word])):
        with pytest.raises(InvalidKeyError, match="invalid scope or role"):
            file.create("ana", scopes, roles)
    assert not file.path.exists()


def test_a_name_is_taken_while_its_key_is_active(file: KeyFile, wall: Clock) -> None:
    file.create("ana", expires=NOW_S + 60)
    with pytest.raises(NameTakenError, match="an active key 'ana' exists already"):
        file.create("ana")
    wall.pass_s(60)
    file.create("ana")
    with pytest.raises(NameTakenError):
        file.create("ana")
    file.revoke("ana")
    file.create("ana")
    assert [key.state(wall()) for key in file.entries()] == ["revoked", "revoked", "active"]


def test_no_two_keys_have_one_id(file: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    made = iter(["aaaaaaaa", "aaaaaaaa", "bo", "bbbbbbbb"])
    monkeypatch.setattr(module.secrets, "token_hex", lambda size: next(made) if size == 4 else "?")
    assert file.create("bo")[1].id == "aaaaaaaa"
    assert file.create("cy")[1].id == "bbbbbbbb"  # what is a name already is no id either


# --- finding ---


def test_whose_a_key_is(file: KeyFile, wall: Clock) -> None:
    secret, key = file.create("ana", ["read"], ["support"], NOW_S + 60)
    other, _ = file.create("bo")
    binding = f"key:ana:{key.id}"
    assert file.find(secret, NOW_S) == Principal(
        "key:ana", frozenset({"read"}), frozenset({"support"}), binding
    )
    assert file.find(other, NOW_S * 2) is not None
    assert file.find(secret, NOW_S + 59.9) is not None
    assert file.find(secret, NOW_S + 60) is None
    assert file.find(secret[:-1], NOW_S) is None
    assert file.find("", NOW_S) is None
    file.revoke("bo")
    assert file.find(other, NOW_S) is None


def test_two_keys_of_one_name_are_not_one_caller(file: KeyFile) -> None:
    _, first = file.create("ana")
    file.revoke("ana")
    _, second = file.create("ana")
    assert first.principal.name == second.principal.name == "key:ana"
    assert first.principal.binding != second.principal.binding


# --- revoking ---


@pytest.mark.parametrize("by", ["name", "id", "secret"])
def test_a_key_is_ended_by_its_name_its_id_or_itself(file: KeyFile, wall: Clock, by: str) -> None:
    secret, key = file.create("ana")
    _, other = file.create("bo")
    wall.pass_s(100)
    word = {"name": "ana", "id": key.id, "secret": secret}[by]
    ended = file.revoke(word)
    assert [(item.id, item.revoked) for item in ended] == [(key.id, NOW_S + 100)]
    assert file.entries() == (*ended, other)


def test_a_key_that_was_ended_before_is_left_as_it_is(file: KeyFile, wall: Clock) -> None:
    file.create("ana")
    file.revoke("ana")
    before = file.path.stat()
    wall.pass_s(100)
    assert file.revoke("ana") == ()
    assert file.path.stat() == before
    assert file.entries()[0].revoked == NOW_S


def test_all_keys_of_a_name_are_ended_the_expired_ones_too(file: KeyFile, wall: Clock) -> None:
    file.create("ana", expires=NOW_S + 1)
    wall.pass_s(10)
    file.create("ana")
    assert len(file.revoke("ana")) == 2
    assert {key.state(NOW_S) for key in file.entries()} == {"revoked"}


def test_a_name_goes_before_an_id(file: KeyFile) -> None:
    _, key = file.create("ana")
    file.create(key.id)
    assert [item.name for item in file.revoke(key.id)] == [key.id]


def test_what_is_not_there_cannot_be_ended(file: KeyFile) -> None:
    file.create("ana")
    with pytest.raises(LookupError, match="bo"):
        file.revoke("bo")


def test_a_lock_that_is_a_folder_is_named(file: KeyFile) -> None:
    lock = file.path.with_name(f".{file.path.name}.lock")
    lock.mkdir(parents=True)
    with pytest.raises(ConfigurationError, match=r"its lock .*lock is a folder"):
        file.create("ana")
