"""The awkward tools in every format."""

from __future__ import annotations

import json
import time

import pytest

from tests.support.definitions.awkward_tools import AWKWARD
from toolcrib.catalog.export import EXPORTERS, export
from toolcrib.errors import ToolNotFoundError

from .conftest import ExportedTools

PROVIDERS = [name for name, form in EXPORTERS.items() if form.maps_names]


def test_there_are_forty_awkward_tools_with_valid_arguments() -> None:
    assert len(AWKWARD) >= 40
    for item in AWKWARD:
        validator = item.tool.check().arguments.validator
        assert validator.is_valid(item.arguments), item.name


@pytest.mark.requirement("G-04")
@pytest.mark.parametrize("to", PROVIDERS)
def test_all_but_two_are_exported_and_those_have_a_reason(to: str) -> None:
    found = ExportedTools(to).found
    assert set(found.skipped) == {item.name for item in AWKWARD if not item.is_exportable}
    assert all(found.skipped.values())
    assert set(found.names.values()) == {item.name for item in AWKWARD if item.is_exportable}
    assert set(found.notes) <= set(found.names.values())


@pytest.mark.parametrize("to", list(EXPORTERS))
def test_exports_are_json_and_have_costs(to: str) -> None:
    found = ExportedTools(to).found
    document = json.loads(json.dumps(found.to_json()))
    assert document.keys() == {"to", "tools", "names", "notes", "skipped", "tokens"}
    assert document["tokens"]["total"] == sum(document["tokens"]["tools"].values()) == found.total_tokens
    assert document["tokens"]["tools"].keys() == document["names"].keys()


@pytest.mark.parametrize("to", PROVIDERS)
def test_every_name_maps_back_and_an_unknown_one_gets_a_suggestion(to: str) -> None:
    found = ExportedTools(to).found
    assert len(set(found.names.values())) == len(found.names) == len(found.tools)
    assert [found.route(name) for name in found.names] == list(found.names.values())
    with pytest.raises(ToolNotFoundError, match="did you mean 'no_parameters'"):
        found.route("no_parameter")


@pytest.mark.parametrize("to", PROVIDERS)
def test_a_tool_is_exported_alone_as_among_others(to: str) -> None:
    for item, name, tool in ExportedTools(to).pairs():
        alone = export([item.tool], to)
        assert (list(alone.names), alone.tools) == ([name], [tool])


def test_an_exponential_schema_is_refused_at_once() -> None:
    (bomb,) = (item for item in AWKWARD if item.name == "bomb")
    tool = bomb.tool
    tool.check()
    for to in PROVIDERS:
        begin = time.process_time()
        assert list(export([tool], to).skipped) == ["bomb"]
        assert time.process_time() - begin < 1.0
