"""The name of a tool in a registry: namespaces, rules, shortened names."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib import Tool
from toolcrib.errors import InvalidNameError, InvalidToolError
from toolcrib.names import MCP, PORTABLE
from toolcrib.registry.index import name_tool, report_shortened

LONG = "a" * 40 + "_" + "b" * 40


def named(name: Any, namespace: str | None = None, **options: Any) -> Tool:
    tool = Tool.from_function(lambda: name, name="anything", **options)
    tool.name, tool.namespace = name, namespace
    return tool


def test_a_tool_that_needs_no_change_is_not_copied() -> None:
    tool = named("echo", aliases=["say"])
    assert name_tool(tool, None, "_", PORTABLE) is tool


def test_the_namespace_given_wins_over_the_tools_own_and_empty_is_none() -> None:
    tool = named("echo", "app")
    assert name_tool(tool, None, "_", PORTABLE).name == "app_echo"
    assert name_tool(tool, "mine", "__", PORTABLE).name == "mine__echo"
    bare = name_tool(tool, "", "_", PORTABLE)
    assert (bare.name, bare.namespace) == ("echo", None)
    assert (tool.name, tool.namespace) == ("echo", "app")


def test_a_name_that_is_prefixed_once_is_not_prefixed_again() -> None:
    once = name_tool(named("echo", "app"), None, "_", PORTABLE)
    assert name_tool(once, None, "_", PORTABLE).name == "app_echo"


def test_aliases_are_prefixed_too() -> None:
    tool = named("echo", aliases=["say"])
    assert name_tool(tool, "app", "_", PORTABLE).options.aliases == ["app_say"]
    assert tool.options.aliases == ["say"]


@pytest.mark.parametrize("name", ["echo", LONG])
def test_aliases_keep_the_rule_whatever_the_name(name: str) -> None:
    with pytest.raises(InvalidNameError, match="say it"):
        name_tool(named(name, aliases=["say it"]), None, "_", PORTABLE)


def test_a_long_name_is_shortened_and_remembered() -> None:
    short = name_tool(named(LONG), None, "_", PORTABLE)
    assert len(short.name) == 64
    assert short.long_name == LONG
    (finding,) = report_shortened(short)
    assert (finding.code, finding.level, finding.tool) == ("shortened-name", "warning", short.name)
    assert LONG in finding.message
    assert finding.file == __file__
    assert report_shortened(named("echo")) == []


def test_a_long_name_that_was_written_is_kept_and_one_that_a_prefix_made_long_is_shortened() -> None:
    assert name_tool(named(LONG), None, "_", MCP).name == LONG
    short = name_tool(named(LONG), "app", "_", MCP)
    assert (len(short.name), short.long_name) == (64, f"app_{LONG}")
    assert name_tool(short, None, "_", MCP) is short


def test_shortening_does_not_hide_what_the_rule_refuses() -> None:
    with pytest.raises(InvalidNameError):
        name_tool(named("a" * 40 + " ; drop " + "b" * 40), None, "_", PORTABLE)


def test_anything_that_was_never_a_name_is_not_shortened() -> None:
    with pytest.raises(InvalidNameError, match="got 513"):
        name_tool(named("a" * 513), None, "_", PORTABLE)


@pytest.mark.parametrize("namespace", [None, "app"])
def test_a_name_that_is_not_text_is_refused_with_and_without_prefix(namespace: str | None) -> None:
    with pytest.raises(InvalidToolError, match="must be string, got <class 'int'>"):
        name_tool(named(123), namespace, "_", PORTABLE)


def test_a_prefix_that_breaks_the_rule_is_refused() -> None:
    with pytest.raises(InvalidNameError, match="my app_echo"):
        name_tool(named("echo"), "my app", "_", PORTABLE)
