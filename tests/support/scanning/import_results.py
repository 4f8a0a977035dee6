"""The tools that importing registers, for many targets in one child process, and those that a scan finds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.scanning import import_targets as importing
from tests.support.system import fork_server
from toolcrib.sources.scan import Scan

SCANNED = Path(__file__).parents[2] / "fixtures" / "scanned"
DOUBTS = ("guessed-", "unresolved-")


def import_targets(targets: Sequence[str | Path]) -> dict[str, Any]:
    """Return the `tools` and `findings` of each target by name, as `import_targets.py` prints them."""
    given = json.dumps([str(target) for target in targets])
    done = fork_server.run(str(importing.__file__), input=given, text=True, libraries=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def describe_scan(scan: Scan) -> dict[str, Any]:
    """Return the tools of a scan in the format of `import_targets.py`."""
    found: dict[str, Any] = {}
    for tool in [*scan.tools, *scan.unlisted]:
        described = {**importing.describe(tool), "enabled": tool.options.enabled}
        # Of equal names on several servers, importing registers the first.
        found.setdefault(f"{tool.name}@{tool.version or ''}", json.loads(json.dumps(described, default=str)))
    return found


def doubted_tools(scan: Scan) -> set[str]:
    """Return the tools that the scan was uncertain about."""
    return {
        finding.tool.casefold()
        for finding in scan.findings
        if finding.tool and finding.code.startswith(DOUBTS)
    }


def headers(path: Path) -> dict[str, list[str]]:
    """Return the settings in the first lines of a fixture: `# doubts: a, b`, `# imports: no`."""
    file = path if path.is_file() else None
    said: dict[str, list[str]] = {}
    for line in file.read_text().splitlines()[:5] if file is not None else ():
        if line.startswith("# ") and ": " in line:
            key, _, values = line[2:].partition(": ")
            said[key] = [value.strip() for value in values.split(",")]
    return said


def fixtures() -> list[Path]:
    """Return every fixture: files of each kind, and packages."""
    files = [path for path in SCANNED.glob("*/*.py") if path.parent.name != "packages"]
    packages = [path for path in (SCANNED / "packages").iterdir() if path.name != "__pycache__"]
    return sorted([*files, *packages])
