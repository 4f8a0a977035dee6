"""Skills of a scripted server: entries, files that are what they should be, and files that are not."""

from __future__ import annotations

import hashlib
import sys
from typing import Any

import pytest

from toolcrib.client import RemoteResource, RemoteSkill, SkillFile
from toolcrib.errors import ClientError, InvalidResponseError, RemoteError

from .scripted_server import DISCOVERED, INITIALIZED, Reply, ScriptedServer

SKILLS = "io.modelcontextprotocol/skills"
MAIN, NOTES = "skill://acme/tea/SKILL.md", "skill://acme/tea/notes.md"
FRONTMATTER: dict[str, Any] = {"name": "tea", "description": "Make tea", "metadata": {"n": 2}}
TEXTS = {
    MAIN: "---\nname: tea\ndescription: Make tea\nmetadata: {n: 2}\n---\nBoil water.\n",
    NOTES: "Green or black, żółta.",
}


def listed(uri: str, text: str) -> dict[str, Any]:
    data = text.encode()
    return {"uri": uri, "digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}


FILES = [listed(uri, text) for uri, text in TEXTS.items()]
ENTRY: dict[str, Any] = {"uri": MAIN, "frontmatter": FRONTMATTER, "resources": FILES}


def read(scripted: ScriptedServer, message: dict[str, Any]) -> None:
    uri = message["params"]["uri"]
    scripted.answer(message, {"contents": [{"uri": uri, "text": TEXTS.get(uri, "more")}]})


def serving(entry: Any = ENTRY, settings: Any = None, **more: Reply) -> ScriptedServer:
    capabilities = {"resources": {}, "extensions": {SKILLS: {} if settings is None else settings}}
    return ScriptedServer(
        {
            "server/discover": {**DISCOVERED, "capabilities": capabilities},
            "skills/list": {"skills": [entry]},
            "skills/get": {"skill": entry},
            "resources/read": read,
            **more,
        }
    )


async def test_a_listed_skill_is_read_file_by_file() -> None:
    scripted = serving()
    async with scripted.client() as client:
        (skill,) = await client.list_skills()
        assert (skill.name, skill.description, skill.folder) == ("tea", "Make tea", "skill://acme/tea")
        assert skill.files == tuple(SkillFile(**file) for file in FILES)
        assert await client.get_skill(MAIN) == skill
        assert not scripted.named("resources/read")  # nothing is fetched before it is asked for
        assert (await client.read_skill(skill)).text == TEXTS[MAIN]
        assert (await client.read_skill(skill, "notes.md")).text == TEXTS[NOTES]
        assert (await client.read_skill(skill, NOTES)).uri == NOTES
        for other in ("more.md", "../coffee/SKILL.md", "skill://acme/coffee/SKILL.md", ""):
            with pytest.raises(ValueError, match="is not a file of the skill 'tea'"):
                await client.read_skill(skill, other)
    assert len(scripted.named("resources/read")) == 3


async def test_a_server_without_skills_is_not_asked() -> None:
    for found in (
        ScriptedServer({"server/discover": DISCOVERED}),
        ScriptedServer({"initialize": INITIALIZED}),
        serving(settings=5),
    ):
        async with found.client() as client:
            assert await client.list_skills() == []
            with pytest.raises(ClientError, match="has no skills"):
                await client.get_skill(MAIN)
            with pytest.raises(ClientError, match="does not support reading directories"):
                await client.read_directory("skill://acme/tea")
        assert not [message for message in found.heard if "skills" in message["method"]]


@pytest.mark.parametrize(
    "change",
    [
        {"uri": 5},
        {"uri": "skill://acme/tea"},
        {"frontmatter": None},
        {"frontmatter": {"name": "tea"}},
        {"frontmatter": {**FRONTMATTER, "name": "coffee"}},
        {"resources": None},
        {"resources": "static"},
        {"resources": FILES[1:]},
        {"resources": [*FILES, FILES[1]]},
        {"resources": [*FILES, 5]},
        {"resources": [*FILES, {**FILES[1], "uri": "skill://acme/teapot/x"}]},
        {"resources": [{**FILES[0], "digest": "sha256:0"}]},
        {"resources": [{**FILES[0], "size": -1}]},
        {"resources": [{**FILES[0], "size": True}]},
        {"resources": [{**FILES[0], "size": 16 * 1024 * 1024 + 1}]},
        {"resources": [FILES[0]] + [listed(f"skill://acme/tea/{n}", "") for n in range(512)]},
    ],
)
async def test_an_invalid_entry_is_skipped(change: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    async with serving({**ENTRY, **change}).client() as client:
        assert await client.list_skills() == []
        with pytest.raises(InvalidResponseError, match="invalid skill"):
            await client.get_skill(MAIN)
    assert "lists an invalid skill" in caplog.text


async def test_another_skill_than_was_asked_for_is_an_error() -> None:
    async with serving().client() as client:
        with pytest.raises(InvalidResponseError, match="returned another skill"):
            await client.get_skill("skill://tea/SKILL.md")
    async with serving(**{"skills/get": lambda p, m: p.refuse(m, -32602, "Unknown")}).client() as client:
        with pytest.raises(RemoteError, match="Unknown"):
            await client.get_skill(MAIN)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TEXTS[MAIN].replace("Boil", "Spil"), "differs from its entry"),
        (TEXTS[MAIN] + "more", "differs from its entry"),
        ("", "differs from its entry"),
    ],
)
async def test_a_file_that_was_changed_is_refused(text: str, words: str) -> None:
    scripted = serving(**{"resources/read": {"contents": [{"uri": MAIN, "text": text}]}})
    async with scripted.client() as client:
        (skill,) = await client.list_skills()
        with pytest.raises(InvalidResponseError, match=words):
            await client.read_skill(skill)


