"""The commands, their options and the shape of their JSON, recorded in `data/`: programs rely on them.

A change of the surface is written into the data files by hand, so that a review sees it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from tests.unit.cli.conftest import ADD, SHOP, CommandLine
from toolcrib.cli import app

DATA = Path(__file__).parent / "data"


def describe_parameter(parameter: click.Parameter) -> dict[str, Any]:
    facts: dict[str, Any] = {"kind": parameter.param_type_name, "nargs": parameter.nargs}
    default = getattr(parameter, "default", None)
    is_plain = isinstance(default, str | int | float | bool)
    facts["default"] = (
        default if is_plain and default is not False else None
    )  # of flags, some versions say False
    facts["required"] = parameter.required
    if isinstance(parameter, click.Option):
        facts["names"] = sorted([*parameter.opts, *parameter.secondary_opts])
        facts["is_flag"] = parameter.is_flag
        facts["multiple"] = parameter.multiple
    if isinstance(parameter.type, click.Choice):
        facts["choices"] = list(parameter.type.choices)
    return facts


def describe_command(command: click.Command, path: str) -> dict[str, Any]:
    """Return every command below this one by its path, each with its parameters by name."""
    found = {path: {str(item.name): describe_parameter(item) for item in command.params}}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            found |= describe_command(below, f"{path} {name}")
    return found


def describe_value(value: Any) -> Any:
    """Return the shape of a JSON value: keys and types; a list is described by all of its items."""
    if isinstance(value, dict):
        return {key: describe_value(item) for key, item in sorted(value.items())}
    if isinstance(value, list):
        shapes = [describe_value(item) for item in value]
        return [shape for index, shape in enumerate(shapes) if shape not in shapes[:index]]
    return "null" if value is None else type(value).__name__


def test_commands_and_options_are_unchanged() -> None:
    found = json.loads(json.dumps(describe_command(app, "toolcrib")))
    recorded = json.loads((DATA / "commands.json").read_text())
    assert found.keys() == recorded.keys()
    for name, parameters in recorded.items():
        assert found[name] == parameters, name


COMMANDS = {
    "list": ("list", "tools.py", "--json"),
    "show": ("show", "tools.py:add", "--json"),
    "check": ("check", "tools.py", "bad.py", "--json"),
    "scan": ("scan", "tools.py", "bad.py", "--json"),
    "search": ("search", "-t", "tools.py", "whole", "numbers", "--json"),
    "call": ("call", "tools.py:add", "a=1", "--json"),
    "list features": ("list", "shop.py", "--json"),
    "show resource": ("show", "-t", "shop.py", "orders://17/invoice", "--json"),
    "show prompt": ("show", "-t", "shop.py", "complain", "--json"),
    "explain features": ("explain", "-t", "shop.py", "--json"),
    "read": ("read", "-t", "shop.py", "orders://17/invoice", "--json"),
    "prompt": ("prompt", "-t", "shop.py", "complain", "order=17", "--json"),
    "explain": ("explain", "-t", "toolcrib.toml", "--json"),
    "explain one": ("explain", "-t", "toolcrib.toml", "add", "a=1", "--json"),
    "export": ("export", "--to", "openai", "tools.py", "--json"),
    "check sarif": ("check", "tools.py", "--sarif"),
    "lock": ("lock", "tools.py", "--json"),
    "diff": ("diff", "old.lock", "tools.py", "--json"),
    "keys create": ("keys", "create", "ana", "--json"),
    "keys list": ("keys", "list", "--json"),
    "keys revoke": ("keys", "revoke", "ana", "--json"),
    "connect": ("connect", "cursor", "tools.py", "--file", "mcp.json", "--json"),
    "connect print": ("connect", "cursor", "tools.py", "--file", "mcp.json", "--print", "--json"),
    "connect remove": ("connect", "cursor", "tools.py", "--file", "mcp.json", "--remove", "--json"),
    "connect list": ("connect", "--list", "--json"),
    "publish": ("publish", "tools.py", "--json"),
    "audit query": ("audit", "query", "--limit", "1", "--json"),
    "audit verify": ("audit", "verify", "--json"),
}
SETTINGS = """
[server]
targets = ["tools.py"]

[[rules]]
allow = ["add"]

[audit]
file = "audit.db"
"""
PROJECT = """
[project]
name = "shop"
version = "1"
description = "A shop"
authors = [{name = "Ana"}]
dependencies = ["toolcrib"]
scripts = {shop = "shop:main"}
"""
OLD = ADD.replace("b: int = 1", "b: int").replace("def add", "def plus") + ADD.replace("whole ", "")


@pytest.fixture
def prepared(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.setenv("HOME", str(cli.folder))
    cli.write("old.py", OLD)
    assert cli.run("lock", "old.py", "--output", "old.lock").exit_code == 0
    cli.write("tools.py", ADD)
    cli.write("shop.py", SHOP)
    cli.write("bad.py", "from toolcrib import tool\n\n@tool\ndef bad(*args: int) -> int:\n    return 1\n")
    cli.write("toolcrib.toml", SETTINGS)
    cli.write("pyproject.toml", PROJECT)
    cli.write("server.json", '{"$schema": "x", "name": "com.example/shop"}')
    assert cli.run("call", "-t", "toolcrib.toml", "add", "a=1").exit_code == 0
    return cli


def test_the_shape_of_json_output_is_unchanged(prepared: CommandLine) -> None:
    recorded = json.loads((DATA / "json_outputs.json").read_text())
    assert COMMANDS.keys() == recorded.keys()
    found = {name: describe_value(prepared.json(*words)) for name, words in COMMANDS.items()}
    for name, shape in recorded.items():
        assert found[name] == shape, name
