"""The awkward tools in every format."""

from __future__ import annotations

import json
import time

import pytest

from tests.support.awkward_tools import AWKWARD
from toolcrib.catalog.export import EXPORTERS, Verdict, export
from toolcrib.errors import ToolNotFoundError

from .conftest import Offer

PROVIDERS = [name for name, form in EXPORTERS.items() if form.maps_names]


def test_there_are_forty_awkward_tools_with_valid_arguments() -> None:
    assert len(AWKWARD) >= 40
    for item in AWKWARD:
        validator = item.tool.check().arguments.validator
        assert validator.is_valid(item.arguments) or item.name == "impossible", item.name


@pytest.mark.parametrize("to", PROVIDERS)
def test_all_but_three_are_exported_and_those_have_a_reason(to: str) -> None:
    verdicts = Offer(to).found.verdicts
    assert [item.name for item in AWKWARD] == [verdict.name for verdict in verdicts]
    for item, verdict in zip(AWKWARD, verdicts, strict=True):
        assert (verdict.status == "refused") is (not item.is_exportable), verdict
        assert (verdict.reason is not None) is (not item.is_exportable)
        assert _is_sane(verdict)


def _is_sane(verdict: Verdict) -> bool:
    if verdict.status == "refused":
        return verdict.exported is None and verdict.tokens == 0
    is_lossy = any(change.effect != "same" for change in verdict.changes)
    return is_lossy == (verdict.status == "lossy") and verdict.tokens > 0


@pytest.mark.parametrize("to", list(EXPORTERS))
def test_exports_are_json_and_have_costs(to: str) -> None:
    found = Offer(to).found
    document = json.loads(json.dumps(found.to_json()))
    assert document.keys() == {"to", "tools", "verdicts", "names", "tokens"}
    assert document["tokens"]["total"] == sum(document["tokens"]["tools"].values()) == found.total_tokens
    assert document["tokens"]["tools"].keys() == document["names"].keys()


@pytest.mark.parametrize("to", PROVIDERS)
def test_every_name_maps_back_and_an_unknown_one_gets_a_suggestion(to: str) -> None:
    found = Offer(to).found
    assert len(set(found.names.values())) == len(found.names) == len(found.tools)
    assert [found.route(name) for name in found.names] == list(found.names.values())
    with pytest.raises(ToolNotFoundError, match="did you mean 'no_parameters'"):
        found.route("no_parameter")


@pytest.mark.parametrize("to", PROVIDERS)
def test_a_tool_is_exported_alone_as_among_others(to: str) -> None:
    among = Offer(to).found
    for item, verdict in zip(AWKWARD, among.verdicts, strict=True):
        assert export([item.tool], to).verdicts == (verdict,)


def test_an_exponential_schema_is_refused_at_once() -> None:
    (bomb,) = (item for item in AWKWARD if item.name == "bomb")
    tool = bomb.tool
    tool.check()
    for to in PROVIDERS:
        begin = time.process_time()
        (verdict,) = export([tool], to).verdicts
        assert verdict.status == "refused"
        assert time.process_time() - begin < 1.0
