"""Resources and prompts of real servers: the official SDK and fastmcp, over HTTP and stdio, in both eras."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.servers.sdk_servers import ENVIRONMENT, forked_command_of
from toolcrib.client import Client, PromptArgument, StdioTransport
from toolcrib.context import Answer, Elicitation, URLElicitation
from toolcrib.errors import RemoteError

pytest.importorskip("mcp", reason="the peers are not installed")

ERAS = {"2026-07-28": "auto", "2025-11-25": "2025-11-25", "2025-06-18": "2025-06-18"}
CASES = [(peer, era) for peer in ("mcp", "fastmcp") for era in ERAS]


async def say_ada(question: Elicitation | URLElicitation) -> Answer:
    return Answer("accept", {"name": "Ada"})


@pytest.fixture
def client(request: pytest.FixtureRequest, address_of: Callable[..., str]) -> Client:
    peer, era = request.param
    return Client(address_of(f"{peer}_library"), protocol=ERAS[era], timeout_s=30, on_ask=say_ada)


def for_each(*cases: tuple[str, str]) -> Any:
    return pytest.mark.parametrize("client", cases, ids=["-".join(case) for case in cases], indirect=True)


async def list_and_read(client: Client) -> None:
    resources = {resource.uri: resource for resource in await client.list_resources()}
    note = resources["note://static"]
    assert (note.name, note.title, note.mime_type) == ("static", "A note", "text/plain")
    assert note.description == "A note that never changes."
    assert note.wire["uri"] == "note://static"
    (text,) = await client.read("note://static")
    assert (text.uri, text.mime_type, text.text, text.data) == ("note://static", "text/plain", "żółw", None)
    (picture,) = await client.read("note://picture")
    assert (picture.mime_type, picture.text, picture.data) == ("image/png", None, b"\x89PNG\x00\xff")
    templates = {template.uri_template: template for template in await client.list_resource_templates()}
    assert templates["note://item/{name}"].name == "item"
    (item,) = await client.read("note://item/Ada%20L")
    assert (item.uri, item.text) == ("note://item/Ada%20L", "the note of Ada L")
    with pytest.raises(RemoteError) as caught:
        await client.read("note://nope")
    assert caught.value.data == {"uri": "note://nope"}


async def prompt_and_complete(client: Client) -> None:
    prompts = {prompt.name: prompt for prompt in await client.list_prompts()}
    greet = prompts["greet"]
    assert (greet.title, greet.description) == ("Greeting", "Greet somebody.")
    assert [(argument.name, argument.required) for argument in greet.arguments] == [
        ("name", True),
        ("times", False),
    ]
    assert isinstance(greet.arguments[0], PromptArgument)
    found = await client.get_prompt("greet", {"name": "Bob", "times": 2})
    assert found.description == "Greet somebody."
    assert [(message.role, message.text) for message in found.messages] == [("user", "Greet Bob. Greet Bob.")]
    with pytest.raises(RemoteError, match=r"nope|Internal server error"):
        await client.get_prompt("nope")
    assert (await client.complete(greet, "name", "A")).values == ["Ada", "Alan"]
    assert (await client.complete("note://item/{name}", "name", "Gr")).values == ["Grace"]


@for_each(*CASES)
async def test_resources_are_listed_and_read(client: Client) -> None:
    async with client:
        await list_and_read(client)


@for_each(*CASES)
async def test_prompts_are_listed_got_and_completed(client: Client) -> None:
    async with client:
        await prompt_and_complete(client)


@for_each(*(case for case in CASES if case[0] == "fastmcp"))
async def test_all_pages_are_listed(client: Client) -> None:
    async with client:
        uris = [resource.uri for resource in await client.list_resources()]
        assert {"note://static", "note://picture", "note://third"} <= set(uris)
        assert [prompt.name for prompt in await client.list_prompts()] == ["greet", "second", "last"]
        assert await client.subscribe("note://static", print) is False


@for_each(("fastmcp", "2026-07-28"))
async def test_skills_are_listed_got_and_read(client: Client) -> None:
    async with client:
        (skill,) = await client.list_skills()
        assert (skill.name, skill.description) == ("tea-making", "Make a pot of tea")
        assert await client.get_skill(skill.uri) == skill
        assert "Boil water" in ((await client.read_skill(skill)).text or "")
        leaves = await client.read_skill(skill, "references/LEAVES.md")
        assert leaves.text == "Green, black and żółta.\n"
        with pytest.raises(RemoteError):
            await client.get_skill("skill://coffee/SKILL.md")


@for_each(*(case for case in CASES if case[0] == "mcp"))
async def test_a_read_and_a_prompt_may_ask(client: Client) -> None:
    async with client:
        assert (await client.read("secret://tea"))[0].text == "tea for Ada"
        assert (await client.get_prompt("interview")).messages[0].text == "Hello, Ada"


@for_each(("mcp", "2026-07-28"), ("mcp", "2025-11-25"))
async def test_context_and_counts_of_completions_are_carried(client: Client) -> None:
    async with client:
        some = await client.complete("greet", "name", "")
        assert (some.values, some.total, some.has_more) == (["Ada", "Alan"], 3, True)
        assert (await client.complete("greet", "name", "", {"initial": "G"})).values == ["Grace"]


async def hear_an_update(client: Client) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    assert await client.subscribe("note://static", heard.put_nowait) is True
    assert await client.subscribe("note://picture", heard.put) is True
    for uri in ("note://static", "note://picture"):
        await client.call("touch", {"uri": uri})
        assert await asyncio.wait_for(heard.get(), 10) == uri
    await client.unsubscribe("note://static")
    for uri in ("note://static", "note://picture"):
        await client.call("touch", {"uri": uri})
    assert await asyncio.wait_for(heard.get(), 10) == "note://picture"
    assert heard.empty()
    await client.unsubscribe("note://picture")


@for_each(*(case for case in CASES if case[0] == "mcp"))
async def test_updates_of_a_resource_are_heard_until_unsubscribed(client: Client) -> None:
    async with client:
        await hear_an_update(client)


@for_each(("mcp", "2026-07-28"))
async def test_new_resources_and_prompts_are_heard_of(client: Client) -> None:
    resources, prompts = asyncio.Event(), asyncio.Event()
    async with client:
        assert await client.on_resources_changed(resources.set)
        assert await client.on_prompts_changed(prompts.set)
        await client.call("grow", {"name": "fresh"})
        async with asyncio.timeout(10):
            await asyncio.gather(resources.wait(), prompts.wait())
        assert "note://fresh" in [resource.uri for resource in await client.list_resources()]
        assert "fresh" in [prompt.name for prompt in await client.list_prompts()]


@pytest.mark.parametrize(
    "era", ["2026-07-28", *(pytest.param(era, marks=pytest.mark.long) for era in list(ERAS)[1:])]
)
@pytest.mark.parametrize("peer", ["mcp", "fastmcp"])
async def test_one_process_does_all_of_it_over_stdio(peer: str, era: str) -> None:
    link = StdioTransport(forked_command_of(f"{peer}_library", "stdio"), env=ENVIRONMENT)
    async with Client(link, protocol=ERAS[era], timeout_s=30, on_ask=say_ada) as client:
        await list_and_read(client)
        await prompt_and_complete(client)
        if peer == "mcp":
            await hear_an_update(client)
