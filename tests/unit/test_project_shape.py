"""Limits that keep the project easy to find one's way in: size, layers, imports, names and plain English."""

from __future__ import annotations

import ast
import configparser
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "toolcrib"
HEAVY = (
    "msgspec",
    "pydantic",
    "jsonschema_rs",
    "httpx2",
    "click",
    "sqlite3",
    "multiprocessing",
    "tomlkit",
    "unittest",
)

MAX_ROOT_ENTRIES = 32
MAX_FILES = 252
MAX_LINES = 71_700
MAX_TEST_LINES = 122_600
"""Ceilings that only go down (docs/decisions/shape.md)."""
MAX_SCAN_LINES = 3_680
"""The limit of the static scan (docs/decisions/scan-and-other-libraries.md)."""
MAX_FILE_LINES = 900
MAX_DECISIONS = 12
MAX_PAGES = 60
MAX_CHANGELOG_LINES = 60
MAX_LAYERS = 14
SMALL_MODULE = 80
MAX_SMALL_MODULES = 12

BANNED = (
    r"refuses? to know",
    r"\bwhoever\b",
    r"what became of",
    r"nobody (?:looks|waits|knows|listens)",
    r"\bmay not be used by you\b",
    r"is no address of this machine",
    r"says not where",
    r"must be a text\b",
    r"has no place beside",
    r"does not go by that name",
    r"write down what",
    r"\bMay they\b",
    r"what it takes to",
    r"Knows [^.\n]*; refuses",
    r"with a stranger's",
    r"in good order",
    r"\bsay(?:s|ing)? not\b",
    r"\bwants? to be told\b",
    r"\bsomebody at the door\b",
)
"""Phrases of the private language this project once had, as regular expressions."""

LOCKS = ("run.lock", "dev.lock", "bench.lock")


@cache
def source_files() -> dict[str, Path]:
    """Return every module of the package by its dotted name."""
    files = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports() -> dict[str, set[str]]:
    """Return the modules of the package that each module imports, except for type checking alone."""
    modules = source_files()
    return {name: set(_imported(parsed(path), modules)) - {name} for name, path in modules.items()}


def _imported(node: ast.AST, modules: dict[str, Path]) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue
        if isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom) and (child.module or "").partition(".")[0] == "toolcrib":
            for alias in child.names:
                name = f"{child.module}.{alias.name}"
                yield name if name in modules else str(child.module)
        yield from _imported(child, modules)


def test_the_package_root_has_at_most_32_entries() -> None:
    entries = sorted(path.name for path in PACKAGE.iterdir() if path.name != "__pycache__")
    assert len(entries) <= MAX_ROOT_ENTRIES, entries


def test_the_source_stays_within_its_size() -> None:
    lines = {name: len(path.read_text().splitlines()) for name, path in source_files().items()}
    assert len(lines) <= MAX_FILES, f"{len(lines)} files"
    assert sum(lines.values()) <= MAX_LINES, f"{sum(lines.values())} lines"
    assert {name: count for name, count in lines.items() if count > MAX_FILE_LINES} == {}


def test_the_tests_stay_within_their_size() -> None:
    counts = [
        len(path.read_text(errors="replace").splitlines())
        for path in (ROOT / "tests").rglob("*.py")
        if "node_modules" not in path.parts
    ]
    assert sum(counts) <= MAX_TEST_LINES, f"{sum(counts)} lines of tests"


def test_the_documentation_stays_within_its_size() -> None:
    decisions = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("*.md"))
    assert len(decisions) <= MAX_DECISIONS, decisions
    menu = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    assert len(re.findall(r"\.md$", menu, re.MULTILINE)) <= MAX_PAGES
    assert len((ROOT / "CHANGELOG.md").read_text().splitlines()) <= MAX_CHANGELOG_LINES


def test_the_static_scan_stays_within_its_size() -> None:
    folder = PACKAGE / "sources" / "scan"
    assert sum(len(path.read_text().splitlines()) for path in folder.rglob("*.py")) <= MAX_SCAN_LINES


def test_no_test_or_bench_file_has_more_than_900_lines() -> None:
    counts = {
        str(path.relative_to(ROOT)): len(path.read_text(errors="replace").splitlines())
        for folder in ("tests", "bench")
        for path in (ROOT / folder).rglob("*.py")
        if "node_modules" not in path.parts
    }
    assert {name: count for name, count in counts.items() if count > MAX_FILE_LINES} == {}


def test_no_two_test_files_share_a_name() -> None:
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py") if "node_modules" not in path.parts]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_there_are_at_most_14_layers() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    layers = contracts["importlinter:contract:layers"]["layers"].strip().splitlines()
    assert len(layers) <= MAX_LAYERS


def test_no_modules_import_each_other() -> None:
    graph = {name: found - {"toolcrib"} for name, found in imports().items()}
    assert _find_cycle(graph) == []


def _find_cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules of one import cycle, or nothing."""
    done: set[str] = set()
    for start in graph:
        path: list[str] = []
        pending = [(start, iter(sorted(graph.get(start, ()))))]
        while pending:
            name, following = pending[-1]
            if not path or path[-1] != name:
                path.append(name)
            step = next((each for each in following if each not in done), None)
            if step is None:
                done.add(name)
                path.pop()
                pending.pop()
            elif step in path:
                return path[path.index(step) :]
            else:
                pending.append((step, iter(sorted(graph.get(step, ())))))
    return []


def test_few_small_modules_serve_a_single_other_one() -> None:
    importers: dict[str, set[str]] = {}
    for name, found in imports().items():
        for each in found:
            importers.setdefault(each, set()).add(name)
    small = [
        name
        for name, path in source_files().items()
        if path.name != "__init__.py"
        and len(path.read_text().splitlines()) < SMALL_MODULE
        and len(importers.get(name, ())) == 1
    ]
    assert len(small) <= MAX_SMALL_MODULES, sorted(small)


def test_no_text_uses_a_banned_phrase() -> None:
    pattern = re.compile("|".join(BANNED).lower())
    texts = [
        *PACKAGE.rglob("*.py"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
    ]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts
        if pattern.search(path.read_text().lower())
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line.lower())
    ]
    assert not found, "\n".join(found)


def test_every_module_has_a_docstring_that_names_its_subject() -> None:
    opening = re.compile(r"(?:What|Who|Whoever|Whether|How|Where|When) ")
    missing = []
    for name, path in source_files().items():
        docstring = ast.get_docstring(parsed(path))
        if path.read_text().strip() and (not docstring or opening.match(docstring)):
            missing.append(name)
    assert not missing


def test_commands_print_through_the_terminal_which_escapes() -> None:
    """Only `Terminal` writes to a stream, and only `style`, `join` and the table vouch for a text."""
    writing = re.compile(r"\b(?:out|err|stdout|stderr)\.write\(|\bprint\(|click\.(?:echo|secho|style)\(")
    allowed = {
        writing: {"output.py", "text.py"},
        re.compile(r"\bStyled\("): {"text.py", "table.py"},
    }
    found = {
        path.name
        for path in (PACKAGE / "cli").rglob("*.py")
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


def test_the_lock_files_agree_on_the_packages_that_toolcrib_needs() -> None:
    folder = PACKAGE.parents[1] / "requirements"
    pins = {
        name: set(re.findall(r"^[\w.-]+==[^ ]+", (folder / name).read_text(), re.MULTILINE)) for name in LOCKS
    }
    assert pins["run.lock"] <= pins["dev.lock"]
    assert pins["run.lock"] <= pins["bench.lock"]
