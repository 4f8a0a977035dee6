"""The reference pages, which are made from the code when the site is built, are complete."""

from __future__ import annotations

import inspect
import re

import pytest

import toolcrib
from bench.reference import GROUPS, MODULES, render
from tests.unit.test_public_surface import DOCUMENTED
from toolcrib import errors
from toolcrib.cli import COMMANDS
from toolcrib.registry.apps import AppFields
from toolcrib.registry.prompts import PromptFields
from toolcrib.registry.resources import ResourceFields


def test_every_public_name_is_documented() -> None:
    page = render("api.md")
    headings = re.findall(r"^### (\w+) ", page, re.MULTILINE)
    grouped = [name for names in GROUPS.values() for name in names.split()]
    assert sorted(grouped) == sorted(toolcrib.__all__)
    assert [name for name in toolcrib.__all__ if name not in headings] == []
    assert [name for name in toolcrib.__all__ if not inspect.getdoc(getattr(toolcrib, name))] == []


def test_every_documented_module_is_in_the_reference() -> None:
    elsewhere = {"toolcrib.errors", "toolcrib.catalog.build"}  # a page of its own; exported by toolcrib
    assert DOCUMENTED.keys() - MODULES.keys() == elsewhere


def test_every_command_and_every_error_code_is_documented() -> None:
    commands = render("commands.md")
    assert [name for name in COMMANDS if f"## toolcrib {name}\n" not in commands] == []
    table = render("errors.md")
    codes = {kind.code for kind in vars(errors).values() if inspect.isclass(kind) and hasattr(kind, "code")}
    assert [code for code in codes - {None} if isinstance(code, str) and f"| `{code}` |" not in table] == []


@pytest.mark.parametrize("fields", [ResourceFields, PromptFields, AppFields])
def test_the_options_of_resources_prompts_and_apps_are_listed(fields: type) -> None:
    section = render("api.md").partition(f"### {fields.__name__} ")[2].partition("###")[0]
    assert re.findall(r"^    (\w+): ", section, re.MULTILINE) == list(fields.__annotations__)
