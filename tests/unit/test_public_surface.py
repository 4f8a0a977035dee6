"""The public surface: names, and the import paths that the documentation names."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import toolcrib

ROOT = Path(__file__).resolve().parents[2]


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
    APIApplication APIError Application Audio CallError Context DefinitionError Depends File Finding Image
    InvalidArgumentsError Link MCPServer MCPTool Message Principal Report Result Tool ToolAlreadyExistsError
    ToolDefinition ToolError ToolNotFoundError ToolOptions ToolRegistry ToolcribError build_catalog collect
    get_catalog_cached tool validate_tool_definition validate_tool_schema
"""


def test_the_public_names_stay() -> None:
    assert toolcrib.__all__ == PUBLIC.split()
    assert all(getattr(toolcrib, name) is not None for name in toolcrib.__all__)


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
    "toolcrib.server": "MCPServer ServerSettings",
    "toolcrib.sources.descriptors": "read_descriptors",
    "toolcrib.sources.scan": "scan",
    "toolcrib.testing": "CANCEL DECLINE FuzzReport SyncClient assert_definitions client connect fixture fuzz",
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
