"""Lock files: reproducible, strictly parsed, and enforced by a registry."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from toolcrib import MCPServer, Tool, ToolRegistry, tool
from toolcrib.catalog.lock import FORMAT, Lock
from toolcrib.errors import BatchError, ConfigurationError, DriftError, Location


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def find(text: str) -> str:
    """Find a text, wherever it is."""
    return text


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "toolcrib.lock"
    Lock.of(make_tools(), path).save()
    return path


def make_tools(**options: Any) -> list[Tool]:
    return [Tool.from_function(add, **options), Tool.from_function(find)]


def reworded() -> Tool:
    return Tool.from_function(add, description="Add two numbers, or more.")


# --- the file ------------------------------------------------------------------------------------------


def test_a_lock_is_the_same_whatever_the_order_of_the_tools(file: Path) -> None:
    again = Lock.of(reversed(make_tools()), file)
    assert again.to_text() == file.read_text()
    assert Lock.load(file).to_text() == file.read_text()


def test_a_lock_has_definitions_and_fingerprints_and_no_absolute_paths(file: Path) -> None:
    document = json.loads(file.read_text())
    assert document["format"] == FORMAT
    assert [entry["name"] for entry in document["tools"]] == ["add", "find"]
    entry = document["tools"][0]
    definition = make_tools()[0].definition
    assert entry["definition"] == definition.to_wire()
    assert entry["fingerprint"] == f"sha256:{definition.fingerprint}"
    assert entry["source"] == "catalog/test_lock.py"
    assert os.sep + "tests" not in file.read_text()
    assert entry.keys() == {"name", "fingerprint", "source", "definition"}


def test_a_source_below_the_lock_is_relative_to_it(tmp_path: Path) -> None:
    made = Tool.from_function(add)
    made.info.source = Location(str(tmp_path / "shop" / "tools.py"), 3)
    assert Lock.of([made], tmp_path / "toolcrib.lock").pins["add", None].source == "shop/tools.py"


def test_sources_are_written_without_secrets() -> None:
    made = Tool.from_function(add)
    made.info.source = Location("https://user:secret@tools.example/mcp?key=secret")
    assert Lock.of([made]).pins["add", None].source == "https://tools.example/mcp"
    made = Tool.from_function(add)
    made.info.source = Location("python server.py --token secret")
    assert Lock.of([made]).pins["add", None].source is None


def test_invisible_characters_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "toolcrib.lock"
    made = Tool.from_function(add, meta={"note": "caf\u00e9 \u202e\U000e0041"})
    Lock.of([made], path).save()
    assert "café \\u202e\\udb40\\udc41" in path.read_text()
    assert Lock.load(path).check([made]).ok


def test_versions_of_one_name_are_locked_side_by_side(tmp_path: Path) -> None:
    first, second = Tool.from_function(add, version="1"), Tool.from_function(add, version="2")
    lock = Lock.of([second, first], tmp_path / "toolcrib.lock")
    lock.save()
    lock = Lock.load(tmp_path / "toolcrib.lock")
    assert list(lock.pins) == [("add", "1"), ("add", "2")]
    assert lock.check([first, second]).ok
    assert [pin.title for pin in lock.check([first]).missing] == ["add@2"]


def test_a_lock_that_cannot_be_written_leaves_the_old_one(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = file.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(ConfigurationError, match="cannot be written: No space left"):
                Lock.of([reworded()], file).save()
        assert file.read_bytes() == before
        assert os.listdir(file.parent) == [file.name]


def test_a_new_lock_has_the_default_mode_and_an_old_one_keeps_its_own(file: Path) -> None:
    mask = os.umask(0)
    os.umask(mask)
    assert file.stat().st_mode & 0o777 == 0o666 & ~mask
    file.chmod(0o600)
    Lock.of([reworded()], file).save()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Add two numbers", "Add three numbers", "'add'.*fingerprint does not match its definition"),
        ('"default": 1', '"default": 2', "edited by hand"),
        ('"name": "add"', '"name": "sub"', "its definition belongs to another tool"),
        ('"format": 1', '"format": 2', "has format 2, and this version of toolcrib supports format 1"),
        ('"format": 1', '"format": 1, "format": 1', "an object has a key twice"),
        ('"source"', '"origin"', "unknown key 'origin'"),
        ('"default": 1', '"default": NaN', "NaN is not JSON"),
        ('"fingerprint": "sha', '"fingerprint": 1, "x": "sha', "'fingerprint' has the wrong type"),
        ("{", "<<<<<<< mine\n{", "merge conflict"),
        ('"tools": [', '"tools": [1, ', "it is not an object"),
        ('"tools": [', '"more": [], "tools": [', "must have lists of 'tools'"),
        ('"format": 1,', "", "is not a lock file of toolcrib"),
    ],
)
def test_a_damaged_or_edited_lock_is_refused(file: Path, old: str, new: str, words: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigurationError, match=words) as caught:
        Lock.load(file)
    assert caught.value.hint
    assert caught.value.file == str(file)


def test_a_lock_cut_off_anywhere_is_refused(file: Path) -> None:
    data = file.read_bytes()
    for length in range(0, len(data) - 2, 7):
        file.write_bytes(data[:length])
        with pytest.raises(ConfigurationError):
            Lock.load(file)


def test_deep_nesting_is_refused_and_does_not_crash(file: Path) -> None:
    file.write_text('{"format": 1, "tools": ' + "[" * 100_000)
    with pytest.raises(ConfigurationError, match="is damaged"):
        Lock.load(file)


def test_a_lock_that_is_not_there_says_how_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no such lock file") as caught:
        Lock.load(tmp_path / "toolcrib.lock")
    assert "toolcrib lock" in (caught.value.hint or "")


# --- keeping to it -----------------------------------------------------------------------------------------


def test_tools_as_locked_have_not_drifted(file: Path) -> None:
    drift = Lock.load(file).check(make_tools())
    assert drift.ok
    assert drift.findings() == []


def test_drift_says_what_changed_what_is_unknown_and_what_is_missing(file: Path) -> None:
    drift = Lock.load(file).check([reworded(), Tool.from_function(lambda x: x, name="other")])
    assert not drift.ok
    assert [made.name for made in drift.tools] == ["add", "other"]
    words = [finding.message for finding in drift.findings()]
    assert words == [
        "'add' is not what was locked: the description was reworded (cosmetic)",
        "'other' is not in the lock",
        "'find' is locked but not here",
    ]
    assert [finding.level for finding in drift.findings()] == ["error", "error", "warning"]
    assert "toolcrib lock --update add" in (drift.findings()[0].hint or "")


def test_drift_is_found_by_an_engine_that_cannot_compare_schemas(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(a: int | list[str], b: int = 1) -> int:
        """Add."""
        return b

    monkeypatch.delattr(jsonschema_rs, "CanonicalSchema")
    (finding, _) = Lock.load(file).check([Tool.from_function(add)]).findings()
    assert finding.message == "'add' is not what was locked: it differs"


def test_scopes_are_locked_too(tmp_path: Path) -> None:
    lock = Lock.of(make_tools(scopes=["orders:read"]), tmp_path / "toolcrib.lock")
    lock.save()
    lock = Lock.load(tmp_path / "toolcrib.lock")
    assert lock.check(make_tools(scopes=["orders:read"])).ok
    (finding,) = lock.check(make_tools()).findings()
    assert "no longer requires the scope `orders:read`" in finding.message


def test_a_tool_that_cannot_be_built_is_ignored(file: Path) -> None:
    def bad(x: "Nowhere"): ...  # type: ignore[name-defined]  # noqa: F821, UP037

    assert Lock.load(file).check([*make_tools(), Tool.from_function(bad)]).ok


def test_a_guarded_registry_refuses_what_is_not_as_locked(file: Path) -> None:
    registry = ToolRegistry()
    registry.add_all(make_tools())
    Lock.load(file).guard(registry)
    with pytest.raises(DriftError, match="'add' is not what was locked"):
        registry.replace(reworded())
    with pytest.raises(DriftError, match="'more' is not in the lock"):
        registry.add(Tool.from_function(find, name="more"))
    report = registry.add_all([Tool.from_function(find, name="more")])
    assert [error.code for error in report.errors] == ["drift"]
    assert [made.name for made in registry] == ["add", "find"]
    assert registry.get("add").definition.description == "Add two numbers"


def test_a_guard_refuses_a_registry_that_has_drifted_already(file: Path) -> None:
    registry = ToolRegistry()
    registry.add(reworded())
    with pytest.raises(BatchError, match="1 not as locked: 'add' is not what was locked"):
        Lock.load(file).guard(registry)
    assert registry.guard is None


def test_quarantine_removes_what_differs_and_keeps_it_out(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    registry = ToolRegistry()
    registry.add_all([reworded(), Tool.from_function(find)])
    drift = Lock.load(file).guard(registry, "quarantine")
    assert [made.name for made in drift.tools] == ["add"]
    assert [made.name for made in registry] == ["find"]
    with caplog.at_level(logging.WARNING, "toolcrib"):
        report = registry.add_all([reworded()])
        registry.add_all([reworded()])
    assert report.registered == []
    assert report.ok
    said = [record.getMessage() for record in caplog.records]
    assert [words.startswith("Quarantined: 'add'") for words in said] == [True], "said once, not at every try"
    registry.add(Tool.from_function(add))
    assert "add" in registry


async def test_a_running_server_is_held_to_its_lock(file: Path) -> None:
    server = MCPServer(dynamic=True)
    server.add(add, find)
    Lock.load(file).guard(server.registry)
    async with server:
        with pytest.raises(DriftError):

            @server.tool
            def stranger() -> str:
                """Nobody has seen this one."""
                return ""

        assert [definition.name for definition in server.list_tools()] == ["add", "find"]
        assert (await server.call("add", {"a": 1})).structured_content == 2


@tool(name="add")
def another_add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    raise NotImplementedError


def test_code_is_not_locked(file: Path) -> None:
    assert Lock.load(file).check([Tool.from_function(another_add), Tool.from_function(find)]).ok
