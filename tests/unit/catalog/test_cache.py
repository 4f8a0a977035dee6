"""The cached catalog is used while it is true, and not a moment longer."""

from __future__ import annotations

import json
import logging
import os
import stat
import threading
import time
from collections.abc import Callable
from hashlib import sha1
from itertools import cycle
from pathlib import Path

import pytest

from tests.support.records.catalogs import ADAPTER, MARK, MODELS, mark
from tests.support.system.source_folders import write
from toolcrib import ToolRegistry, build_catalog, get_catalog_cached
from toolcrib.catalog.build import MAX_BYTES, load, seal, store, unseal
from toolcrib.config.atomic_file import STALE_S, read_file, write_file

CACHE = Path(".cache/tool_catalog.json")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write(tmp_path, {"bridges/mcp_adapter.py": ADAPTER, "bridges/models.py": MODELS})


def is_cached(**given: object) -> bool:
    return get_catalog_cached(**given)["promptList"] == MARK  # type: ignore[arg-type]


@pytest.mark.requirement("C-17", "X-36")
def test_the_cache_answers_while_nothing_changes() -> None:
    built = get_catalog_cached()
    assert built == build_catalog()
    assert get_catalog_cached() == built
    marked = mark(CACHE)
    assert get_catalog_cached() == marked


def change(path: str, old: str, new: str) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        file = folder / path
        facts = file.stat()
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))
        os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))  # not even the date tells

    return act


def add(path: str, text: str) -> Callable[[Path], None]:
    return lambda folder: write(folder, {path: text}) and None


