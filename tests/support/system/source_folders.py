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
    """Forget what is imported inside, except toolcrib and installed packages, and restore `sys.path`.

    Packages with compiled parts (cryptography) cannot be imported twice in one process.
    """
    modules, path = set(sys.modules), list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = path
        new = set(sys.modules) - modules
        files = {name: str(getattr(sys.modules[name], "__file__", "")) for name in new}
        installed = {name.partition(".")[0] for name, file in files.items() if "site-packages" in file}
        kept = {"toolcrib", *installed}
        for name in new:
            if name.partition(".")[0] not in kept:
                del sys.modules[name]
