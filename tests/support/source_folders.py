"""Folders of source files for tests, and an import system that forgets them afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files below a folder, by their paths."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return folder


@contextmanager
def forgotten_imports() -> Iterator[None]:
    """Everything imported inside is unknown afterwards, and so are the places it was found."""
    modules, path = set(sys.modules), list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if not name.startswith("toolcrib."):
                del sys.modules[name]
