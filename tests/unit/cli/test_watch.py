"""The files that `toolcrib serve --reload` watches, and when they have changed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from toolcrib.cli import reload
from toolcrib.cli.reload import WatchedFiles, find_watched, find_world_writable


def watched(*items: tuple[str, Path]) -> WatchedFiles:
    files = WatchedFiles()
    files.add((kind, str(path)) for kind, path in items)
    return files


async def changes(files: WatchedFiles) -> list[str]:
    async with asyncio.timeout(20):
        return [os.path.basename(path) for path in await files.wait_for_change()]


async def is_quiet(files: WatchedFiles) -> bool:
    """Return whether nothing is seen to change for longer than it takes to see a change."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(4 * reload.QUIET_S):
            await files.wait_for_change()
    return True


async def test_a_file_that_is_saved_again_has_changed_once(tmp_path: Path) -> None:
    file = tmp_path / "tools.py"
    file.write_text("one")
    files = watched(("file", file))
    file.write_text("other")
    assert await changes(files) == ["tools.py"]
    assert await is_quiet(files)


@pytest.mark.parametrize("kind", ["folder", "source", "published"])
async def test_files_that_come_and_go_in_a_folder_are_changes(tmp_path: Path, kind: str) -> None:
    files = watched((kind, tmp_path))
    (tmp_path / "new.py").write_text("x = 1")
    assert await changes(files) == ["new.py"]
    (tmp_path / "new.py").unlink()
    assert await changes(files) == ["new.py"]


async def test_data_that_tools_write_beside_their_module_is_not_a_change(tmp_path: Path) -> None:
    files = watched(("folder", tmp_path), ("source", tmp_path))
    (tmp_path / "orders.json").write_text("[]")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "tools.py").write_text("")
    assert await is_quiet(files)


async def test_a_source_folder_has_those_below_and_a_published_one_has_every_file(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    files = watched(("source", tmp_path), ("published", tmp_path / "a"))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "late.py").write_text("x = 1")
    (tmp_path / "a" / "terms.md").write_text("Pay.")
    assert sorted(await changes(files)) == ["late.py", "terms.md"]


async def test_a_link_that_leads_elsewhere_is_a_change(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tools.py").write_text("x = 1")
    (tmp_path / "current").symlink_to("one")
    files = watched(("file", tmp_path / "current" / "tools.py"))
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").rename(tmp_path / "current")
    assert await changes(files) == ["tools.py"]


async def test_files_are_reported_when_they_are_no_longer_being_saved(tmp_path: Path) -> None:
    file = tmp_path / "tools.py"
    file.write_text("x = 0")
    files = watched(("file", file))
    waiting = asyncio.ensure_future(files.wait_for_change())
    for number in range(60):
        file.write_text("" if number % 3 else f"x = {number}")
        await asyncio.sleep(0.01)
        assert not waiting.done()
    file.write_text("x = 1")
    await waiting
    assert await is_quiet(files)


async def test_a_missing_file_has_time_to_come_back(tmp_path: Path) -> None:
    file = tmp_path / "tools.py"
    file.write_text("x = 0")
    files = watched(("file", file))
    file.unlink()
    waiting = asyncio.ensure_future(files.wait_for_change())
    await asyncio.wait([waiting], timeout=reload.GRACE_S / 2)
    assert not waiting.done()
    assert [os.path.basename(path) for path in await waiting] == ["tools.py"]


async def test_anything_that_is_added_later_is_compared_with_what_it_was_then(tmp_path: Path) -> None:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("x = 1")
    two.write_text("x = 1")
    files = watched(("file", one))
    two.write_text("x = 22")
    one.write_text("x = 22")
    files.add([("file", str(two)), ("file", str(one))])
    assert await changes(files) == ["one.py"]


def test_targets_settings_and_the_folders_of_modules_are_watched(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("x = 1")
    (tmp_path / "more").mkdir()
    file = tmp_path / "toolcrib.toml"
    file.write_text("[server]\ntargets = ['tools.py', 'more']\n")
    found = set(find_watched([str(file)]))
    assert {
        ("file", str(file)),
        ("file", str(tmp_path / "tools.py")),
        ("source", str(tmp_path / "more")),
    } <= found
    assert ("folder", os.path.dirname(__file__)) in found
    assert not any(
        "site-packages" in path or "toolcrib/cli" in path for kind, path in found if kind == "folder"
    )


def test_files_that_everybody_can_change_are_found(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    private, public = tmp_path / "private.py", tmp_path / "public.py"
    for file in (private, public):
        file.write_text("")
        file.chmod(0o644)
    public.chmod(0o666)
    missing = str(tmp_path / "gone.py")
    assert list(find_world_writable([str(private), str(public), missing])) == [str(public)]
    tmp_path.chmod(0o777)
    assert list(find_world_writable([str(private), missing])) == [
        str(private),
    ]
