"""Reload: resources and prompts are replaced together with the tools, or not at all."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.reload_folder import Workshop, complaints, until, workshop
from tests.support.source_folders import write

SHOP = """
from toolcrib import MCPServer

server = MCPServer("shop")

@server.tool
def say() -> str:
    \"\"\"Say something.\"\"\"
    return "one"

@server.resource("orders://{number}", mime_type="text/plain")
def order(number: str) -> str:
    \"\"\"One order.\"\"\"
    return f"order {number}"

server.add_resource("shop://terms", "Pay soon.")

@server.prompt
def thank(who: str) -> str:
    \"\"\"Thank somebody.\"\"\"
    return f"Thank {who}."

@thank.complete("who")
def complete_who(value: str) -> list[str]:
    return ["ana", "bo"]
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    (tmp_path / "crib_tools.py").write_text(SHOP)
    with workshop(tmp_path) as made:
        yield made


async def read(shop: Workshop, uri: str) -> str:
    return str((await shop.server.read(uri))[0]["text"])


async def thank(shop: Workshop) -> str:
    return str((await shop.server.get_prompt("thank", {"who": "ana"}))[0]["content"]["text"])


async def change(shop: Workshop, *pairs: tuple[str, str]) -> bool:
    text = SHOP
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    shop.write(crib_tools=text)
    return await shop.reloader.check_now()


def changed(shop: Workshop) -> list[tuple[str, tuple[str, ...]]]:
    return [(item.kind, item.names) for item in shop.changes]


async def test_changed_resources_and_prompts_are_used(shop: Workshop) -> None:
    assert await read(shop, "orders://7") == "order 7"
    assert await thank(shop) == "Thank ana."
    new = [("order {number}", "No. {number}"), ("Pay soon.", "Pay now."), ("Thank {who}", "Praise {who}")]
    assert await change(shop, *new)
    assert (await read(shop, "orders://7"), await read(shop, "shop://terms")) == ("No. 7", "Pay now.")
    assert await thank(shop) == "Praise ana."
    assert changed(shop) == [
        ("replaced", ("orders://{number}", "shop://terms")),
        ("replaced", ("thank",)),
    ]


async def test_what_stays_the_same_is_announced_to_nobody(shop: Workshop) -> None:
    assert await change(shop, ("from toolcrib", "# a comment\nfrom toolcrib"))
    assert shop.changes == []


async def test_another_type_of_a_resource_is_a_change(shop: Workshop) -> None:
    assert await change(shop, ("text/plain", "text/markdown"))
    assert changed(shop) == [("replaced", ("orders://{number}",))]


async def test_completion_survives_a_reload(shop: Workshop) -> None:
    assert await change(shop, ("Thank {who}", "Praise {who}"), ('["ana", "bo"]', '["cy"]'))
    async with shop.server.connect() as client:
        ref = {"type": "ref/prompt", "name": "thank"}
        params = {"ref": ref, "argument": {"name": "who", "value": ""}}
        answer: Any = await client._request("completion/complete", params)
    assert answer["completion"]["values"] == ["cy"]


async def test_removed_and_added_ones_go_and_come(shop: Workshop) -> None:
    added = '\n@server.prompt\ndef greet() -> str:\n    """Greet."""\n    return \'Hi\'\n'
    assert await change(shop, ('server.add_resource("shop://terms", "Pay soon.")\n', added))
    assert [tool.name for tool in shop.server.resources] == ["orders://{number}"]
    assert [tool.name for tool in shop.server.prompts] == ["thank", "greet"]
    assert changed(shop) == [("removed", ("shop://terms",)), ("added", ("greet",))]


