"""The cached catalog is used while it is true, and not a moment longer."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from hashlib import sha1
from itertools import cycle
from pathlib import Path

import pytest

from tests.support.catalogs import ADAPTER, MARK, MODELS, mark
from tests.support.source_folders import write
from toolcrib import ToolRegistry, build_catalog, get_catalog_cached
from toolcrib.catalog.cache import load, seal, store, unseal

CACHE = Path(".cache/tool_catalog.json")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write(tmp_path, {"bridges/mcp_adapter.py": ADAPTER, "bridges/models.py": MODELS})


def is_cached(**given: object) -> bool:
    return get_catalog_cached(**given)["promptList"] == MARK  # type: ignore[arg-type]


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
def test_any_change_of_what_was_read_makes_it_be_built_again(name: str, folder: Path) -> None:
    get_catalog_cached()
    mark(CACHE)
    assert is_cached()
    CHANGES[name](folder)
    fresh = get_catalog_cached()
    assert fresh == build_catalog()
    assert fresh["promptList"] != MARK
    mark(CACHE)
    assert is_cached()  # it was overwritten, and is true again


def test_a_file_that_was_not_there_when_it_was_imported_counts_when_it_comes(folder: Path) -> None:
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


def test_a_file_that_comes_into_a_folder_or_leaves_it_counts(folder: Path) -> None:
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


def test_another_question_is_another_answer(folder: Path) -> None:
    write(folder, {"other.py": ADAPTER})
    get_catalog_cached()
    mark(CACHE)
    assert not is_cached(adapter="other.py")
    assert not is_cached()


def test_another_builder_builds_again() -> None:
    get_catalog_cached()
    catalog, facts = load(CACHE) or ({}, {})
    facts.pop("checksum")
    store(CACHE, {**catalog, "promptList": MARK}, {**facts, "builder": facts["builder"] + "1"})
    assert not is_cached()


def test_the_adapter_counts_when_it_comes_back_and_its_descriptor_when_it_goes(folder: Path) -> None:
    entry = '[{"name": "described", "description": "Be described", "schema": {"type": "object"}}]'
    write(folder, {"bridges/mcp_adapter.tools.json": entry})
    assert get_catalog_cached()["functionSchema"][0]["name"] == "paint"
    (folder / "bridges/mcp_adapter.py").rename(folder / "away.py")
    assert get_catalog_cached()["functionSchema"][0]["name"] == "described"
    mark(CACHE)
    assert is_cached()
    (folder / "away.py").rename(folder / "bridges/mcp_adapter.py")
    assert get_catalog_cached()["functionSchema"][0]["name"] == "paint"


def test_the_settings_may_say_where_the_cache_is(folder: Path) -> None:
    write(folder, {"toolcrib.toml": '[catalog]\ncache = "var/catalog.json"\n'})
    get_catalog_cached()
    assert (folder / "var/catalog.json").is_file()
    assert not CACHE.exists()
    get_catalog_cached(cache="mine.json")
    assert (folder / "mine.json").is_file()


def test_what_is_returned_belongs_to_the_caller() -> None:
    get_catalog_cached()["functionSchema"].clear()
    get_catalog_cached()["functionSchema"].clear()
    assert get_catalog_cached() == build_catalog()


def test_a_catalog_of_many_words_is_kept_too(tmp_path: Path) -> None:
    words = "\n".join(f"- tool_{n}: {'x' * 100}" for n in range(20_000))
    catalog = {"version": "0" * 12, "hash": "0" * 40, "count": 0, "promptList": words, "functionSchema": []}
    store(tmp_path / "a.json", catalog, {"builder": "x"})
    record = load(tmp_path / "a.json")
    assert record is not None
    assert record[0] == catalog


def test_nothing_that_was_read_while_it_changed_is_kept_as_true(folder: Path) -> None:
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


def test_the_catalog_of_a_registry_is_kept_for_others_and_follows_it() -> None:
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
