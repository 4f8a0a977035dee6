"""Real MCP servers, fetched by name with the clients of their registries; nothing of them is kept.

A package from PyPI is unpacked and read, never run. One from npm is installed without its scripts into a
folder of the test and asked for its tools. Packages that are not available are left out.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

PYPI = [
    "mcp-server-git",
    "mcp-server-time",
    "mcp-server-fetch",
    "mcp-server-qdrant",
    "mcp-server-tree-sitter",
    "mcp-atlassian",
    "mcp-gitlab",
    "mcp-github",
    "mcp-google-sheets",
    "mcp-telegram",
    "mcp-hue",
    "mcp-hetzner",
    "mcp-jenkins",
    "chroma-mcp",
    "redis-mcp-server",
    "elasticsearch-mcp-server",
    "zotero-mcp-server",
    "wikipedia-mcp",
    "yfinance-mcp",
    "excel-mcp-server",
    "office-word-mcp-server",
    "workspace-mcp",
    "fred-mcp-server",
    "sec-edgar-mcp",
    "semantic-scholar-mcp",
    "unifi-network-mcp",
    "tmux-mcp",
    "docling-mcp",
    "awslabs.iam-mcp-server",
    "awslabs.eks-mcp-server",
    "awslabs.cloudwatch-mcp-server",
    "awslabs.elasticache-mcp-server",
    "awslabs.dynamodb-mcp-server",
    "awslabs.aws-documentation-mcp-server",
]
NPM = {
    "@modelcontextprotocol/server-filesystem": ["mcp-server-filesystem", "."],
    "@modelcontextprotocol/server-everything": ["mcp-server-everything"],
    "@modelcontextprotocol/server-memory": ["mcp-server-memory"],
    "@modelcontextprotocol/server-sequential-thinking": ["mcp-server-sequential-thinking"],
    "@upstash/context7-mcp": ["context7-mcp"],
    "@notionhq/notion-mcp-server": ["notion-mcp-server"],
    "@antv/mcp-server-chart": ["mcp-server-chart"],
    "chrome-devtools-mcp": ["chrome-devtools-mcp"],
}
"""Package to the command that it installs; those that start without credentials."""


def fetch_wheels(folder: Path) -> list[Path]:
    """The newest wheel of each package that PyPI has."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: _download(name, folder), PYPI))
    wheels = sorted(folder.glob("*.whl"))
    if not wheels:
        pytest.skip("PyPI cannot be reached")
    return wheels


def _download(name: str, folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--quiet",
        "--only-binary",
        ":all:",
        name,
    ]
    try:
        subprocess.run([*command, "-d", str(folder)], capture_output=True, timeout=180, check=False)
    except subprocess.TimeoutExpired:
        pass  # one that takes that long is as good as none


def unpack(wheel: Path, folder: Path) -> Path:
    """Return the source in a wheel, without its tests."""
    place = folder / wheel.name.partition("-")[0]
    with zipfile.ZipFile(wheel) as archive:
        names = [
            name for name in archive.namelist() if name.endswith(".py") and "test" not in name.split("/")
        ]
        archive.extractall(place, [name for name in names if "/tests/" not in f"/{name}"])
    return place


def ask_npm_servers(folder: Path) -> dict[str, dict[str, Any]]:
    """What `toolcrib check` says of each npm server that could be installed and started."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm")
    found = {}
    for package, command in NPM.items():
        answer = _ask(npm, package, command, folder)
        if answer is not None:
            found[package] = answer
    if not found:
        pytest.skip("the npm registry cannot be reached")
    return found


def _ask(npm: str, package: str, command: list[str], folder: Path) -> dict[str, Any] | None:
    install = [npm, "install", "--silent", "--no-fund", "--no-audit", "--ignore-scripts", package]
    started = f"node_modules/.bin/{command[0]} {' '.join(command[1:])}".strip()
    check = [sys.executable, "-m", "toolcrib", "check", "--json", "--command", started]
    try:
        if subprocess.run(install, cwd=folder, capture_output=True, timeout=300, check=False).returncode != 0:
            return None
        done = subprocess.run(check, cwd=folder, capture_output=True, text=True, timeout=90, check=False)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode not in (0, 1):
        return None
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
