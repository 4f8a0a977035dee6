"""Further details of document C: examples, kinds of parameters, several files, folders, registries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.system.source_folders import write
from toolcrib import build_catalog


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.requirement("X-33")
def test_async_keyword_only_and_positional_only_are_all_there(folder: Path) -> None:
    write(
        folder,
        {
            "tools.py": '''
            from toolcrib import tool

            @tool
            async def act(first: int, /, second: str = "x", *, third: bool, fourth: float = 1.5):
                """Act."""
            '''
        },
    )
    (entry,) = build_catalog("tools.py")["functionSchema"]
    assert list(entry["parameters"]["properties"]) == ["first", "second", "third", "fourth"]
    assert entry["parameters"]["required"] == ["first", "third"]


def first(x: int) -> int:
    """Be the first."""
    return x