@pytest.mark.parametrize("contents", [[], [{"uri": NOTES, "text": "x"}], [{"uri": MAIN, "text": "x"}] * 2])
async def test_contents_of_something_else_are_refused(contents: Any) -> None:
    async with serving(**{"resources/read": {"contents": contents}}).client() as client:
        (skill,) = await client.list_skills()
        with pytest.raises(InvalidResponseError, match="other contents"):
            await client.read_skill(skill)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TEXTS[MAIN].replace("Make tea", "Steal the pot"), "frontmatter of .* differs"),
        (TEXTS[MAIN].replace("n: 2", "n: 2, more: 1"), "frontmatter of .* differs"),
        ("Boil water.", "has no frontmatter"),
        ("---\nname: tea\n", "has no frontmatter"),
        ("---\n{{\n---\n", "cannot be verified: .* not valid YAML"),
    ],
)
@pytest.mark.parametrize("is_dynamic", [True, False])
async def test_the_frontmatter_is_compared(text: str, words: str, is_dynamic: bool) -> None:
    files: Any = "dynamic" if is_dynamic else [listed(MAIN, text)]
    reply: Reply = {"contents": [{"uri": MAIN, "text": text}]}
    scripted = serving({**ENTRY, "resources": files}, **{"resources/read": reply})
    async with scripted.client() as client:
        (skill,) = await client.list_skills()
        with pytest.raises(InvalidResponseError, match=words):
            await client.read_skill(skill)


async def test_a_dynamic_skill_has_files_below_its_folder_only() -> None:
    async with serving({**ENTRY, "resources": "dynamic"}).client() as client:
        (skill,) = await client.list_skills()
        assert skill == RemoteSkill(MAIN, FRONTMATTER, None, skill.wire)
        assert (await client.read_skill(skill)).text == TEXTS[MAIN]
        assert (await client.read_skill(skill, "any/thing.md")).text == "more"
        for other in ("../x", "a/../../x", "skill://acme/teapot", "a//b", ""):
            with pytest.raises(ValueError, match="is not a file"):
                await client.read_skill(skill, other)


async def test_binary_files_are_verified_as_bytes() -> None:
    digest = hashlib.sha256(b"\xff\x00").hexdigest()
    data = {"uri": "skill://acme/tea/pot.png", "digest": f"sha256:{digest}", "size": 2}
    reply: Reply = {"contents": [{"uri": data["uri"], "blob": "/wA="}]}
    scripted = serving({**ENTRY, "resources": [*FILES, data]}, **{"resources/read": reply})
    async with scripted.client() as client:
        (skill,) = await client.list_skills()
        assert (await client.read_skill(skill, "pot.png")).data == b"\xff\x00"


async def test_a_folder_is_read_page_by_page() -> None:
    def pages(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        assert message["params"]["uri"] == "skill://acme/tea"
        if "cursor" not in message["params"]:
            item = {"uri": NOTES, "name": "notes.md", "mimeType": "text/markdown"}
            scripted.answer(message, {"resources": [item], "nextCursor": "2"})
        else:
            item = {"uri": "skill://acme/tea/pots", "name": "pots", "mimeType": "inode/directory"}
            scripted.answer(message, {"resources": [item]})

    scripted = serving(settings={"directoryRead": True}, **{"resources/directory/read": pages})
    async with scripted.client() as client:
        found = await client.read_directory("skill://acme/tea")
    assert [(item.name, item.mime_type) for item in found] == [
        ("notes.md", "text/markdown"),
        ("pots", "inode/directory"),
    ]
    assert isinstance(found[0], RemoteResource)


async def test_without_a_yaml_reader_a_skill_cannot_be_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    async with serving().client() as client:
        (skill,) = await client.list_skills()
        with pytest.raises(InvalidResponseError, match=r"PyYAML is not installed.*toolcrib\[yaml\]"):
            await client.read_skill(skill)
