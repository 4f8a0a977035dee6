"""G-17: a file that changes reaches every connected client."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.reload_folder import Workshop
from tests.support.source_folders import forgotten_imports


async def test_g_17_a_file_that_changes_is_served_without_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "crib_tools.py"
    path.write_text(
        'from toolcrib import tool\n\n@tool\ndef say() -> str:\n    """Say."""\n    return "old"\n'
    )
    with forgotten_imports():
        shop = Workshop(tmp_path)
        async with shop.server.connect() as client, shop.reloader:
            heard = asyncio.Event()
            await client.on_tools_changed(heard.set)
            assert (await client.call("say")).text == "old"
            path.write_text(
                path.read_text().replace("old", "new") + "\n\n@tool\ndef more() -> str:\n    return 'more'\n"
            )
            async with asyncio.timeout(20):
                await heard.wait()
            assert (await client.call("say")).text == "new"
            assert {found.name for found in await client.list_tools()} == {"say", "more"}
