"""The reference pages are generated from the code, and they are complete."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import toolcrib
from bench.reference import GROUPS, MODULES, PAGES, render
from tests.unit.test_public_surface import DOCUMENTED
from toolcrib import errors
from toolcrib.cli import COMMANDS
from toolcrib.registry.apps import AppFields
from toolcrib.registry.prompts import PromptFields
from toolcrib.registry.resources import ResourceFields

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", PAGES)
def test_a_reference_page_is_what_the_code_says(name: str) -> None:
    assert (FOLDER / name).read_text() == render(name), "run: python dev.py map"


def test_every_public_name_is_documented() -> None:
    page = (FOLDER / "api.md").read_text()
    headings = re.findall(r"^### (\w+) ", page, re.MULTILINE)
    grouped = [name for names in GROUPS.values() for name in names.split()]
    assert sorted(grouped) == sorted(toolcrib.__all__)
    assert [name for name in toolcrib.__all__ if name not in headings] == []
    assert [name for name in toolcrib.__all__ if not inspect.getdoc(getattr(toolcrib, name))] == []


def test_every_documented_module_is_in_the_reference() -> None:
    elsewhere = {"toolcrib.errors", "toolcrib.catalog.build"}  # a page of its own; exported by toolcrib
    assert DOCUMENTED.keys() - MODULES.keys() == elsewhere


def test_every_command_and_every_error_code_is_documented() -> None:
    commands = (FOLDER / "commands.md").read_text()
    assert [name for name in COMMANDS if f"## toolcrib {name}\n" not in commands] == []
    table = (FOLDER / "errors.md").read_text()
    codes = {kind.code for kind in vars(errors).values() if inspect.isclass(kind) and hasattr(kind, "code")}
    assert [code for code in codes - {None} if isinstance(code, str) and f"| `{code}` |" not in table] == []


@pytest.mark.parametrize("fields", [ResourceFields, PromptFields, AppFields])
def test_the_options_of_resources_prompts_and_apps_are_listed(fields: type) -> None:
    section = (FOLDER / "api.md").read_text().partition(f"### {fields.__name__} ")[2].partition("###")[0]
    assert re.findall(r"^    (\w+): ", section, re.MULTILINE) == list(fields.__annotations__)
