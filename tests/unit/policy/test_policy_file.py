"""A policy in a file, for servers that no command starts; and errors in the language of their reader."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.records.key_files import Keys
from toolcrib import MCPServer, Principal
from toolcrib.config import Config, load_config
from toolcrib.config.fields import names_of
from toolcrib.config.settings import SERVER_SECTIONS
from toolcrib.errors import ConfigurationError, ToolNotFoundError
from toolcrib.policy import Auth, Limit, Policy, Rule, Telemetry

ANA = Principal("key:ana")
TEXT = """
[server]
name = "shop"
targets = ["shop.py"]

[auth]
keys = "shop.keys.json"

[[rules]]
allow = ["find"]
who = ["key:ana"]

[policy]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    Keys(tmp_path / "shop.keys.json").create("ana")
    (tmp_path / "toolcrib.toml").write_text(TEXT)
    return tmp_path / "toolcrib.toml"


def make_server(policy: Any) -> MCPServer:
    server = MCPServer("shop", policy=policy)
    server.tool("find")(lambda: "found")
    server.tool("wipe")(lambda: "wiped")
    return server


def test_a_policy_is_read_from_a_file_as_serve_reads_it(file: Path) -> None:
    policy = Policy.load(file)
    assert policy == load_config(file).policy
    assert Policy.load(str(file)) == policy
    assert (policy.file, policy.lines["rules[1]"]) == (str(file), 9)
    assert policy.auth is not None
    assert policy.auth.keys == file.parent / "shop.keys.json"


@pytest.mark.parametrize("kind", [str, Path, Policy.load])
async def test_a_server_takes_the_policy_of_a_file(file: Path, kind: Any) -> None:
    server = make_server(kind(file))
    async with server:
        assert [tool.name for tool in server.list_tools(ANA)] == ["find"]
        with pytest.raises(ToolNotFoundError):
            await server.call("wipe", principal=ANA)


async def test_a_mounted_server_asks_for_the_keys_of_a_file(file: Path) -> None:
    key = Keys(file.parent / "shop.keys.json").create("ben")[1]
    app = make_server(file).asgi()
    transport = httpx.ASGITransport(app=app)
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with (
        app.lifespan(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        assert (await client.post("/mcp", json=body)).status_code == 401
        headers = {"Authorization": f"Bearer {key}"}
        assert (await client.post("/mcp", json=body, headers=headers)).status_code != 401


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ("[[rule]]\nallow = ['a']\n", r"toolcrib.toml:1: rule: unknown key", "did you mean 'rules'"),
        ("[server]\nname = 'x'\n", "toolcrib.toml: has no policy", r"write \[\[rules\]\] or \[auth\]"),
        (
            "[[rules]]\nwho = ['local']\n",
            r"toolcrib.toml:1: rules\[1\]: a rule has exactly one",
            r"allow = \[",
        ),
        ("[policy]\ndefault = 'x'\n", "toolcrib.toml:2: policy.default: must be one of", None),
        ("x", "toolcrib.toml:1: not valid TOML", None),
    ],
)
def test_a_file_that_is_wrong_is_an_error_with_its_line(
    tmp_path: Path, text: str, words: str, hint: str | None
) -> None:
    (tmp_path / "toolcrib.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=words) as caught:
        MCPServer(policy=tmp_path / "toolcrib.toml")
    assert hint is None or re.search(hint, caught.value.hint or "")


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"gone\.toml: cannot read: No such file"):
        MCPServer(policy=str(tmp_path / "gone.toml"))


def test_every_table_of_a_file_is_known_to_its_policy() -> None:
    assert {*SERVER_SECTIONS} == {*names_of(Config)}


# --- the language of the reader --------------------------------------------------------------------------

WRONG = {
    "a rule": ("[[rules]]\nwho = ['local']\n", lambda: Rule(who=["local"])),
    "metrics": ("[telemetry]\nmetrics_open = true\n", lambda: Telemetry(metrics_open=True)),
    "auth": ("[auth]\noptional = true\n", lambda: Auth(optional=True)),
    "default": (
        "[policy]\ndefault = 'allow'\n[[rules]]\nallow = ['a']\n",
        lambda: Policy(default="allow", rules=[Rule(allow=["a"])]),
    ),
}
HINTS = {
    "a rule": ('write allow = ["..."], deny = ["..."] or', 'write allow=["..."], deny=["..."] or'),
    "metrics": ("set prometheus = true, or remove it", "set prometheus=True, or remove it"),
    "auth": ('write keys = "toolcrib.keys.json", and', 'write keys="toolcrib.keys.json", and'),
    "default": ("remove policy.default, or", "remove default, or"),
}


@pytest.mark.parametrize("name", WRONG)
def test_hints_are_in_toml_for_a_file_and_in_python_for_code(tmp_path: Path, name: str) -> None:
    text, make = WRONG[name]
    (tmp_path / "toolcrib.toml").write_text(text)
    with pytest.raises(ConfigurationError) as of_file:
        Policy.load(tmp_path / "toolcrib.toml")
    with pytest.raises(ConfigurationError) as of_code:
        make()
    assert (of_file.value.hint or "").startswith(HINTS[name][0])
    assert (of_code.value.hint or "").startswith(HINTS[name][1])


def test_keys_are_named_as_in_code_where_they_come_from_code() -> None:
    with pytest.raises(ConfigurationError, match=r"^default: must be one of allow, deny, got 'maybe'"):
        Policy(default="maybe")  # type: ignore[arg-type]
    error = Policy(limits=[Limit(rate="1/s")]).error_at("policy.local_scopes", "must be a list")
    assert str(error) == "local_scopes: must be a list"
