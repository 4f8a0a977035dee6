"""The states of files, and which files are watched."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import toolcrib
from tests.support.source_folders import forgotten_imports, write
from toolcrib.sources import find_files
from toolcrib.sources.loading import load_file, load_module
from toolcrib.sources.reload.watched_files import SourceTree, find_links, is_content_lost, read_states


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    with forgotten_imports():
        yield


# --- tree ----------------------------------------------------------------------------------------


def test_the_tree_of_a_file_is_the_folder_it_is_imported_from(tmp_path: Path) -> None:
    write(tmp_path, {"proj/pack/__init__.py": "", "proj/pack/tools.py": "", "outside.py": ""})
    tree = SourceTree([tmp_path / "proj/pack/tools.py"])
    assert tree.roots == (str(tmp_path / "proj"),)
    assert tree.covers(str(tmp_path / "proj/other.py"))
    assert tree.covers(str(tmp_path / "proj/pack/__init__.py"))
    assert not tree.covers(str(tmp_path / "outside.py"))


def test_installed_packages_below_a_tree_do_not_belong_to_it(tmp_path: Path) -> None:
    tree = SourceTree([tmp_path])
    for place in (".venv/x.py", "env/lib/python3.11/site-packages/x.py", "node_modules/x.py", "x.so"):
        assert not tree.covers(str(tmp_path / place))
    assert tree.covers(str(tmp_path / "x.py"))


def test_not_even_the_root_of_everything_covers_the_standard_library_and_toolcrib() -> None:
    tree = SourceTree(["/crib_tools.py"])
    assert tree.covers("/srv/app/x.py")
    assert not tree.covers(json.__file__)
    assert not tree.covers(pytest.__file__)
    assert not tree.covers(toolcrib.__file__)


def test_a_data_file_has_no_tree_but_is_watched(tmp_path: Path) -> None:
    tree = SourceTree([tmp_path / "toolcrib.toml"])
    assert tree.roots == ()
    assert tree.folders(()) == {str(tmp_path)}


def test_the_imported_modules_of_a_tree_are_found_with_namespace_packages(tmp_path: Path) -> None:
    write(tmp_path, {"crib_one.py": "import crib_space.two", "crib_space/two.py": ""})
    load_file(tmp_path / "crib_one.py")
    sys.modules["crib_handmade"] = ModuleType("crib_handmade")
    sys.modules["crib_odd"] = object()  # type: ignore[assignment]
    assert set(SourceTree([tmp_path / "crib_one.py"]).modules()) == {
        "crib_one",
        "crib_space",
        "crib_space.two",
    }


def test_a_folder_that_is_not_there_is_watched_for_where_it_would_be(tmp_path: Path) -> None:
    assert SourceTree([tmp_path / "a" / "b"]).folders(()) == {str(tmp_path)}


def test_every_link_on_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "x.py").write_text("")
    (tmp_path / "one").symlink_to("real")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    (tmp_path / "round").symlink_to("round")
    names = [Path(link).name for link in find_links(str(tmp_path / "two" / "x.py"))]
    assert names[-2:] == ["two", "one"]
    assert find_links(str(tmp_path / "round"))[-1] == str(tmp_path / "round")


def test_the_places_behind_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"crib_file.py": "", "crib_pack/__init__.py": "", "crib_module.py": ""})
    monkeypatch.chdir(tmp_path)
    for name in ("crib_pack", "crib_module"):
        load_module(name)
    targets = ["crib_file.py", "crib_file.py:tool", "gone.py:x", "crib_pack", "crib_module:x.y", "unknown"]
    assert [path.name for path in find_files(targets)] == [
        "crib_file.py",
        "crib_file.py",
        "gone.py",
        "crib_pack",
        "crib_module.py",
    ]
    sys.path.remove(str(tmp_path))


# --- states -------------------------------------------------------------------------------------------


def test_a_state_depends_on_the_content(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("one")
    first = read_states([str(path)], ())
    path.write_text("two")
    os.utime(path, ns=(1, 1))
    assert read_states([str(path)], ()) != first
    path.write_text("one")
    assert read_states([str(path)], ()) == first


def test_a_file_that_lost_its_content_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("one")
    before = read_states([str(tmp_path)], ())
    path.write_text("")
    empty = read_states([str(tmp_path)], ())
    path.unlink()
    gone = read_states([str(tmp_path)], ())
    assert is_content_lost(before, empty)
    assert is_content_lost(before, gone)
    assert not is_content_lost(empty, gone)
    assert not is_content_lost(gone, before)


def test_names_in_a_folder_are_part_of_it_on_demand(tmp_path: Path) -> None:
    first = read_states((), (), [str(tmp_path)])
    assert read_states((), (), [str(tmp_path)]) == first
    (tmp_path / "data.sqlite-journal").write_text("")
    (tmp_path / "__pycache__").mkdir()
    assert read_states((), (), [str(tmp_path)]) == first  # neither can be imported
    (tmp_path / "module.py").write_text("")
    second = read_states((), (), [str(tmp_path)])
    (tmp_path / "pack").mkdir()
    assert first != second != read_states((), (), [str(tmp_path)])
    assert read_states((), (), [str(tmp_path / "gone")]) == {f"{tmp_path / 'gone'}{os.sep}": None}
