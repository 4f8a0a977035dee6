"""C-18: the catalog is attached to the session that gets it."""

from __future__ import annotations

import json

import pytest

from tests.support.models.agent_tools import Bench, line_runner
from toolcrib.agents import AgentRunner, SessionCtx
from toolcrib.catalog.build import build_catalog

FIVE = ["version", "hash", "count", "promptList", "functionSchema"]


@pytest.mark.requirement("C-18")
async def test_a_runner_in_provider_mode_attaches_the_catalog_to_its_session() -> None:
    server = Bench().server
    async with AgentRunner(server, provider="gemini_cli") as runner:
        session = runner.session
        assert isinstance(session, SessionCtx)
        assert session.provider == "gemini_cli"
        assert session.toolCatalog is not None
        assert list(session.toolCatalog) == FIVE
        assert session.toolCatalog == build_catalog(server.registry)
        assert session.toolCatalog["count"] == len(session.toolCatalog["functionSchema"]) == 6
        assert "- add: Add two whole numbers." in session.toolCatalog["promptList"]
        first = session.toolCatalog["functionSchema"][0]
        assert list(first) == ["name", "description", "parameters"]


@pytest.mark.requirement("C-18")
async def test_the_provider_reads_the_catalog_it_is_handed() -> None:
    async with line_runner(Bench(), "recites") as runner:
        answer = await runner.ask("What can you do?")
    told = "\n".join(line.removeprefix("| ") for line in answer.splitlines())
    catalog = runner.session.toolCatalog
    assert catalog is not None
    assert catalog["promptList"] in told
    for item in catalog["functionSchema"]:
        assert f"{item['name']}: {json.dumps(item['parameters'], separators=(',', ':'))}" in told


@pytest.mark.requirement("C-18")
async def test_without_a_provider_there_is_nobody_to_hand_it_to() -> None:
    async with AgentRunner(Bench().server) as runner:
        assert runner.session.toolCatalog is None
