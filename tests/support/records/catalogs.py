"""Shared parts of the catalog cache tests: an adapter, and a mark that shows what came from the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolcrib.catalog.build import load, store

ADAPTER = '''\
from mcp.server.fastmcp import FastMCP
from models import Colour

mcp = FastMCP("bridge")


@mcp.tool()
def paint(colour: Colour, coats: int = 1) -> str:
    """Paint the wall.

    Ejemplo: paint("red")
    """
    return "done"
'''
MODELS = """\
from typing import Literal

Colour = Literal["red", "blue"]
"""
MARK = "- marked: this came from the cache"


def mark(path: Path) -> dict[str, Any]:
    """Change the text in a cache file but not its inputs, so that a test can tell that the file was used."""
    record = load(path)
    assert record is not None
    catalog, facts = record
    facts.pop("checksum")
    store(path, {**catalog, "promptList": MARK}, facts)
    return {**catalog, "promptList": MARK}
