"""What a list of tools costs a model, and whether that is too much.

Most lists are so short that their bytes say so; long ones are estimated from a part. Knows tools and tokens;
refuses to know what is done about it.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib import codec
from toolcrib.tool import Tool

DEFAULT_BUDGET_TOKENS = 20_000
_SAMPLED = 250


class Budget:
    """So many tokens a list may take. What was counted once is not counted again while the tool is there."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self._costs: dict[Tool, int] = {}

    def is_exceeded(self, tools: Sequence[Tool]) -> bool:
        return self.is_surely_kept(tools) is False and self.count(tools) > self.tokens

    def is_surely_kept(self, tools: Sequence[Tool]) -> bool:
        """Whether a list is within the budget even if every byte were a token."""
        if 4 * len(tools) > self.tokens:
            return False
        return sum(map(_size_of, tools)) <= self.tokens

    def count(self, tools: Sequence[Tool]) -> int:
        """The tokens of a list, nearly; of one that is far too long, estimated from every so many tools."""
        if len(tools) > 2 * _SAMPLED:
            sample = tools[:: len(tools) // _SAMPLED]
            guess = self._sum(sample) * len(tools) // len(sample)
            if guess > 2 * self.tokens:
                return guess
        total = self._sum(tools)
        self._costs = {tool: self._costs[tool] for tool in tools}
        return total

    def _sum(self, tools: Sequence[Tool]) -> int:
        from toolcrib.catalog.tokens import cost_of  # delayed: most servers have short lists

        for tool in tools:
            if tool not in self._costs:
                self._costs[tool] = cost_of(tool.definition)
        return sum(self._costs[tool] for tool in tools)


def _size_of(tool: Tool) -> int:
    """As many bytes as a tool could have tokens."""
    definition = tool.definition
    try:
        return 40 + len(codec.write([definition.name, definition.description, definition.input_schema]))
    except (TypeError, ValueError):
        return 0  # not the plain data that it should be; that is found elsewhere
