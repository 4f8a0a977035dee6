"""Definitions and results of another server: nothing in them steers a terminal, and no size holds it up."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.servers.fake_mcp_server import posing
from tests.support.system import fork_server
from tests.support.system.pseudo_terminal import run_on_terminal

HARM = "\x1b]0;title\x07\x1b[2J\x1b[45m\x9b31m\x7f\x00\x08\r\u202e\u2066\u200b\u2060\ufeff\U000e0041\u034f"
HARMFUL = frozenset(HARM) - {"[", "]", ";", "m"} - set("0123456789titleJ")
LETTER = re.compile(r"\x1b\[[0-9;]*m")
OURS = frozenset({"\x1b[0m", "\x1b[1m", "\x1b[2m", *(f"\x1b[{number}m" for number in range(30, 38))})


def spoil(text: str) -> str:
    return f"{text}{HARM}{text}"


NAME = spoil("take")
THOUSANDS = 20_000 if os.environ.get("TOOLCRIB_SOAK") else 5_000
TOOL = {
    "name": NAME,
    "title": spoil("Title"),
    "description": f"{spoil('Summary')}\n\n{spoil('More')}",
    "inputSchema": {
        "type": "object",
        "properties": {
            spoil("size"): {"type": spoil("integer"), "description": spoil("How large")},
            "kind": {"enum": [spoil("box"), spoil("bag")], "default": spoil("box")},
            "when": {"type": "string", "format": spoil("date"), "pattern": spoil("x"), "maximum": spoil("1")},
            "where": {"$ref": f"#/$defs/{spoil('Place')}"},
            "who": {"type": ["string", spoil("null")]},
            "whom": {"anyOf": [{"type": spoil("a")}, {"const": spoil("b")}]},
        },
        "required": [spoil("size")],
    },
    "outputSchema": {"type": "object", "description": spoil("What comes back")},
    "annotations": {"title": spoil("Another")},
}
GOOD = {
    "name": "good",
    "description": "Do good to a number.",
    "inputSchema": {"type": "object", "properties": {"number": {"type": "integer"}}},
}
RESULT = {"content": [{"type": "text", "text": spoil("said")}]}
FAILED = {"content": [{"type": "text", "text": spoil("no")}], "isError": True}
ENVIRONMENT = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "NO_COLOR": ""}


def run(*words: str) -> subprocess.CompletedProcess[bytes]:
    return fork_server.run("-m", "toolcrib", *words, env=ENVIRONMENT)


def find_harm(text: str) -> set[str]:
    """Characters that steer a terminal or hide in it, but for the colours that we use ourselves."""
    plain = LETTER.sub(lambda found: "" if found[0] in OURS else found[0], text)
    return {letter for letter in plain.replace("\r\n", "\n") if letter in HARMFUL}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with posing([TOOL, GOOD], RESULT, name=spoil("server")) as address:
        yield address


COMMANDS: dict[str, list[str]] = {
    "list": ["list", "@"],
    "show": ["show", "-t", "@", NAME.replace("\x00", "")],
    "call": ["call", "-t", "@", "good", "number=1"],
    "search": ["search", "-t", "@", "summary", "more"],
    "lint": ["lint", "@"],
    "diff": ["diff", "@", "@"],
    "export": ["export", "--to", "openai", "@"],
}


@pytest.fixture(scope="module")
def without_nul() -> Iterator[str]:
    """The same tool by a name that can be given on a command line."""
    with posing([{**TOOL, "name": NAME.replace("\x00", "")}, GOOD], RESULT, name=spoil("server")) as address:
        yield address


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_that_a_server_says_steers_a_terminal(without_nul: str, command: str) -> None:
    shown = run_on_terminal(*(without_nul if word == "@" else word for word in COMMANDS[command]))
    assert "Traceback" not in shown
    assert "toolcrib itself failed" not in shown
    assert not find_harm(shown), shown


@pytest.mark.parametrize("command", ["list", "lint"])
def test_escaped_text_stays_escaped_in_a_pipe(address: str, command: str) -> None:
    done = run(*(address if word == "@" else word for word in COMMANDS[command]))
    assert not find_harm(done.stdout.decode())
    assert not find_harm(done.stderr.decode())


def test_a_name_is_listed_with_its_escapes_written_out(address: str) -> None:
    shown = "".join(line.split("  ")[0] for line in run("list", address).stdout.decode().splitlines()[1:])
    assert r"take\x1b]0;title\x07\x1b[2J\x1b[45m\x9b31m\x7f\x00\x08\x0d\u202e\u2066\u200b" in shown
    assert r"\U000e0041" in shown


def test_a_result_is_escaped_on_a_terminal_and_left_alone_in_a_pipe(address: str) -> None:
    words = ("call", "-t", address, "good", "number=1")
    assert run(*words).stdout.decode() == f"{spoil('said')}\n"
    assert r"said\x1b]0;title\x07" in run_on_terminal(*words)


@pytest.mark.parametrize("options", [{"result": FAILED}, {"refusal": spoil("not today")}])
def test_an_error_of_a_server_is_escaped(options: dict[str, Any]) -> None:
    with posing([GOOD], **options) as address:
        done = run("call", "-t", address, "good", "number=1")
        shown = run_on_terminal("call", "-t", address, "good", "number=1", "--debug")
    assert done.returncode != 0
    assert r"\x1b]0;title\x07" in done.stderr.decode()
    assert not find_harm(done.stderr.decode())
    assert not find_harm(shown)


def test_json_is_whole_and_escaped_by_its_own_rules(address: str) -> None:
    done = run("list", address, "--json")
    assert not find_harm(done.stdout.decode())
    assert json.loads(done.stdout)["tools"][0]["description"] == TOOL["description"]


ODD = {
    "name": "odd",
    "inputSchema": {
        "type": "object",
        "properties": {"a": {"enum": 1}, "b": {"$ref": "#/$defs/x"}, "c": 1},
        "required": 3,
        "$defs": [],
    },
}
ODDER = {"name": "odder", "inputSchema": {"type": "object", "properties": 7}}


def test_schemas_of_any_shape_are_listed_and_shown() -> None:
    with posing([ODD, ODDER]) as address:
        assert run("list", address).returncode == 0
        assert run("show", "-t", address, "odd").returncode == 0


# --- size ----------------------------------------------------------------------------------------------


def spend(*words: str) -> tuple[float, str]:
    """Processor seconds of a command, and its output."""
    command = [sys.executable, "-m", "toolcrib", *words]
    before = os.times()
    done = subprocess.run(command, capture_output=True, env=ENVIRONMENT, timeout=120)
    after = os.times()
    assert done.returncode == 0, done.stderr[-1000:]
    used = after.children_user - before.children_user + after.children_system - before.children_system
    return used, done.stdout.decode()


@pytest.mark.parametrize("piece", ["word ", "世", "\u200d"])
def test_a_description_of_megabytes_is_listed_by_its_beginning_and_shown_whole(piece: str) -> None:
    size = 10_000_000 if piece == "word " else 500_000
    text = piece * (size // len(piece))
    with posing([{**GOOD, "description": f"Begins. {text}"}]) as address:
        list_s, listed = spend("list", address)
        show_s, shown = spend("show", "-t", address, "good")
    assert "Begins." in listed
    assert len(listed) < 5000
    assert list_s < 4
    assert show_s < 6
    assert sum(map(len, shown.split())) >= len(text.replace(" ", ""))


def test_thousands_of_tools_are_listed_about_as_fast_as_their_json_is() -> None:
    tools = [{**GOOD, "name": f"tool_{number}"} for number in range(THOUSANDS)]
    with posing(tools) as address:
        json_s, document = spend("list", address, "--json")
        list_s, listed = spend("list", address)
    assert len(json.loads(document)["tools"]) == THOUSANDS
    assert len(listed.splitlines()) == THOUSANDS + 1
    assert list_s < 1.5 * json_s


@pytest.mark.parametrize("count", [1, 20_000])
def test_names_types_and_choices_of_any_size_are_cut(count: int) -> None:
    long = "n" * (2_000_000 // count)
    schema = {"type": long, "enum": [f"{long}{number}" for number in range(count)]}
    properties = {f"{long}{number}": schema if count == 1 else {"type": long} for number in range(count)}
    tool = {"name": long, "inputSchema": {"type": "object", "properties": properties}}
    with posing([tool]) as address:
        spent_s, listed = spend("list", address)
    assert len(listed) < 10_000
    assert spent_s < 4
