"""Selecting tools by name, glob, pattern and tag."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib import MCPServer, Tool
from toolcrib.errors import ConfigurationError
from toolcrib.registry.selection import count_kinds, label_of, name_kinds, select, sort_kinds, tags_of


def named(name: str, **options: Any) -> Tool:
    return Tool.from_function(lambda: name, name=name, **options)


def documented() -> None:
    """Do it.

    Tags:
        nightly, slow
    """


TOOLS = [
    named("github_create_issue", tags=["issues"], destructive=True),
    named("github_list_issues", tags=["issues"], read_only=True),
    named("jira_list", read_only=True, idempotent=True, aliases=["issues_of_jira"]),
    named("mail_send", open_world=True).renamed("mail_5end", long_name="mail_send_with_a_long_name"),
    Tool.from_function(documented),
]


def names(include: list[str], exclude: list[str] | None = None) -> list[str]:
    return [tool.name for tool in select(TOOLS, include, exclude or [])]


@pytest.mark.requirement("G-22")
@pytest.mark.requirement("G-05", "X-28")
@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("jira_list", ["jira_list"]),
        ("github_*", ["github_create_issue", "github_list_issues"]),
        ("*_list*", ["github_list_issues", "jira_list"]),
        ("????_list", ["jira_list"]),
        ("re:.*_issues?", ["github_create_issue", "github_list_issues"]),
        ("re:jira_list", ["jira_list"]),
        ("tag:issues", ["github_create_issue", "github_list_issues"]),
        ("tag:read-only", ["github_list_issues", "jira_list"]),
        ("tag:destructive", ["github_create_issue"]),
        ("tag:idempotent", ["jira_list"]),
        ("tag:open-world", ["mail_5end"]),
        ("tag:nightly", ["documented"]),
        ("issues_of_*", ["jira_list"]),
        ("mail_send_with_a_long_name", ["mail_5end"]),
    ],
)
def test_a_selector_means_what_it_says(selector: str, expected: list[str]) -> None:
    assert names([selector]) == expected


def test_without_selectors_everything_is_chosen() -> None:
    assert select(TOOLS) == TOOLS


@pytest.mark.requirement("G-05")
def test_includes_add_up_in_the_order_of_the_tools_and_excluding_wins() -> None:
    assert names(["jira_*", "github_*"]) == ["github_create_issue", "github_list_issues", "jira_list"]
    assert names(["github_*", "jira_*"], ["tag:read-only"]) == ["github_create_issue"]
    assert names([], ["tag:read-only", "mail_*", "documented"]) == ["github_create_issue"]


@pytest.mark.parametrize("selector", ["gitlab_*", "tag:none", "re:jira", "JIRA_LIST", ""])
def test_a_selector_that_fits_nothing_fails_loudly(selector: str) -> None:
    with pytest.raises(ConfigurationError, match="matches no tool"):
        names([selector])
    with pytest.raises(ConfigurationError, match="matches no tool"):
        names([], [selector])


def test_a_pattern_that_is_none_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"'re:\(' is not a valid pattern"):
        names(["re:("])


def test_every_selector_that_is_wrong_is_told() -> None:
    with pytest.raises(ConfigurationError) as caught:
        names(["re:(", "jira_list", "nothing"], ["tga:x"])
    messages = [error.message for error in (caught.value, *caught.value.others)]
    quoted = [message.split("'")[1] for message in messages]
    assert quoted == ["re:(", "nothing", "tga:x"]


def test_a_text_in_place_of_a_list_is_a_slip() -> None:
    with pytest.raises(ConfigurationError, match="must be a list, got the string 'jira_list'"):
        select(TOOLS, "jira_list")


def test_a_tool_that_cannot_be_built_still_has_the_tags_of_its_options() -> None:
    broken = Tool.from_handler(lambda: 1, "broken", "Does not build.", {"type": "array"}, tags=["x"])
    assert tags_of(broken) == ("x",)
    assert select([broken], ["tag:x"]) == [broken]


def test_counts_name_every_kind() -> None:
    assert count_kinds([]) == "0 tools"
    assert count_kinds(["prompt", "tool", "tool"]) == "2 tools and 1 prompt"
    assert count_kinds(["template", "resource", "resource"]) == "2 resources and 1 template"


def test_a_selector_that_matches_nothing_says_what_it_could_match() -> None:
    server = MCPServer("kinds")
    server.prompt(name_prompt)
    server.add_resource("a://b", "text")
    prompts, resources = list(server.prompts), list(server.resources)
    assert name_kinds("x", []) == "tool"
    assert name_kinds("x", prompts) == "tool or prompt"
    assert name_kinds("x", [*prompts, *resources]) == "tool, resource or prompt"
    assert name_kinds("resource:x", prompts) == "resource"
    with pytest.raises(ConfigurationError, match="'prompt:x' matches no prompt"):
        select(prompts, ["prompt:x"])
    assert [label_of(tool) for tool in sort_kinds([*prompts, *resources])] == ["resource", "prompt"]


def name_prompt() -> str:
    """Ask for a name."""
    return "What is your name?"
