"""The files of a target, found without importing."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib.errors import SourceError
from toolcrib.sources.loading import find_module_file
from toolcrib.sources.scan import scan
from toolcrib.sources.scan.files import find_target


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("pack/__init__.py", "pack/one.py", "pack/sub/two.py", "loose/three.py", "single.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("raise SystemExit\n")
    return tmp_path


def test_a_package_is_its_file_and_all_below(folder: Path) -> None:
    target = find_target("pack")
    assert [path.relative_to(folder).as_posix() for path in target.files] == [
        "pack/__init__.py",
        "pack/one.py",
        "pack/sub/two.py",
    ]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("pack", "pack/__init__.py"),
        ("pack.one", "pack/one.py"),
        ("pack.sub.two", "pack/sub/two.py"),
        ("loose.three", "loose/three.py"),
        ("single", "single.py"),
        ("loose", "loose"),
    ],
)
def test_a_module_is_found_as_python_would(folder: Path, name: str, file: str) -> None:
    found = find_module_file(name)
    assert found is not None
    assert found.resolve() == folder / file


@pytest.mark.parametrize("name", ["pack.none", "single.one", "no_such", "a-b", "", "pack..one"])
def test_what_is_no_module_is_not_found(folder: Path, name: str) -> None:
    assert find_module_file(name) is None


def test_a_package_wins_over_a_file_of_its_name(folder: Path) -> None:
    (folder / "pack.py").write_text("")
    found = find_module_file("pack")
    assert found is not None
    assert found.name == "__init__.py"


def test_a_name_in_a_file_is_kept(folder: Path) -> None:
    target = find_target("single.py:thing.part")
    assert (target.name, [path.name for path in target.files]) == ("thing.part", ["single.py"])
    target = find_target("pack:thing")
    assert (target.name, [path.name for path in target.files]) == ("thing", ["__init__.py"])


def test_links_that_go_in_circles_are_left_for_the_reader(folder: Path) -> None:
    (folder / "loose" / "x.py").symlink_to(folder / "loose" / "y.py")
    (folder / "loose" / "y.py").symlink_to(folder / "loose" / "x.py")
    assert len(find_target(folder / "loose").files) == 3


def test_a_file_and_a_link_to_it_are_one(folder: Path) -> None:
    (folder / "loose" / "again.py").symlink_to(folder / "loose" / "three.py")
    assert [path.name for path in find_target(folder / "loose").files] == ["three.py"]


def test_nothing_of_the_name_says_so(folder: Path) -> None:
    with pytest.raises(SourceError, match="There is no module 'nothing'") as caught:
        find_target("nothing")
    assert caught.value.hint == "give a file, a folder, a module or module:object"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no /dev/zero")
def test_a_link_to_a_device_is_a_target_without_tools(tmp_path: Path) -> None:
    (tmp_path / "endless.py").symlink_to("/dev/zero")
    assert [finding.code for finding in scan(tmp_path / "endless.py").findings] == ["no-tools"]
