"""Tools, resources and prompts of servers written for `mcp` or `fastmcp`.

Neither library is imported here: the caller has loaded it already, and its classes
are reached through the server.
"""

from __future__ import annotations

from typing import Any

from toolcrib.component import Component
from toolcrib.sources.base import Batch, MemorySource, ReadOptions
from toolcrib.sources.foreign.interception import refused_tools
from toolcrib.sources.foreign.recognition import is_server

_FEATURE_OPTIONS = ("audit", "enabled", "group", "metadata", "scopes", "tags", "timeout_s")
"""Options of `server.add` that resources and prompts get too; the others describe tools."""


class ForeignServerSource(MemorySource):
    """A server object of `mcp` or `fastmcp`."""

    def accepts(self, target: Any) -> bool:
        return is_server(target)

    def read(self, target: Any, options: ReadOptions) -> Batch:
        from toolcrib.sources.foreign.reading import read_server  # start-up time: few programs have one

        reading = read_server(target)
        findings = [*reading.findings, *refused_tools(target)]
        features = {key: value for key, value in options.tool_options.items() if key in _FEATURE_OPTIONS}
        return Batch(
            [options.apply(tool) for tool in reading.tools],
            findings,
            resources=[_apply(features, item) for item in reading.resources],
            prompts=[_apply(features, item) for item in reading.prompts],
        )


def _apply(options: dict[str, Any], feature: Component) -> Component:
    return feature.with_options(**options) if options else feature
