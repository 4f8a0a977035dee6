"""ToolRegistry: adding tools, one by one and in batches."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.definitions.small_tools import broken, named, names, state
from toolcrib import Tool, ToolAlreadyExistsError, ToolRegistry
from toolcrib.errors import (
    BatchError,
    DefinitionError,
    InvalidNameError,
    InvalidSchemaError,
    InvalidToolError,
)
from toolcrib.names import PORTABLE
from toolcrib.registry import registry
from toolcrib.registry.registry import Change


@pytest.fixture
def tools() -> ToolRegistry:
    return ToolRegistry()


@pytest.fixture
def heard(tools: ToolRegistry) -> list[Change]:
    changes: list[Change] = []
    tools.subscribe(changes.append)
    return changes


# --- adding -------------------------------------------------------------------------------------------


@pytest.mark.requirement("U-23")
def test_add_takes_a_tool_a_function_and_a_tool_object(tools: ToolRegistry) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    async def execute(arguments: dict[str, Any]) -> str:
        return "done"

    schema = {"type": "object", "properties": {}}
    thing = SimpleNamespace(name="thing", description="A thing.", input_schema=schema, execute=execute)
    assert [tools.add(item).name for item in (named("one"), add, thing)] == ["one", "add", "thing"]
    assert (tools.get("add").origin, tools.get("thing").origin) == (add, thing)


def test_add_refuses_what_is_not_a_tool(tools: ToolRegistry) -> None:
    with pytest.raises(InvalidToolError, match="Not a tool: int"):
        tools.add(5)
    assert state(tools) == (0, [], [], 0)


def test_add_returns_what_is_registered_under_its_name_here(tools: ToolRegistry) -> None:
    tool = named("echo")
    stored = tools.add(tool, namespace="app")
    assert stored is tools.get("app_echo")
    assert tool.name == "echo"


@pytest.mark.requirement("U-24")
@pytest.mark.requirement("X-03")
def test_a_duplicate_is_refused_and_carries_both_places(tools: ToolRegistry) -> None:
    first, second = named("echo"), named("ECHO")
    tools.add(first)
    with pytest.raises(ToolAlreadyExistsError, match=r"(?m)^Tool 'ECHO' already registered$") as refusal:
        tools.add(second)
    assert (refusal.value.source, refusal.value.existing) == (second.source, first.source)
    assert tools.get_all() == [first]


@pytest.mark.requirement("A-03")
def test_keep_keeps_the_first_and_changes_nothing(heard: list[Change], tools: ToolRegistry) -> None:
    first = tools.add(named("echo"))
    assert tools.add(named("echo"), on_duplicate="keep") is first
    assert (len(heard), tools.revision) == (1, 1)


@pytest.mark.requirement("X-03")
def test_replace_as_a_policy_puts_the_second_in_the_place_of_the_first(heard: list[Change]) -> None:
    tools = ToolRegistry(on_duplicate="replace")
    tools.subscribe(heard.append)
    for name in ("one", "two", "three"):
        tools.add(named(name))
    second = tools.add(named("ONE"))
    assert names(tools) == ["ONE", "two", "three"]
    assert tools.get("one") is second
    assert (heard[-1].kind, heard[-1].names) == ("replaced", ("ONE",))


@pytest.mark.parametrize("policy", ["error", "keep", "replace"])
def test_an_alias_of_another_tool_is_nobodys_to_keep_or_replace(policy: Any) -> None:
    tools = ToolRegistry(on_duplicate=policy)
    tools.add(named("store", aliases=["put"]))
    with pytest.raises(ToolAlreadyExistsError, match=r"(?m)^Tool 'put' already registered$"):
        tools.add(named("put"))
    assert names(tools) == ["store"]


@pytest.mark.parametrize("settings", [{"name_rule": "loose"}, {"on_duplicate": "ignore"}])
def test_a_setting_that_does_not_exist_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        ToolRegistry(**settings)


def test_a_policy_that_does_not_exist_is_refused_where_it_is_given(tools: ToolRegistry) -> None:
    tools.add(named("echo"))
    for write in (
        lambda: tools.add(named("echo"), on_duplicate="ignore"),
        lambda: tools.add_all([], on_duplicate="x"),
    ):
        with pytest.raises(ValueError, match="on_duplicate must be"):
            write()


def test_a_rule_may_be_given_by_itself() -> None:
    assert ToolRegistry(name_rule=PORTABLE).rule is PORTABLE
    with pytest.raises(InvalidNameError):
        ToolRegistry(name_rule="strict").add(named("Upper"))
    assert ToolRegistry(name_rule="mcp").add(named("a.b")).name == "a.b"


def test_a_registry_has_an_end(tools: ToolRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MAX_TOOLS", 2)
    tools.add_all([named("one"), named("two")])
    with pytest.raises(DefinitionError, match="at most 2 tools"):
        tools.add(named("three"))
    tools.replace(named("two"))


def test_adding_builds_nothing_until_somebody_looks(tools: ToolRegistry) -> None:
    tools.add(broken())
    tools.replace(broken())
    assert tools.add_all([broken("other")]).ok
    with pytest.raises(InvalidSchemaError):
        _ = tools.get("broken").definition


def test_an_eager_registry_builds_what_it_takes(tools: ToolRegistry) -> None:
    tools.add(named("held"))
    tools.eager = True
    for write in (tools.add, tools.replace):
        with pytest.raises(InvalidSchemaError):
            write(broken("held2") if write == tools.add else broken("held"))
    report = tools.add_all([broken(), named("fine")])
    assert (names(tools), [finding.tool for finding in report.errors]) == (["held", "fine"], ["broken"])
    assert tools.add(named("good")).name == "good"
    assert tools.replace(named("good")) is tools.get("good")


# --- many at once -------------------------------------------------------------------------------------


@pytest.mark.requirement("A-04", "G-08", "X-25")
def test_a_batch_registers_the_good_and_reports_the_bad(tools: ToolRegistry, heard: list[Change]) -> None:
    report = tools.add_all(iter([named("one"), 5, named("bad name"), named("two"), named("ONE")]))
    assert names(tools) == [tool.name for tool in report.registered] == ["one", "two"]
    assert [finding.code for finding in report.errors] == ["invalid-tool", "invalid-name", "duplicate-name"]
    assert (report.errors[2].file, report.ok) == (report.registered[0].source.file, False)
    assert [(change.kind, change.names, change.revision) for change in heard] == [
        ("added", ("one", "two"), 1)
    ]
    assert str(report).startswith("2 registered, 3 refused\n  error[invalid-tool] Not a tool: int (hint: ")


def test_a_tool_object_whose_own_code_fails_is_one_more_finding(tools: ToolRegistry) -> None:
    class Moody:
        description = "Raises when it is asked its name."
        input_schema = {"type": "object", "properties": {}}
        execute = print

        @property
        def name(self) -> str:
            raise RuntimeError("not today")

    report = tools.add_all([Moody(), named("fine")])
    assert names(tools) == ["fine"]
    assert report.errors[0].message == "Moody cannot be read as a tool: RuntimeError: not today"


def test_a_batch_of_nothing_is_not_a_change(tools: ToolRegistry, heard: list[Change]) -> None:
    assert tools.add_all([]).ok
    assert not tools.add_all([5]).ok
    assert (heard, tools.revision) == ([], 0)


def test_a_batch_may_add_and_replace_in_one_change(tools: ToolRegistry, heard: list[Change]) -> None:
    tools.add_all([named("one"), named("two")])
    tools.add_all([named("one"), named("two")], on_duplicate="replace")
    report = tools.add_all([named("one"), named("three")], on_duplicate="replace")
    kept = tools.add_all([named("one"), named("four")], on_duplicate="keep")
    assert [change.kind for change in heard] == ["added", "replaced", "changed", "added"]
    assert heard[-1].names == ("four",)
    assert [tool.name for tool in (*report.registered, *kept.registered)] == ["one", "three", "four"]


def test_of_two_that_replace_each_other_in_one_batch_the_last_is_registered(tools: ToolRegistry) -> None:
    first, last = named("one"), named("ONE")
    report = tools.add_all([first, named("two"), last], on_duplicate="replace")
    assert [tool.name for tool in report.registered] == names(tools) == ["ONE", "two"]
    assert tools.get("one") is last


def test_a_generator_may_look_at_the_registry_it_fills(tools: ToolRegistry) -> None:
    def grow() -> Iterator[Tool]:
        for number in range(3):
            assert (len(tools), names(tools)) == (0, [])
            yield named(f"tool_{number}")

    tools.add_all(grow())
    assert len(tools) == 3


def test_a_generator_that_fails_changes_nothing(tools: ToolRegistry) -> None:
    def fail() -> Iterator[Tool]:
        yield named("one")
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        tools.add_all(fail())
    assert state(tools) == (0, [], [], 0)


@pytest.mark.requirement("G-08", "X-25")
@pytest.mark.parametrize("wrong", [named("bad name"), broken(), named("held"), 5], ids=str)
def test_a_strict_batch_is_all_or_nothing(
    tools: ToolRegistry, heard: list[Change], caplog: pytest.LogCaptureFixture, wrong: Any
) -> None:
    tools.add_all([named("held"), named("long")])
    heard.clear()
    before, snapshot = state(tools), tools.snapshot
    with pytest.raises(BatchError, match=r"^Nothing registered, 1 refused: ") as refusal:
        tools.add_all([named("first"), named("a" * 70), wrong, named("off", enabled=False)], strict=True)
    assert state(tools) == before
    assert (tools.snapshot, heard, caplog.records) == (snapshot, [], [])
    assert [finding.level for finding in refusal.value.findings].count("error") == 1
    tools.add(named("after"))
    assert names(tools) == ["held", "long", "after"]


def test_a_strict_batch_without_a_fault_is_registered_and_built(
    tools: ToolRegistry, heard: list[Change]
) -> None:
    report = tools.add_all([named("one"), named("a" * 140)], strict=True)
    assert [finding.code for finding in report.findings if finding.level == "warning"] == ["shortened-name"]
    assert (len(tools), len(heard)) == (2, 1)
