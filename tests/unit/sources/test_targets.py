"""Targets: what a text names."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib.errors import SourceError
from toolcrib.sources.targets import (
    FILE_NAME,
    default_target,
    is_settings,
    parse_target,
    resolve_target,
    settings_files,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.py").touch()
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").touch()
    (tmp_path / "described").mkdir()
    (tmp_path / "described" / "a.json").touch()
    (tmp_path / "tools.toml").touch()
    (tmp_path / "odd:name.py").touch()
    (tmp_path / "notes.txt").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "kind", "path", "module", "name"),
    [
        ("tools.py", "file", "tools.py", None, ""),
        ("tools.py:add", "file", "tools.py", None, "add"),
        ("gone.py:add", "file", "gone.py", None, "add"),
        ("odd:name.py", "file", "odd:name.py", None, ""),
        ("code", "folder", "code", None, ""),
        ("notes.txt", "other", "notes.txt", None, ""),
        ("described", "descriptor", "described", None, ""),
        ("tools.toml", "settings", "tools.toml", None, ""),
        ("other.toml", "settings", "other.toml", None, ""),
        ("gone.json", "descriptor", "gone.json", None, ""),
        ("gone/folder", "folder", "gone/folder", None, ""),
        ("shop.api", "module", None, "shop.api", ""),
        ("shop.api:app.tools", "module", None, "shop.api", "app.tools"),
        ("https://host/mcp", "address", None, None, ""),
        ("s3://bucket/x.json", "address", None, None, ""),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_text_is_one_kind_of_target(
    text: str, kind: str, path: str | None, module: str | None, name: str
) -> None:
    target = parse_target(text)
    assert (target.kind, target.module, target.name) == (kind, module, name)
    assert target.path == (None if path is None else Path(path))


@pytest.mark.usefixtures("folder")
def test_a_missing_path_is_known_to_be_missing() -> None:
    assert [parse_target(text).is_missing for text in ("tools.py", "gone.py", "gone.py:x", "shop")] == [
        False,
        True,
        True,
        False,
    ]


def test_the_paths_of_a_module_are_known_once_it_is_imported() -> None:
    assert [path.name for path in parse_target("json").find_paths()] == ["json"]
    assert parse_target("never.imported").find_paths() == []


def test_without_targets_the_settings_of_the_folder_are_meant(folder: Path) -> None:
    with pytest.raises(SourceError, match=r"No target, and no toolcrib\.toml in this folder"):
        default_target()
    assert settings_files([]) == []
    (folder / FILE_NAME).touch()
    assert (default_target(), settings_files([])) == (FILE_NAME, [Path(FILE_NAME)])
    assert settings_files(["a.py", "b.toml"]) == [Path("b.toml")]
    assert (is_settings(FILE_NAME), is_settings("tools.py")) == (True, False)


def test_a_resolved_target_means_the_same_from_anywhere(folder: Path) -> None:
    texts = ["tools.py", "tools.py:add", "code", "shop.api", "shop:app", str(folder / "x.py")]
    assert [resolve_target(text, folder) for text in texts] == [
        str(folder / "tools.py"),
        f"{folder / 'tools.py'}:add",
        str(folder / "code"),
        "shop.api",
        "shop:app",
        str(folder / "x.py"),
    ]
