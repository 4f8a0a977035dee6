"""I6: what the server says to each revision stays what it was, byte for byte.

The transcripts are files beside the plays, those of older revisions as differences. After a change on
purpose, `TOOLCRIB_RECORD=1 pytest tests/wire/test_golden_transcripts.py` writes them again; the difference is
then to be read and reviewed.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.clients.transcripts import Stage
from tests.support.servers.feature_server import make_desk
from tests.wire.golden import kept
from tests.wire.golden.plays import VERSIONS, plays

RECORDS = bool(os.environ.get("TOOLCRIB_RECORD"))
KEY = b"the key of all recorded states ."
WORLDS = {"plain": {}, "changing": {"dynamic": True, "page_size": 2}, "paged": {"page_size": 12}}


@asynccontextmanager
async def stages() -> AsyncIterator[dict[str, Stage]]:
    """A server for each world."""
    servers = {name: make_desk(key=KEY, **options) for name, options in WORLDS.items()}
    for server in servers.values():
        await server.start()
    yield {name: Stage(server.transports.engine) for name, server in servers.items()}
    for server in servers.values():
        await server.stop()


async def play_all(version: str) -> str:
    scripts = []
    async with stages() as found:
        for way, play in plays(version):
            script = await found[play.world].play(play, version, way)
            scripts.append("\n".join([f"== {play.name}, over {way}", *script]))
    return "\n\n".join(scripts) + "\n"


@pytest.mark.parametrize("version", VERSIONS[::-1])  # older ones are differences from newer ones
async def test_every_transcript_is_what_it_was(version: str) -> None:
    played = await play_all(version)
    if RECORDS:
        kept.write(version, played)
    before = kept.read(version)
    if played != before:
        lines = difflib.unified_diff(
            before.split("\n"), played.split("\n"), "kept", "played", lineterm="", n=3
        )
        pytest.fail("\n".join(list(lines)[:200]), pytrace=False)


@pytest.mark.parametrize("version", VERSIONS)
def test_there_are_two_hundred_transcripts_of_each_version_and_each_has_a_name(version: str) -> None:
    names = [f"{play.name}, over {way}" for way, play in plays(version)]
    assert len(set(names)) == len(names), sorted({name for name in names if names.count(name) > 1})
    assert len(names) >= 200
