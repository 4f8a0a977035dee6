"""The awkward tools in every format, exported once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from tests.support.definitions.awkward_tools import AWKWARD, Awkward
from tests.support.definitions.exported_schemas import forward, schema_of
from toolcrib.catalog.export import Export, export
from toolcrib.validation.validator import Validator

Send = Callable[[str, dict[str, Any]], Any]


@cache
def export_all(to: str) -> Export:
    return export([item.tool for item in AWKWARD], to)


class ExportedTools:
    """The awkward tools in one format; the exportable ones come first."""

    def __init__(self, to: str) -> None:
        self.to = to
        self.found = export_all(to)
        self.tools: list[dict[str, Any]] = self.found.tools

    def pairs(self) -> list[tuple[Awkward, str, dict[str, Any]]]:
        """Return each exportable tool with its exported name and form."""
        exported = zip(self.found.names.items(), self.tools, strict=True)
        tools = {own: (name, tool) for (name, own), tool in exported}
        return [(item, *tools[item.name]) for item in AWKWARD if item.name in tools]

    def check_round_trips(self, send: Send) -> None:
        """Check that a call in the provider's own objects reaches each tool with the right arguments."""
        for item, name, tool in self.pairs():
            fits = Validator(item.schema).is_valid
            assert self.found.route(name) == item.name
            exported = Validator(schema_of(self.to, tool))
            (sent, *_) = (way for way in forward(self.found, item.arguments, name) if exported.is_valid(way))
            (call,) = self.found.read_call(send(name, sent))
            assert (call.name, call.error, call.exported) == (item.name, None, name)
            assert fits(call.arguments), (item.name, sent, call.arguments)
            assert call.arguments == item.arguments, item.name


@pytest.fixture
def exported_tools(request: pytest.FixtureRequest) -> ExportedTools:
    return ExportedTools(request.param)