CHANGES: dict[str, Callable[[Path], None]] = {
    "the adapter, by one letter": change("bridges/mcp_adapter.py", "the wall", "the hall"),
    "the adapter, by its end": change("bridges/mcp_adapter.py", '"done"', '"gone"'),
    "a file it imports": change("bridges/models.py", "blue", "grey"),
    "a package in front of a file it imports": add("bridges/models/__init__.py", "Colour = int\n"),
    "a mark that makes its folder a package": add("bridges/__init__.py", ""),
    "a file it imports is gone": lambda folder: (folder / "bridges/models.py").unlink(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_any_change_of_a_file_builds_the_catalog_again(name: str, folder: Path) -> None:
    get_catalog_cached()
    mark(CACHE)
    assert is_cached()
    CHANGES[name](folder)
    fresh = get_catalog_cached()
    assert fresh == build_catalog()
    assert fresh["promptList"] != MARK
    mark(CACHE)
    assert is_cached()  # it was overwritten, and is true again


def test_a_missing_import_counts_when_it_appears(folder: Path) -> None:
    (folder / "bridges/models.py").unlink()
    before = get_catalog_cached()
    write(folder, {"bridges/models.py": MODELS})
    after = get_catalog_cached()
    assert after != before
    assert after["functionSchema"][0]["parameters"]["properties"]["colour"]["enum"] == ["red", "blue"]


def test_a_file_that_had_no_tool_counts_when_it_gets_one(folder: Path) -> None:
    write(
        folder,
        {
            "app/server.py": "from mcp.server.fastmcp import FastMCP\nmcp = FastMCP('x')\nimport more\n",
            "app/more.py": "import less\n",
            "app/less.py": "X = 1\n",
        },
    )
    assert get_catalog_cached("app/server.py")["count"] == 0
    mark(CACHE)
    assert is_cached(adapter="app/server.py")
    write(
        folder,
        {"app/less.py": "from server import mcp\n@mcp.tool()\ndef late() -> int:\n    '''Be late.'''\n"},
    )
    assert get_catalog_cached("app/server.py") == build_catalog("app/server.py")
    assert not is_cached(adapter="app/server.py")


def test_files_added_to_or_removed_from_a_folder_count(folder: Path) -> None:
    assert get_catalog_cached("bridges")["count"] == 1
    mark(CACHE)
    assert is_cached(adapter="bridges")
    more = "from toolcrib import tool\n@tool\ndef more() -> int:\n    '''Do more.'''\n"
    write(folder, {"bridges/deep/more.py": more})
    assert get_catalog_cached("bridges")["count"] == 2
    (folder / "bridges/deep/more.py").unlink()
    assert get_catalog_cached("bridges")["count"] == 1


def test_settings_and_switches_count(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from toolcrib import tool\n@tool(group='math')\ndef add() -> int:\n    '''Add all.'''\n"
    write(folder, {"tools.py": source, "toolcrib.toml": '[server]\ntargets = ["tools.py"]\n'})
    assert get_catalog_cached()["count"] == 1
    mark(CACHE)
    assert is_cached()
    monkeypatch.setenv("TOOLCRIB_ENABLE_MATH_TOOLS", "0")
    assert get_catalog_cached()["count"] == 0
    monkeypatch.delenv("TOOLCRIB_ENABLE_MATH_TOOLS")
    assert get_catalog_cached()["count"] == 1
    write(folder, {"toolcrib.toml": '[server]\ntargets = ["tools.py"]\nnamespace = "x"\n'})
    assert get_catalog_cached()["functionSchema"][0]["name"] == "x_add"


def test_another_adapter_is_another_catalog(folder: Path) -> None:
    write(folder, {"other.py": ADAPTER})
    get_catalog_cached()
    mark(CACHE)
    assert not is_cached(adapter="other.py")
    assert not is_cached()


def test_another_version_builds_the_catalog_again() -> None:
    get_catalog_cached()
    catalog, facts = load(CACHE) or ({}, {})
    facts.pop("checksum")
    store(CACHE, {**catalog, "promptList": MARK}, {**facts, "builder": facts["builder"] + "1"})
    assert not is_cached()


def test_a_returning_adapter_and_a_removed_descriptor_count(folder: Path) -> None:
    entry = '[{"name": "described", "description": "Be described", "schema": {"type": "object"}}]'
    write(folder, {"bridges/mcp_adapter.tools.json": entry})
    assert get_catalog_cached()["functionSchema"][0]["name"] == "paint"
    (folder / "bridges/mcp_adapter.py").rename(folder / "away.py")
    assert get_catalog_cached()["functionSchema"][0]["name"] == "described"
    mark(CACHE)
    assert is_cached()
    (folder / "away.py").rename(folder / "bridges/mcp_adapter.py")
    assert get_catalog_cached()["functionSchema"][0]["name"] == "paint"


def test_the_settings_may_name_the_cache_file(folder: Path) -> None:
    write(folder, {"toolcrib.toml": '[catalog]\ncache = "var/catalog.json"\n'})
    get_catalog_cached()
    assert (folder / "var/catalog.json").is_file()
    assert not CACHE.exists()
    get_catalog_cached(cache="mine.json")
    assert (folder / "mine.json").is_file()


def test_anything_that_is_returned_belongs_to_the_caller() -> None:
    get_catalog_cached()["functionSchema"].clear()
    get_catalog_cached()["functionSchema"].clear()
    assert get_catalog_cached() == build_catalog()


def test_a_very_long_catalog_is_cached_too(tmp_path: Path) -> None:
    words = "\n".join(f"- tool_{n}: {'x' * 100}" for n in range(20_000))
    catalog = {"version": "0" * 12, "hash": "0" * 40, "count": 0, "promptList": words, "functionSchema": []}
    store(tmp_path / "a.json", catalog, {"builder": "x"})
    record = load(tmp_path / "a.json")
    assert record is not None
    assert record[0] == catalog


def test_files_that_change_while_read_are_not_cached(folder: Path) -> None:
    """What is in the cache agrees with itself, whenever it was written."""
    adapter = folder / "bridges/mcp_adapter.py"
    sources = {
        sha1(text.encode()).hexdigest(): text
        for text in (ADAPTER.replace("the wall", f"wall {number}") for number in range(200))
    }
    ended = threading.Event()

    def rewrite() -> None:
        for number, text in enumerate(cycle(sources.values())):
            for _ in range(number % 40):  # at times a reading ends before the next change, at times not
                (folder / "next").write_text(text)
            os.replace(folder / "next", adapter) if number % 40 else None
            if ended.is_set():
                return

    writer = threading.Thread(target=rewrite)
    adapter.write_text(next(iter(sources.values())))
    writer.start()
    kept = set()
    try:
        for _ in range(60):
            get_catalog_cached()
            record = load(CACHE)
            if record is not None:
                kept.add(record[0]["hash"])
                assert (
                    record[0]["promptList"].splitlines()[0].removeprefix("- paint: Paint ")
                    in (sources[record[0]["hash"]])
                )
    finally:
        ended.set()
        writer.join()
    assert get_catalog_cached() == build_catalog()


# --- registries ---------------------------------------------------------------------------------------


def greet(name: str) -> str:
    """Greet somebody."""
    return name


def test_the_catalog_of_a_registry_is_written_and_follows_it() -> None:
    registry = ToolRegistry()
    registry.add(greet)
    first = get_catalog_cached(registry)
    assert first == build_catalog(registry)
    assert (load(CACHE) or [None])[0] == first
    mark(CACHE)
    assert get_catalog_cached(registry) == first  # the file is not believed where the truth is at hand
    assert (load(CACHE) or [None])[0] == first
    registry.disable("greet")
    assert get_catalog_cached(registry)["count"] == 0
    CACHE.unlink()
    assert get_catalog_cached([registry.versions("greet")[0]])["count"] == 1
    assert CACHE.exists()


# --- the seal -----------------------------------------------------------------------------------------


def test_a_sealed_document_is_json_with_the_five_keys_first() -> None:
    catalog = get_catalog_cached()
    data = CACHE.read_bytes()
    document = json.loads(data)
    assert list(document) == [*catalog, "cache"]
    assert {key: document[key] for key in catalog} == catalog
    assert unseal(seal(catalog, {"builder": "x"})) is not None


# --- places where nothing can be written --------------------------------------------------------------


@pytest.mark.parametrize("place", ["bridges", "bridges/models.py/cache.json", "/proc/nowhere/cache.json"])
def test_a_cache_that_cannot_be_written_is_logged_once(place: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "toolcrib"):
        assert get_catalog_cached(cache=place) == build_catalog()
        assert get_catalog_cached(cache=place) == build_catalog()
    assert [record.message for record in caplog.records].count(caplog.records[0].message) == 1
    assert "cannot write" in caplog.records[0].message
    assert not list(Path().glob("**/*.tmp"))


def test_a_read_only_folder_is_not_an_error(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
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


def test_an_invalid_file_name_is_not_an_error() -> None:
    assert get_catalog_cached(cache="a\0b") == build_catalog()
    assert get_catalog_cached(cache="x" * 300) == build_catalog()


def test_a_pipe_instead_of_the_file_does_not_block(folder: Path) -> None:
    os.mkfifo(folder / "pipe.json")
    assert get_catalog_cached(cache="pipe.json") == build_catalog()
    assert load(folder / "pipe.json") is not None  # it was replaced


def test_a_link_is_replaced_and_its_target_left_alone(folder: Path) -> None:
    (folder / "precious").write_text("precious")
    (folder / "link.json").symlink_to("precious")
    get_catalog_cached(cache="link.json")
    assert (folder / "precious").read_text() == "precious"
    assert not (folder / "link.json").is_symlink()


# --- how it is written --------------------------------------------------------------------------------


def test_the_file_has_the_usual_permissions(folder: Path) -> None:
    before = os.umask(0o027)
    try:
        get_catalog_cached(cache="a.json")
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "a.json").stat().st_mode) == 0o640


def test_old_temporary_files_of_killed_writers_are_removed(folder: Path) -> None:
    drafts = [folder / f".a.json.{number}.abc.tmp" for number in range(3)]
    others = [folder / ".b.json.1.abc.tmp", folder / "a.json.tmp"]
    for path in (*drafts, *others):
        path.touch()
    long_ago = time.time() - STALE_S - 1
    for path in (*drafts[:2], *others):
        os.utime(path, (long_ago, long_ago))
    write_file(folder / "a.json", b"x")
    assert [path.exists() for path in (*drafts, *others)] == [False, False, True, True, True]


def test_a_damaged_file_is_not_used(folder: Path) -> None:
    write_file(folder / "deep/er/a.json", b"12345")
    assert read_file(folder / "deep/er/a.json", 5) == b"12345"
    assert read_file(folder / "deep/er/a.json", 4) is None
    assert read_file(folder / "deep", 5) is None
    assert read_file(folder / "nowhere", 5) is None
    with open(folder / "huge", "wb") as file:
        file.truncate(MAX_BYTES + 1)
    assert load(folder / "huge") is None


# --- imported files ---------------------------------------------------------------------------------

HEAD = "from mcp.server.fastmcp import FastMCP\nmcp = FastMCP('x')\n"
KINDS = "from enum import Enum\nclass Color(Enum):\n    RED = 'red'\n"
IMPORTS = {
    "a comment in brackets": (
        "s.py",
        "from pkg import (  # what is used (see docs)\n    kinds,\n)\n",
        "kinds.Color",
    ),
    "no blank": ("pkg/s.py", "from.kinds import Color\n", "Color"),
    "a blank after the dot": ("pkg/s.py", "from . kinds import Color\n", "Color"),
    "a line that goes on": ("s.py", "from pkg import \\\r\n    kinds\r\n", "kinds.Color"),
    "by attribute": ("s.py", "import pkg\n", "pkg.kinds.Color"),
    "blanks around dots": ("s.py", "import pkg . kinds\n", "pkg.kinds.Color"),
    "everything": ("s.py", "from pkg import *\n", "kinds.Color"),
}


@pytest.mark.requirement("X-36")
@pytest.mark.parametrize("name", IMPORTS)
def test_a_change_of_an_imported_file_counts(tmp_path: Path, name: str) -> None:
    place, imports, hint = IMPORTS[name]
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("__all__ = ['kinds']\n" if name == "everything" else "")
    kinds = tmp_path / "pkg" / "kinds.py"
    kinds.write_text(KINDS)
    source = tmp_path / place
    source.write_bytes(f"{imports}{HEAD}@mcp.tool()\ndef a(c: {hint}):\n    'Do.'\n".encode())
    cache = tmp_path / "cache.json"
    before = get_catalog_cached(source, cache)
    kinds.write_text(f"{KINDS}    BLUE = 'blue'\n")
    after = get_catalog_cached(source, cache)
    assert after == build_catalog(source)
    assert before["functionSchema"] != after["functionSchema"] or "Color" not in str(before)


def test_a_folder_that_becomes_a_virtual_environment_is_not_read(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "env").mkdir(parents=True)
    (root / "env" / "m.py").write_text(f"{HEAD}@mcp.tool()\ndef inside(): 'Do.'\n")
    (root / "n.py").write_text(f"{HEAD}@mcp.tool()\ndef outside(): 'Do.'\n")
    cache = tmp_path / "cache.json"
    assert get_catalog_cached(root, cache)["count"] == 2
    (root / "env" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert get_catalog_cached(root, cache)["count"] == 1
    assert os.path.exists(cache)


def test_a_folder_that_becomes_a_project_is_read_without_its_builds(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "build").mkdir(parents=True)
    (root / "build" / "m.py").write_text(f"{HEAD}@mcp.tool()\ndef copied(): 'Do.'\n")
    (root / "n.py").write_text(f"{HEAD}@mcp.tool()\ndef written(): 'Do.'\n")
    cache = tmp_path / "cache.json"
    assert get_catalog_cached(root, cache)["count"] == 2
    (root / "pyproject.toml").write_text("[project]\n")
    assert get_catalog_cached(root, cache)["count"] == 1


KINDS_OR_TEXT = "try:\n    from {} import Color\nexcept ImportError:\n    Color = str\n"


def make_source(module: str) -> str:
    return f"{KINDS_OR_TEXT.format(module)}{HEAD}@mcp.tool()\ndef a(c: Color):\n    'Do.'\n"


def test_an_import_beside_the_file_that_a_link_leads_to_counts_when_it_appears(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "links").mkdir()
    (tmp_path / "real" / "tools.py").write_text(make_source("kinds"))
    link = tmp_path / "links" / "tools.py"
    link.symlink_to(tmp_path / "real" / "tools.py")
    cache = tmp_path / "cache.json"
    before = get_catalog_cached(link, cache)
    assert load(cache) is not None
    (tmp_path / "real" / "kinds.py").write_text(KINDS)
    assert get_catalog_cached(link, cache) == build_catalog(link) != before


def test_a_package_that_is_linked_to_another_folder_counts(tmp_path: Path) -> None:
    source = tmp_path / "tools.py"
    source.write_text(make_source("lib.kinds"))
    for name, text in (("old", KINDS), ("new", f"{KINDS}    BLUE = 'blue'\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kinds.py").write_text(text)
    (tmp_path / "lib").symlink_to("old")
    cache = tmp_path / "cache.json"
    before = get_catalog_cached(source, cache)
    assert load(cache) is not None
    (tmp_path / "lib").unlink()
    (tmp_path / "lib").symlink_to("new")
    assert get_catalog_cached(source, cache) == build_catalog(source) != before


def test_a_link_that_leads_back_does_no_harm(tmp_path: Path) -> None:
    source = tmp_path / "tools.py"
    source.write_text(make_source("kinds"))
    (tmp_path / "back").symlink_to(tmp_path)
    (tmp_path / "again").symlink_to(tmp_path)
    assert get_catalog_cached(source, tmp_path / "cache.json") == build_catalog(source)
