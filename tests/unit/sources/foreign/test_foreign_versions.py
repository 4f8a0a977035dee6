"""Versions of other libraries that are too old to be served, or newer than those that are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastmcp import FastMCP
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer as OfficialServer

from toolcrib.errors import SourceError
from toolcrib.sources import collect


def install(library: str, version: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the metadata of another version in front of the installed one."""
    place = folder / f"{library}-{version}.dist-info"
    place.mkdir()
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {library}\nVersion: {version}\n")
    monkeypatch.syspath_prepend(str(folder))


@pytest.mark.parametrize(
    ("server", "library", "version", "supported"),
    [
        (OfficialServer("old"), "mcp", "1.5.0", "mcp 1.6 to 2.x"),
        (Server("old"), "mcp", "1.2.1", "mcp 1.6 to 2.x"),
        (FastMCP("old"), "fastmcp", "2.11.3", "fastmcp 2.12 to 4.x"),
        (FastMCP("old"), "fastmcp", "1.0", "fastmcp 2.12 to 4.x"),
    ],
)
def test_a_version_that_is_too_old_is_refused_by_name(
    server: Any,
    library: str,
    version: str,
    supported: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(library, version, tmp_path, monkeypatch)
    with pytest.raises(SourceError, match=f"{library} {version} is not supported: .*{supported}") as caught:
        collect(server)
    assert caught.value.finding.hint == f"upgrade it: pip install -U {library}"


@pytest.mark.parametrize(("library", "version"), [("mcp", "3.0.0"), ("fastmcp", "5.0.0b1")])
def test_a_major_version_that_is_not_known_is_served_with_a_warning(
    library: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(library, version, tmp_path, monkeypatch)
    server: Any = OfficialServer("new") if library == "mcp" else FastMCP("new")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    batch = collect(server)
    assert [tool.name for tool in batch.tools] == ["add"]
    found = next(finding for finding in batch.findings if finding.code == "foreign-version")
    assert found.level == "warning"
    assert f"{library} {version} is newer" in found.message


def test_the_installed_versions_are_served_without_a_warning() -> None:
    for server in (OfficialServer("x"), FastMCP("y")):
        assert "foreign-version" not in [finding.code for finding in collect(server).findings]
