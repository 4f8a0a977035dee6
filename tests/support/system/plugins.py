"""Lay out an installed package with an entry point, and run Python with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def install_plugin(folder: Path, group: str, name: str, source: str, attribute: str) -> None:
    """Put a module and its metadata into a folder, as pip would."""
    module = "installed_plugin"
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}:{attribute}\n")


def run_with_plugin(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the packages of a folder besides those installed here."""
    path = os.pathsep.join([str(folder), *sys.path])
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": path},
    )
