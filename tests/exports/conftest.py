"""The awkward tools in every format, exported once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from tests.support.awkward_tools import AWKWARD, Awkward
from tests.support.exported_schemas import forward, schema_of
from toolcrib.catalog.export import Export, Verdict, export
from toolcrib.validation.validator import Validator

Send = Callable[[str, dict[str, Any]], Any]


@cache
def export_all(to: str) -> Export:
    return export([item.tool for item in AWKWARD], to)


class Offer:
    """The awkward tools in one format; the exportable ones come first."""

    def __init__(self, to: str) -> None:
        self.to = to
        self.found = export_all(to)
        self.tools: list[dict[str, Any]] = self.found.tools

    def pairs(self) -> list[tuple[Awkward, Verdict, dict[str, Any]]]:
        """Return each exportable tool with its verdict and its exported form."""
        tools = iter(self.tools)
        return [
            (item, verdict, next(tools))
            for item, verdict in zip(AWKWARD, self.found.verdicts, strict=True)
            if verdict.exported is not None
        ]

    def check_round_trips(self, send: Send) -> None:
        """Check that a call in the provider's own objects reaches each tool with the right arguments."""
        for item, verdict, tool in self.pairs():
            assert verdict.exported is not None
            fits = Validator(item.schema).is_valid
            assert self.found.route(verdict.exported) == item.name
            exported = Validator(schema_of(self.to, tool))
            (sent, *_) = (
                way for way in forward(self.found, item.arguments, verdict.exported) if exported.is_valid(way)
            )
            (call,) = self.found.read_call(send(verdict.exported, sent))
            assert (call.name, call.error, call.exported) == (item.name, None, verdict.exported)
            assert fits(call.arguments), (item.name, sent, call.arguments)
            assert call.arguments == item.arguments, item.name


@pytest.fixture
def offer(request: pytest.FixtureRequest) -> Offer:
    return Offer(request.param)
