"""G-17: a file that changes reaches every connected client."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.servers.serve_process import Serving
from toolcrib.client import Client

TOOLS = 'from toolcrib import tool\n\n@tool\ndef say() -> str:\n    """Say."""\n    return "old"\n'
MORE = "\n\n@tool\ndef more() -> str:\n    return 'more'\n"


@pytest.mark.requirement("G-17")
@pytest.mark.parametrize("protocol", ["2026-07-28", "2025-11-25"])
async def test_a_file_that_changes_is_served_without_a_restart(tmp_path: Path, protocol: str) -> None:
    path = tmp_path / "tools.py"
    path.write_text(TOOLS)
    with await asyncio.to_thread(Serving, "tools.py", "--reload", cwd=tmp_path) as serving:
        async with Client(serving.address, protocol=protocol) as client, asyncio.timeout(60):
            heard = asyncio.Event()
            await client.on_tools_changed(heard.set)
            assert (await client.call("say")).text == "old"
            path.write_text(TOOLS.replace("old", "new") + MORE)
            await heard.wait()
            assert (await client.call("say")).text == "new"
            assert {found.name for found in await client.list_tools()} == {"say", "more"}
