"""Adapters that are empty or not there, and caches that were not chosen."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from toolcrib import build_catalog, get_catalog_cached
from toolcrib.catalog.cache import DEFAULT_CACHE
from toolcrib.errors import SourceError

SOURCE = "from toolcrib import tool\n\n@tool\ndef add(a: int): 'Add.'\n"


@pytest.mark.parametrize("adapter", [[], (), set(), iter(())])
def test_no_adapter_at_all_is_refused(adapter: object) -> None:
    with pytest.raises(SourceError, match="is empty"):
        build_catalog(adapter)


def test_no_cache_is_the_usual_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.py").write_text(SOURCE)
    assert get_catalog_cached("m.py", None)["count"] == 1
    assert Path(DEFAULT_CACHE).is_file()


def test_a_descriptor_does_not_hide_that_the_adapter_is_broken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "m.tools.json").write_text('[{"name": "add", "description": "Add."}]')
    assert build_catalog(tmp_path / "m.py")["count"] == 1
    (tmp_path / "m.py").write_text("def (")
    with caplog.at_level(logging.WARNING, "toolcrib"):
        caplog.clear()
        assert build_catalog(tmp_path / "m.py")["count"] == 0
    assert "m.py" in caplog.text
