"""A shop with three tools, and three callers."""

from __future__ import annotations

from typing import Any

from toolcrib import Principal, Tool
from toolcrib.policy import Policy, Rule
from toolcrib.policy.access import Access

ANA = Principal("key:ana", roles=frozenset({"support"}))
BOB = Principal("key:bob")
CARLA = Principal("oauth:carla", scopes=frozenset({"orders:write", "mail"}))


def find(q: str = "") -> None: ...


def refund(order: str, amount: float = 1000) -> None: ...


def wipe(path: str = "/tmp") -> None: ...


FIND = Tool.from_function(find, read_only=True, tags=["orders"])
REFUND = Tool.from_function(refund, destructive=True, scopes=["orders:write"], aliases=["give_back"])
WIPE = Tool.from_function(wipe, destructive=True)
TOOLS = (FIND, REFUND, WIPE)


def make(*rules: Rule, **demands: Any) -> Access:
    return Access(Policy(rules=rules, **demands))


def names(view: tuple[Tool, ...]) -> list[str]:
    return [tool.name for tool in view]
