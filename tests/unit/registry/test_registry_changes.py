"""ToolRegistry: replace, enable, seal, read and subscribe."""

from __future__ import annotations

import logging

import pytest

from tests.support.definitions.small_tools import broken, named, names, state
from toolcrib import Finding, ToolAlreadyExistsError, ToolNotFoundError, ToolRegistry
from toolcrib.errors import RegistrationClosedError
from toolcrib.registry.registry import Change


@pytest.fixture
def tools() -> ToolRegistry:
    return ToolRegistry()


@pytest.fixture
def heard(tools: ToolRegistry) -> list[Change]:
    changes: list[Change] = []
    tools.subscribe(changes.append)
    return changes


# --- replacing, removing, switching -------------------------------------------------------------------


def test_replace_takes_the_place_of_the_tool_of_its_name_and_version(
    tools: ToolRegistry, heard: list[Change]
) -> None:
    tools.add_all([named("one"), named("two", version="1"), named("two", version="2"), named("three")])
    new = tools.replace(named("two", version="1", aliases=["zwei"]))
    assert names(tools) == ["one", "two", "three"]
    assert tools.get("two@1") is new
    assert tools.get("two").version == "2"
    assert (heard[-1].kind, heard[-1].names) == ("replaced", ("two",))
    with pytest.raises(ToolNotFoundError, match=r"^Unknown tool: two$"):
        tools.replace(named("two", version="3"))


def test_replace_knows_the_tool_by_its_name_in_the_registry(tools: ToolRegistry) -> None:
    tool = named("echo")
    tool.namespace = "app"
    tools.add(tool)
    again = named("echo")
    again.namespace = "app"
    assert tools.replace(again) is tools.get("app_echo")


def test_replacing_keeps_what_was_switched_by_hand_and_follows_what_the_author_says(
    tools: ToolRegistry,
) -> None:
    tools.add_all([named("on"), named("off", enabled=False)])
    tools.disable("on")
    tools.replace(named("on"))
    tools.replace(named("off"))
    assert names(tools) == ["off"]
    tools.enable("on")
    tools.replace(named("on", enabled=False))
    assert names(tools) == ["off"]


def test_a_replacement_may_not_take_a_strangers_spelling(tools: ToolRegistry) -> None:
    tools.add_all([named("one"), named("two")])
    before = state(tools)
    with pytest.raises(ToolAlreadyExistsError):
        tools.replace(named("one", aliases=["two"]))
    assert state(tools) == before


def test_remove_takes_all_versions_or_one(tools: ToolRegistry, heard: list[Change]) -> None:
    tools.add_all([named("one", version="1"), named("one", version="2"), named("two")])
    tools.remove("ONE@2")
    assert tools.get("one").version == "1"
    tools.remove("one")
    assert names(tools) == ["two"]
    assert [(change.kind, change.names) for change in heard[1:]] == [("removed", ("one",))] * 2
    for write in (tools.remove, tools.enable, tools.disable):
        with pytest.raises(ToolNotFoundError, match=r"^Unknown tool: one$"):
            write("one")
    tools.add(named("one"))


def test_tools_of_several_names_are_removed_as_one_change(tools: ToolRegistry, heard: list[Change]) -> None:
    tools.add_all([named("one"), named("two", version="1"), named("two", version="2"), named("three")])
    tools.remove_tools([tools.get("one"), tools.get("two@1"), named("three")])
    assert [(tool.name, tool.version) for tool in tools] == [("two", "2"), ("three", None)]
    assert [change.kind for change in heard].count("removed") == 1


def test_disabling_hides_and_enabling_brings_back_in_the_same_place(
    tools: ToolRegistry, heard: list[Change]
) -> None:
    tools.add_all([named("one"), named("two"), named("three")])
    tools.disable("two")
    assert (names(tools), len(tools), "two" in tools, tools.try_get("two")) == (
        ["one", "three"],
        2,
        False,
        None,
    )
    with pytest.raises(ToolNotFoundError):
        tools.get("two")
    assert [entry.enabled for entry in tools.entries()] == [True, False, True]
    tools.enable("two")
    assert (names(tools), len(tools), "two" in tools) == (["one", "two", "three"], 3, True)
    assert [change.kind for change in heard] == ["added", "disabled", "enabled"]


def test_switching_what_is_so_already_is_not_a_change(tools: ToolRegistry, heard: list[Change]) -> None:
    tools.add(named("one"))
    tools.enable("one")
    tools.disable("one")
    tools.disable("one")
    assert ([change.kind for change in heard], tools.revision) == (["added", "disabled"], 2)


def test_where_the_newest_version_is_disabled_the_next_one_answers(tools: ToolRegistry) -> None:
    tools.add_all([named("one", version=version) for version in ("1", "2", "10")])
    assert tools.get("one").version == "10"
    tools.disable("one@10")
    assert (tools.get("one").version, len(tools)) == ("2", 1)
    tools.disable("one")
    assert (tools.try_get("one"), tools.try_get("one@1"), len(tools)) == (None, None, 0)
    assert [tool.version for tool in tools.versions("ONE")] == ["10", "2", "1"]
    assert tools.versions("two") == []


# --- sealing ------------------------------------------------------------------------------------------


