"""Servers from PyPI that need no key and no network, with a few calls to each.

They are installed by name and run as a user would start them; nothing of them is part of this project.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.matrix.recording import Call


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    calls: list[Call]
    others: tuple[str, ...] = ()
    """The version of the library, where the package accepts several, and what that needs."""
    arguments: tuple[str, ...] = ()
    command: str = ""
    """The console script, if it has not the name of the package."""
    environ: Mapping[str, str] = field(default_factory=dict)
    random: str = ""
    """A pattern for parts of results that differ from call to call."""

    @property
    def requirements(self) -> tuple[str, ...]:
        return (f"{self.name}=={self.version}", *self.others)


FOLDER = "{folder}"
"""In arguments: a folder with a text file, which is also a git repository."""
SITE = "{site}"
"""In arguments: the address of a web page on this machine."""
_NOW: dict[str, Any] = {"source_timezone": "Europe/Oslo", "time": "12:00", "target_timezone": "Asia/Tokyo"}
_THOUGHT = {"thought": "Begin.", "thought_number": 1, "total_thoughts": 2, "next_thought_needed": True}

PACKAGES = [
    # The official servers.
    Package(
        "mcp-server-time",
        "2026.10.19",
        [("convert_time", _NOW), ("get_current_time", {"timezone": "Nowhere"}), ("get_current_time", {})],
        arguments=("--local-timezone=UTC",),
    ),
    Package("mcp-server-fetch", "2026.10.24", [("fetch", {"url": SITE}), ("fetch", {"url": "none"})]),
    Package(
        "mcp-server-git",
        "2026.10.19",
        [
            ("git_status", {"repo_path": FOLDER}),
            ("git_log", {"repo_path": FOLDER, "max_count": 1}),
            ("git_status", {"repo_path": "/nonexistent"}),
        ],
        arguments=("--repository", FOLDER),
    ),
    # mcp 1.x, low-level servers.
    Package(
        "mcp-server-sqlite",
        "2025.4.25",
        [
            ("create_table", {"query": "CREATE TABLE t (a INTEGER)"}),
            ("write_query", {"query": "INSERT INTO t VALUES (5)"}),
            ("read_query", {"query": "SELECT * FROM t"}),
            ("read_query", {"query": "DROP TABLE t"}),
        ],
        ("mcp==1.6.0", "pydantic<2.12"),
        ("--db-path", f"{FOLDER}/test.db"),
    ),
    Package(
        "mcp-text-editor",
        "1.0.2",
        [("get_text_file_contents", {"files": [{"file_path": f"{FOLDER}/a.txt", "ranges": [{"start": 1}]}]})],
        ("mcp==1.9.4", "pydantic<2.12"),
    ),
    Package(
        "uuid-mcp",
        "0.1.0",
        [("generate_uuid", {})],
        ("mcp==1.12.4", "pydantic<2.14"),
        random=r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    ),
    Package(
        "mcp-units",
        "0.3.3",
        [
            ("convert_temperature", {"value": 100, "from_unit": "C", "to_unit": "F"}),
            ("convert_weight", {"value": 1, "from_unit": "stone", "to_unit": "kg"}),
        ],
        ("mcp==1.15.0", "pydantic<2.14"),
    ),
    Package(
        "mcp-shell-server",
        "1.1.14",
        [
            ("shell_execute", {"command": ["echo", "hello"], "directory": FOLDER}),
            ("shell_execute", {"command": ["rm", "x"], "directory": FOLDER}),
        ],
        ("mcp==1.30.0",),
        environ={"ALLOW_COMMANDS": "echo"},
    ),
    # mcp 1.x, FastMCP.
    Package("mcp-think-tool", "0.1.0", [("think", {"thought": "Begin."})], ("mcp==1.22.0",)),
    Package(
        "mcp-server-calculator",
        "0.2.1",
        [("calculate", {"expression": "2 * 21"}), ("calculate", {"expression": "1 / 0"})],
        ("mcp==1.30.0",),
    ),
    # mcp 2.x.
    Package(
        "excel-mcp-server",
        "2.2.2",
        [("create_workbook", {"path": f"{FOLDER}/a.xlsx"})],
        arguments=("stdio",),
    ),
    Package("duckduckgo-mcp-server", "0.7.0", [("expand_link", {"token": "none"})]),
    Package(
        "mcp-sequential-thinking",
        "0.7.0",
        [("process_thought", {**_THOUGHT, "stage": "Analysis"})],
        random=r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.+Z]+",
    ),
    Package("markitdown-mcp", "0.0.1a7", [("convert_to_markdown", {"uri": "data:text/plain,hello"})]),
    # fastmcp.
    Package(
        "calculator-mcp-server",
        "0.1.1",
        [("add", {"a": 1, "b": 2}), ("divide", {"a": 1, "b": 0})],
        ("fastmcp==2.12.5", "pydantic<2.14"),
    ),
    Package(
        "office-word-mcp-server",
        "1.1.11",
        [("create_document", {"filename": f"{FOLDER}/a.docx"}), ("get_document_text", {"filename": "none"})],
        ("fastmcp==2.14.7",),
        command="word_mcp_server",
    ),
    Package(
        "mcp-simple-timeserver",
        "3.3.2",
        [("calculate_time_distance", {"from_date": "2026-01-01", "to_date": "2026-01-31"})],
        ("fastmcp==3.4.10",),
    ),
    Package("mcp-sympy", "0.1.0", [("sympy_factor", {"expr": "x**2 - 1"})], ("fastmcp==4.1.2",)),
]
