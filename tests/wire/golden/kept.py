"""The transcripts that are kept: whole for the newest revision of each era, as differences for older ones."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

FOLDER = Path(__file__).parent
NEWER = {"2024-11-05": "2025-03-26", "2025-03-26": "2025-06-18", "2025-06-18": "2025-11-25"}
"""The revision that an older one is compared with, after each has been given the name of the older one."""
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


def read(version: str) -> str:
    """Return the transcripts of a version."""
    if version not in NEWER:
        return (FOLDER / f"{version}.txt").read_text()
    lines = _base(version)
    shift = 0
    for line in (FOLDER / f"{version}.diff").read_text().split("\n"):
        if hunk := _HUNK.fullmatch(line):
            count = int(hunk[2] or 1)
            at = int(hunk[1]) + shift - (count > 0)
        elif line.startswith("-"):
            assert lines.pop(at) == line[1:]
            shift -= 1
        elif line.startswith("+"):
            lines.insert(at, line[1:])
            at, shift = at + 1, shift + 1
    return "\n".join(lines)


def write(version: str, text: str) -> None:
    """Keep the transcripts of a version. Those of the newer one must be written before."""
    if version not in NEWER:
        (FOLDER / f"{version}.txt").write_text(text)
        return
    found = difflib.unified_diff(_base(version), text.split("\n"), lineterm="", n=0)
    (FOLDER / f"{version}.diff").write_text("\n".join(list(found)[2:]) + "\n")


def _base(version: str) -> list[str]:
    newer = NEWER[version]
    return read(newer).replace(newer, version).split("\n")
