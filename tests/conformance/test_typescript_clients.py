"""Both generations of the official TypeScript client, over stdio and HTTP, in the eras that they support."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.conformance.server import HTTP_STACKS
from tests.conformance.story import STDIO_SERVER, story_of
from tests.support.servers.server_processes import ROOT, ServerProcess, child_environment
from tests.support.system.node import Node

RUN_S = 60.0
ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28"}


def told(node: Node, script: str, transport: str, era: str, *target: str) -> Any:
    """Return the report of a client about a server."""
    path = ROOT / "tests" / "conformance" / "clients" / script
    done = subprocess.run(
        [str(node.program), str(path), transport, era, *target],
        cwd=ROOT,
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=RUN_S,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def newer_story(revision: str) -> dict[str, Any]:
    """The second generation reports an unknown resource with the newer code in both eras."""
    return story_of(revision) | {"missing": -32602}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_the_second_generation_is_served_over_http(
    node: Node, servers: dict[str, ServerProcess], http_stack: str, era: str
) -> None:
    assert told(node, "client2.mjs", "http", era, servers[http_stack].url) == newer_story(ERAS[era])


@pytest.mark.parametrize("era", ERAS)
def test_the_second_generation_is_served_over_stdio(node: Node, era: str) -> None:
    assert told(node, "client2.mjs", "stdio", era, *STDIO_SERVER) == newer_story(ERAS[era])


def test_the_second_generation_may_insist_on_the_newest_revision(
    node: Node, servers: dict[str, ServerProcess]
) -> None:
    assert told(node, "client2.mjs", "http", "pinned", servers["own"].url) == story_of("2026-07-28")


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_the_first_generation_is_served_over_http(
    node: Node, servers: dict[str, ServerProcess], http_stack: str
) -> None:
    assert told(node, "sdk1.mjs", "http", "legacy", servers[http_stack].url) == story_of("2025-11-25")


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_the_first_generation_is_served_over_the_old_pair_of_http_and_sse(
    node: Node, servers: dict[str, ServerProcess], http_stack: str
) -> None:
    address = f"{servers[http_stack].origin}/sse"
    assert told(node, "sdk1.mjs", "sse", "legacy", address) == story_of("2025-11-25")


def test_the_first_generation_is_served_over_stdio(node: Node) -> None:
    assert told(node, "sdk1.mjs", "stdio", "legacy", *STDIO_SERVER) == story_of("2025-11-25")
