"""The keys of a running server: changes are seen, and trouble with the file ends well."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from tests.support.manual_clock import Clock
from toolcrib.errors import ConfigurationError
from toolcrib.policy.auth.api_keys import KeyFile, ReloadingKeys


@pytest.fixture
def now() -> Clock:
    return Clock(100.0)


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


def words(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    said = [(record.levelno, record.getMessage()) for record in caplog.records]
    caplog.clear()
    return said


def test_keys_are_read_and_found_whatever_their_state(file: KeyFile, now: Clock) -> None:
    secret, key = file.create("ana")
    gone, _ = file.create("bo")
    file.revoke("bo")
    keys = ReloadingKeys(file, now=now)
    assert not keys.is_open
    assert len(keys) == 0
    keys.load()
    assert keys.is_open
    assert len(keys) == 2
    assert keys.find(secret) == (key, key.principal)
    found = keys.find(gone)
    assert found is not None
    assert found[0].revoked is not None
    assert keys.find("tck_other") is None


def test_a_file_that_cannot_be_read_at_the_start_is_an_error(file: KeyFile, now: Clock) -> None:
    keys = ReloadingKeys(file, now=now)
    with pytest.raises(ConfigurationError):
        keys.load()
    assert not keys.is_open


def test_what_does_not_change_is_read_once_more_and_then_left_alone(file: KeyFile, now: Clock) -> None:
    file.create("ana")
    keys = ReloadingKeys(file, now=now)
    keys.load()
    assert [keys.refresh(), keys.refresh(), keys.refresh()] == [True, False, False]


def test_a_change_is_seen_at_the_next_look(file: KeyFile, now: Clock) -> None:
    secret, _ = file.create("ana")
    keys = ReloadingKeys(file, now=now)
    keys.load()
    keys.refresh()
    assert not keys.refresh()
    file.revoke("ana")
    assert keys.refresh()
    found = keys.find(secret)
    assert found is not None
    assert found[0].revoked is not None
    assert [keys.refresh(), keys.refresh()] == [True, False]


def test_a_change_within_one_tick_of_the_clock_of_files_is_seen_too(file: KeyFile, now: Clock) -> None:
    secret, _ = file.create("ana")
    keys = ReloadingKeys(file, now=now)
    keys.load()
    before = file.path.read_text()
    file.path.write_text(before.replace('"revoked": null', '"revoked": "2026-01-01T00:00:00Z"'))
    # As if it had happened within the tick: what tells the two states apart is the same.
    object.__setattr__(keys, "_version", file.version())
    assert keys.refresh()
    found = keys.find(secret)
    assert found is not None
    assert found[0].revoked is not None


def test_a_file_that_breaks_keeps_the_keys_for_a_minute(
    file: KeyFile, now: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    secret, _ = file.create("ana")
    keys = ReloadingKeys(file, now=now)
    keys.load()
    good = file.path.read_bytes()
    file.path.write_text("{")
    assert not keys.refresh()
    broken = f"keys cannot be read: {file.path}: not JSON; the last keys hold for 60 s"
    assert words(caplog) == [(logging.ERROR, broken)]
    now.pass_s(59.9)
    assert not keys.refresh()
    assert keys.is_open
    assert keys.find(secret) is not None
    assert words(caplog) == []
    now.pass_s(0.1)
    assert keys.refresh()
    assert not keys.is_open
    assert keys.find(secret) is None
    closed = f"keys still cannot be read: {file.path}: not JSON; from now on no key is accepted"
    assert words(caplog) == [(logging.ERROR, closed)]
    now.pass_s(100)
    assert not keys.refresh()
    assert words(caplog) == []
    file.path.write_bytes(good)
    assert keys.refresh()
    assert keys.is_open
    assert keys.find(secret) is not None
    assert words(caplog) == [(logging.WARNING, f"the keys in {file.path} can be read again")]


def test_a_file_that_is_gone_and_comes_back_is_read_again(file: KeyFile, now: Clock) -> None:
    secret, _ = file.create("ana")
    keys = ReloadingKeys(file, now=now)
    keys.load()
    keys.refresh()
    aside = file.path.with_name("aside")
    os.rename(file.path, aside)
    assert not keys.refresh()
    now.pass_s(30)
    os.rename(aside, file.path)
    assert keys.refresh()
    os.rename(file.path, aside)
    assert not keys.refresh()
    now.pass_s(59)
    assert not keys.refresh()  # the minute began anew
    assert keys.find(secret) is not None


def test_keys_that_were_never_read_are_not_waited_for(
    file: KeyFile, now: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    keys = ReloadingKeys(file, now=now)
    assert not keys.refresh()
    assert not keys.refresh()
    assert not keys.is_open
    [(level, text)] = words(caplog)
    assert level == logging.ERROR
    assert text == f"keys cannot be read: {file.path}: no such file; no key is accepted"
    secret, _ = file.create("ana")
    assert keys.refresh()
    assert keys.find(secret) is not None