async def test_where_one_kind_cannot_be_replaced_none_is(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    async def other(who: str) -> str:
        return who

    shop.server.prompt("other")(other)  # the running server has added it itself
    shop.changes.clear()
    new = ('return "one"', 'return "two"'), ("@server.prompt", '@server.prompt("other")')
    assert not await change(shop, *new)
    assert await shop.say() == "one"
    assert shop.changes == []
    assert "'other'" in complaints(caplog.records)[0]


async def test_the_log_counts_every_kind(shop: Workshop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "toolcrib")
    assert await change(shop, ("Pay soon.", "Pay now."))
    words = "Reloaded 1 tool, 1 resource, 1 template and 1 prompt, changed: shop://terms"
    assert complaints(caplog.records, logging.INFO) == [words]


async def test_old_code_of_resources_is_forgotten(shop: Workshop) -> None:
    await read(shop, "orders://7")
    assert await change(shop, ("order {number}", "No. {number}"))
    await shop.server.dispatcher.renew()
    assert shop.server.dispatcher._plan_of == {}


# --- folders of skills and of resources ---------------------------------------------------------------

FOLDERS = """
from pathlib import Path
from toolcrib import MCPServer

server = MCPServer("shop")
server.add_skills(Path(__file__).parent / "skills")
server.add_resource("docs://", Path(__file__).parent / "docs")
server.add_resource("shop://terms", Path(__file__).parent / "docs" / "a.md")
"""
SKILL = "---\nname: {}\ndescription: Make tea.\n---\n{}\n"


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Workshop]:
    write(tmp_path, {"skills/tea/SKILL.md": SKILL.format("tea", "Boil."), "skills/tea/notes/a.txt": "hot"})
    write(tmp_path, {"docs/a.md": "first", "crib_tools.py": FOLDERS})
    with workshop(tmp_path) as made:
        yield made


async def digests(shop: Workshop) -> dict[str, str]:
    async with shop.server.connect() as client:
        listed: Any = await client._request("skills/list", {})
    return {file["uri"]: file["digest"] for skill in listed["skills"] for file in skill["resources"]}


async def test_a_file_of_a_skill_that_changes_is_read_again(folders: Workshop) -> None:
    before = await digests(folders)
    for path, text in (("SKILL.md", SKILL.format("tea", "Steep.")), ("notes/a.txt", "not")):
        write(folders.folder, {f"skills/tea/{path}": text})
        assert await folders.reloader.check_now()
        assert text == await read(folders, f"skill://tea/{path}")
        assert changed(folders)[-1][1] == (f"skill://tea/{path}",)
    after = await digests(folders)
    assert after.keys() == before.keys()
    assert not set(after.values()) & set(before.values())
    assert not await folders.reloader.check_now()


async def test_a_skill_that_is_added_broken_or_removed_is_read_again(
    folders: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    write(folders.folder, {"skills/pie/SKILL.md": SKILL.format("pie", "Bake.")})
    assert await folders.reloader.check_now()
    assert changed(folders) == [("added", ("skill://pie/SKILL.md",))]
    write(folders.folder, {"skills/pie/SKILL.md": "Bake."})
    assert not await folders.reloader.check_now()
    assert "pie" in complaints(caplog.records)[0]
    assert "skill://pie/SKILL.md" in await digests(folders)
    shutil.rmtree(folders.folder / "skills" / "pie")
    assert await folders.reloader.check_now()
    assert "skill://pie/SKILL.md" not in await digests(folders)


async def test_a_skill_that_was_broken_at_the_start_is_read_when_it_is_repaired(tmp_path: Path) -> None:
    write(tmp_path, {"skills/tea/SKILL.md": "Boil.", "docs/a.md": "first", "crib_tools.py": FOLDERS})
    with workshop(tmp_path) as shop:
        write(tmp_path, {"skills/tea/SKILL.md": SKILL.format("tea", "Boil.")})
        assert await shop.reloader.check_now()
        assert list(await digests(shop)) == ["skill://tea/SKILL.md"]


async def test_another_listing_of_a_folder_is_announced(folders: Workshop) -> None:
    write(folders.folder, {"docs/deep/b.md": "second"})
    assert await folders.reloader.check_now()
    assert changed(folders) == [("added", ("docs://deep/b.md",))]
    (folders.folder / "docs" / "deep" / "b.md").unlink()
    assert await folders.reloader.check_now()
    assert changed(folders)[1:] == [("removed", ("docs://deep/b.md",))]


async def test_an_unchanged_folder_is_announced_to_nobody(folders: Workshop) -> None:
    folders.write(crib_tools=f"# a comment\n{FOLDERS}")
    assert await folders.reloader.check_now()
    assert folders.changes == []


async def test_folders_are_watched(folders: Workshop) -> None:
    async with folders.reloader:
        for path, text in (("pie/SKILL.md", SKILL.format("pie", "Bake.")), ("tea/notes/new/b.txt", "cold")):
            checks = -1
            while checks != folders.reloader.checks:  # until it only waits for a change
                checks = folders.reloader.checks
                await asyncio.sleep(0.2)
            write(folders.folder, {f"skills/{path}": text})
            await until(lambda path=path: f"skill://{path}" in folders.server.resources)  # type: ignore[misc]
