"""What keeps the project in shape: file sizes, what an import costs, the public names."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


PUBLIC = """
    APIApplication APIError Application Audio CallError Context DefinitionError File Finding Image
    InvalidArgumentsError Link MCPServer MCPTool Principal Report Result Tool ToolAlreadyExistsError
    ToolDefinition ToolError ToolNotFoundError ToolOptions ToolRegistry ToolcribError build_catalog collect
    get_catalog_cached tool validate_tool_definition validate_tool_schema
"""


def test_the_public_names_stay() -> None:
    assert toolcrib.__all__ == PUBLIC.split()
    assert all(getattr(toolcrib, name) is not None for name in toolcrib.__all__)


MOVED = {  # paths of earlier releases: what they must still have
    "toolcrib.adapters": ("mcp_sdk",),
    "toolcrib.adapters.official": ("attach",),
    "toolcrib.question": ("Answer", "Completion", "Folder", "Form", "Prompt", "Question", "Visit"),
    "toolcrib.sources.static": ("scan",),
}


def test_every_moved_module_is_tried() -> None:
    assert MOVED.keys() == toolcrib._MOVED.keys()


@pytest.mark.parametrize("path", MOVED)
def test_a_moved_module_can_be_imported_under_its_old_path(path: str) -> None:
    """In a process of its own, before and after its new path."""
    new = toolcrib._MOVED[path]
    script = f"""if True:
        import importlib
        old = importlib.import_module({path!r})
        new = importlib.import_module({new!r})
        assert old is new and new.__spec__.name == {new!r}
        from {path} import {", ".join(MOVED[path])}
        from {new} import {", ".join(MOVED[path])}
    """
    subprocess.run([sys.executable, "-c", script], check=True)


DOCUMENTED = {  # import paths that pages in docs/ name
    "toolcrib.agents": "AgentRunner Failure Final Limits SessionCtx Token ToolCall ToolResult providers",
    "toolcrib.catalog.build": "build_catalog catalog_findings",
    "toolcrib.catalog.export": "export",
    "toolcrib.catalog.lint": "Choice inspect_tools",
    "toolcrib.catalog.lock": "Lock",
    "toolcrib.catalog.search": "SearchIndex",
    "toolcrib.catalog.tokens": "cost_of estimate",
    "toolcrib.client": "Client",
    "toolcrib.errors": "ConfigurationError",
    "toolcrib.logs": "configure",
    "toolcrib.policy": "Audit Auth Limit OAuth Policy Rule Telemetry",
    "toolcrib.schema.docstrings": "parse_docstring",
    "toolcrib.sources.descriptors": "read_descriptors write_descriptor",
    "toolcrib.sources.scan": "scan",
    "toolcrib.transports.mcp_sdk": "attach",
}


@pytest.mark.parametrize("path", DOCUMENTED)
def test_documented_import_paths_stay(path: str) -> None:
    module = importlib.import_module(path)
    assert [name for name in DOCUMENTED[path].split() if not hasattr(module, name)] == []


def test_every_import_in_the_docs_works() -> None:
    text = "".join(page.read_text() for page in [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"])
    named = re.findall(r"^from (toolcrib[\w.]*) import ([\w, ]+)$", text, re.MULTILINE)
    missing = {
        f"{path}.{name}"
        for path, names in named
        for name in (each.split(" as ")[0].strip() for each in names.split(","))
        if not hasattr(importlib.import_module(path), name)
    }
    assert named
    assert not missing


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "src").rglob("*.py")
        if path.read_text().strip() and not path.read_text().lstrip("r").startswith('"""')
    ]
    assert not silent
