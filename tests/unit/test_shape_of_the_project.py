"""What keeps the project in shape: file sizes, what an import costs, the public names."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import toolcrib

ROOT = Path(__file__).resolve().parents[2]
HEAVY = (
    "msgspec",
    "pydantic",
    "jsonschema_rs",
    "httpx2",
    "click",
    "sqlite3",
    "multiprocessing",
    "unittest",
)


def test_no_source_file_has_more_than_900_lines() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for folder in ("src", "tests", "bench")
        for path in (ROOT / folder).rglob("*.py")
        if (count := len(path.read_text(errors="replace").splitlines())) > 900
    }
    assert not long


def test_commands_print_through_the_terminal_which_escapes() -> None:
    """Only `Terminal` writes to a stream, and only `style`, `join` and the table vouch for a text."""
    folder = ROOT / "src/toolcrib/cli"
    writing = re.compile(r"\b(?:out|err|stdout|stderr)\.write\(|\bprint\(|click\.(?:echo|secho|style)\(")
    allowed = {
        writing: {"output.py", "text.py"},
        re.compile(r"\bStyled\("): {"text.py", "table.py"},
    }
    found = {
        path.name
        for path in folder.glob("*.py")
        for pattern, names in allowed.items()
        if path.name not in names and pattern.search(path.read_text())
    }
    assert not found


def test_importing_toolcrib_loads_none_of_the_heavy_engines() -> None:
    script = f"import sys, toolcrib; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_toolcrib_configures_no_logging_and_prints_nothing() -> None:
    script = "import logging, toolcrib; print(logging.root.handlers, logging.getLogger('toolcrib').handlers)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[] []", "")


def test_the_public_names_are_sorted_and_complete() -> None:
    assert toolcrib.__all__ == sorted(toolcrib.__all__)
    assert len(toolcrib.__all__) == len(set(toolcrib.__all__))
    visible = {
        name
        for name in dir(toolcrib)  # some are loaded when they are first used
        if not name.startswith("_")
        and getattr(getattr(toolcrib, name), "__module__", "").startswith("toolcrib.")
    }
    assert visible == set(toolcrib.__all__)


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "src").rglob("*.py")
        if path.read_text().strip() and not path.read_text().lstrip("r").startswith('"""')
    ]
    assert not silent
