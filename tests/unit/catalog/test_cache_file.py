"""The file of the cache: whatever is wrong with it or its place, the catalog comes all the same."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
import time
from pathlib import Path

import pytest

from tests.support.catalogs import ADAPTER, MODELS
from tests.support.source_folders import write
from toolcrib import build_catalog, get_catalog_cached
from toolcrib.catalog.cache import MAX_BYTES, load, seal, unseal
from toolcrib.config.atomic_file import STALE_S, read_file, write_file

CATALOG = {"version": "0" * 12, "hash": "0" * 40, "count": 0, "promptList": "", "functionSchema": []}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write(tmp_path, {"bridges/mcp_adapter.py": ADAPTER, "bridges/models.py": MODELS})


# --- places where nothing can be written --------------------------------------------------------------


@pytest.mark.parametrize("place", ["bridges", "bridges/models.py/cache.json", "/proc/nowhere/cache.json"])
def test_where_nothing_can_be_written_it_is_said_once_and_the_catalog_comes(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "toolcrib"):
        assert get_catalog_cached(cache=place) == build_catalog()
        assert get_catalog_cached(cache=place) == build_catalog()
    assert [record.message for record in caplog.records].count(caplog.records[0].message) == 1
    assert "cannot be written" in caplog.records[0].message
    assert not list(Path().glob("**/*.tmp"))


def test_a_folder_that_may_not_be_written_to_is_no_trouble(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shut = folder / "shut"
    shut.mkdir(mode=0o500)
    try:
        (shut / "probe").touch()
    except PermissionError:
        with caplog.at_level(logging.WARNING, "toolcrib"):
            assert get_catalog_cached(cache=shut / "cache.json") == build_catalog()
        assert "Permission denied" in caplog.text
    else:
        pytest.skip("this user may write everywhere")
    finally:
        shut.chmod(0o700)


def test_a_name_that_cannot_be_one_is_no_trouble() -> None:
    assert get_catalog_cached(cache="a\0b") == build_catalog()
    assert get_catalog_cached(cache="x" * 300) == build_catalog()


def test_a_pipe_in_its_place_keeps_nobody_waiting(folder: Path) -> None:
    os.mkfifo(folder / "pipe.json")
    assert get_catalog_cached(cache="pipe.json") == build_catalog()
    assert load(folder / "pipe.json") is not None  # it was replaced


def test_a_link_in_its_place_is_replaced_and_what_it_meant_is_left_alone(folder: Path) -> None:
    (folder / "precious").write_text("precious")
    (folder / "link.json").symlink_to("precious")
    get_catalog_cached(cache="link.json")
    assert (folder / "precious").read_text() == "precious"
    assert not (folder / "link.json").is_symlink()


# --- how it is written --------------------------------------------------------------------------------


def test_it_has_the_rights_of_any_new_file(folder: Path) -> None:
    before = os.umask(0o027)
    try:
        get_catalog_cached(cache="a.json")
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "a.json").stat().st_mode) == 0o640


def test_what_killed_writers_left_is_removed_when_it_is_old(folder: Path) -> None:
    drafts = [folder / f".a.json.{number}.abc.tmp" for number in range(3)]
    others = [folder / ".b.json.1.abc.tmp", folder / "a.json.tmp"]
    for path in (*drafts, *others):
        path.touch()
    long_ago = time.time() - STALE_S - 1
    for path in (*drafts[:2], *others):
        os.utime(path, (long_ago, long_ago))
    write_file(folder / "a.json", b"x")
    assert [path.exists() for path in (*drafts, *others)] == [False, False, True, True, True]


def test_a_file_is_read_whole_or_not_at_all(folder: Path) -> None:
    write_file(folder / "deep/er/a.json", b"12345")
    assert read_file(folder / "deep/er/a.json", 5) == b"12345"
    assert read_file(folder / "deep/er/a.json", 4) is None
    assert read_file(folder / "deep", 5) is None
    assert read_file(folder / "nowhere", 5) is None
    with open(folder / "huge", "wb") as file:
        file.truncate(MAX_BYTES + 1)
    assert load(folder / "huge") is None


# --- what is whole, but not ours ----------------------------------------------------------------------


def reseal(text: str) -> bytes:
    """A text that ends as a document would, with the checksum it needs."""
    body = text.encode() + b',"checksum":"'
    return body + hashlib.sha256(body).hexdigest().encode() + b'"}}\n'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[" * 100_000,
        '{"cache":{"x":1',
        '[{"cache":{"x":1',
        json.dumps({**CATALOG, "count": 1, "cache": {"x": 1}})[:-2],
        json.dumps({**CATALOG, "version": "1" * 12, "cache": {"x": 1}})[:-2],
        json.dumps({**CATALOG, "hash": 5, "cache": {"x": 1}})[:-2],
        json.dumps({**CATALOG, "promptList": 5, "cache": {"x": 1}})[:-2],
        json.dumps({**CATALOG, "promptList": [5], "cache": {"x": 1}})[:-2],
        json.dumps({**CATALOG, "functionSchema": {}, "cache": {"x": 1}})[:-2],
        json.dumps({**CATALOG, "functionSchema": [{"name": "x"}], "count": 1, "cache": {"x": 1}})[:-2],
        json.dumps({**CATALOG, "more": 1, "cache": {"x": 1}})[:-2],
        json.dumps({**CATALOG, "cache": {"x": 1}})[:-2].replace('"count"', '"hash": "", "count"'),
        json.dumps({**CATALOG, "cache": {"x": 1}})[:-2].replace('"x": 1', '"x": NaN'),
        json.dumps({**CATALOG, "cache": {"x": 1}})[:-2].replace('"x": 1', '"x": ' + "9" * 1000),
        json.dumps({**CATALOG, "cache": {"x": 1}})[:-2].replace('"x": 1', '"x": ' + "[" * 70 + "]" * 70),
    ],
    ids=lambda text: text[:50],
)
def test_what_has_a_checksum_and_is_no_catalog_is_not_used(text: str) -> None:
    assert unseal(reseal(text)) is None


@pytest.mark.parametrize(
    "facts",
    [
        {"files": 5},
        {"absent": 5},
        {"absent": [5]},
        {"files": {"a\0b": ""}},
        {"files": {}},
        {"files": {"/": ""}, "absent": ["a\0b"]},
        {"asked": "registry"},
    ],
    ids=str,
)
def test_facts_of_any_shape_are_a_miss_at_worst(facts: dict[str, object]) -> None:
    truth = get_catalog_cached()
    path = Path(".cache/tool_catalog.json")
    catalog, true_facts = load(path) or ({}, {})
    true_facts.pop("checksum")
    path.write_bytes(seal({**catalog, "promptList": "wrong"}, {**true_facts, **facts}))
    assert get_catalog_cached() == truth


def test_what_has_a_checksum_and_is_a_catalog_is(folder: Path) -> None:
    assert unseal(reseal(json.dumps({**CATALOG, "cache": {"x": 1}})[:-2])) is not None
    data = seal(CATALOG, {"x": 1})
    assert unseal(data) == unseal(data)
    assert unseal(data) == (CATALOG, {"x": 1, "checksum": data[-68:-4].decode()})