def test_a_sealed_registry_has_built_everything_and_takes_nothing(
    tools: ToolRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    tools.add_all([named("good"), broken(), named("off", enabled=False)])
    findings = tools.seal("closed for today")
    assert tools.sealed
    assert [finding.tool for finding in findings if finding.level == "error"] == ["broken"]
    assert [definition.name for definition in tools.definitions()] == ["good"]
    assert [record.getMessage() for record in caplog.records if "broken" in record.getMessage()] == [
        f"tool 'broken' is not published: {findings[0]}"
    ]
    writes = (
        lambda: tools.add(named("x")),
        lambda: tools.add_all([named("x")]),
        lambda: tools.replace(named("good")),
        lambda: tools.remove("good"),
        lambda: tools.enable("off"),
        lambda: tools.disable("good"),
    )
    for write in writes:
        with pytest.raises(RegistrationClosedError, match=r"^closed for today$"):
            write()
    tools.reopen()
    tools.add(named("x"))


def test_a_broken_tool_is_told_once_for_each_version(
    tools: ToolRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    tools.add_all([broken().with_options(version="1"), broken().with_options(version="2"), named("good")])
    assert [tool.name for tool in tools.published()] == ["good"]
    assert len(caplog.records) == 1  # the newest version
    for _ in range(3):
        tools.check()
        assert [tool.name for tool in tools.published()] == ["good"]
    assert len(caplog.records) == 2


def test_check_speaks_of_everything_in_order(tools: ToolRegistry) -> None:
    tools.add_all([broken("zz"), named("x" * 140), broken("aa")])
    assert [(finding.code, finding.level) for finding in tools.check()] == [
        ("invalid-schema", "error"),
        ("shortened-name", "warning"),
        ("invalid-schema", "error"),
    ]
    assert all(isinstance(finding, Finding) for finding in tools.check())


# --- reading ------------------------------------------------------------------------------------------


@pytest.mark.requirement("A-05")
def test_one_way_to_look_up_raises_and_the_other_does_not(tools: ToolRegistry) -> None:
    one = tools.add(named("one"))
    assert tools.get("one") is tools.try_get("one") is one
    assert tools.try_get("two") is None
    with pytest.raises(ToolNotFoundError, match=r"^Unknown tool: two$"):
        tools.get("two")


@pytest.mark.requirement("A-06")
def test_length_membership_and_iteration_agree(tools: ToolRegistry) -> None:
    tools.add_all(
        [named("one"), named("two", enabled=False), named("three", version="1"), named("three", version="2")]
    )
    assert len(tools) == len(list(tools)) == len(tools.get_all()) == 2
    assert all(tool.name in tools for tool in tools)
    assert "two" not in tools
    assert 5 not in tools
    assert [tool.name for tool in tools.select(["t*"])] == ["three"]


def test_both_spellings_of_a_shortened_name_can_be_looked_up(
    tools: ToolRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    long = "fetch_" * 25 + "all"
    stored = tools.add(named(long))
    assert tools.get(long) is tools.get(stored.name) is tools.get(long.upper()) is stored
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"Tool name '{long}' is too long and becomes '{stored.name}'; both can be called")
    ]


def test_check_free_says_what_adding_would_say(tools: ToolRegistry) -> None:
    first = tools.add(named("echo", aliases=["say"], enabled=False))
    for name in ("echo", "ECHO", "say"):
        with pytest.raises(ToolAlreadyExistsError) as refusal:
            tools.check_free(name)
        assert refusal.value.existing == first.source
    tools.check_free("other")
    tools.check_free("echo", version="2")


def test_a_snapshot_never_changes(tools: ToolRegistry) -> None:
    tools.add_all([named("one"), named("two")])
    snapshot = tools.snapshot
    seen = (snapshot.tools, dict(snapshot.index), snapshot.revision)
    assert tools.snapshot is snapshot
    tools.disable("one")
    tools.remove("two")
    tools.add(named("three"))
    assert (snapshot.tools, dict(snapshot.index), snapshot.revision) == seen
    assert snapshot.find("one") is not None
    assert tools.snapshot.revision == tools.revision == 4


# --- listening ----------------------------------------------------------------------------------------


def test_a_listener_that_fails_is_logged_and_stops_nobody(
    tools: ToolRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def fail(change: Change) -> None:
        heard.append("failed")
        raise RuntimeError("no")

    tools.subscribe(fail)
    tools.subscribe(lambda change: heard.append(change.kind))
    tools.add(named("one"))
    tools.add(named("two"))
    assert heard == ["failed", "added", "failed", "added"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2


def test_a_listener_may_read_and_write_the_registry(tools: ToolRegistry) -> None:
    def follow(change: Change) -> None:
        if change.names == ("one",):
            assert names(tools) == ["one"]
            tools.add(named("two"))

    tools.subscribe(follow)
    tools.add(named("one"))
    assert names(tools) == ["one", "two"]


def test_anyone_who_ends_a_subscription_hears_no_more(tools: ToolRegistry, heard: list[Change]) -> None:
    others: list[Change] = []
    end = tools.subscribe(others.append)
    tools.add(named("one"))
    end()
    end()
    tools.add(named("two"))
    assert (len(others), len(heard)) == (1, 2)
