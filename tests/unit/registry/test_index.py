"""The name index: names, versions and spellings."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from toolcrib import Tool, ToolAlreadyExistsError
from toolcrib.registry.index import Entry, NameIndex, Snapshot, VersionGroup, spellings, version_key


def named(name: str, **options: Any) -> Tool:
    return Tool.from_function(lambda: name, name=name, **options)


def space_of(*tools: Tool) -> NameIndex:
    space = NameIndex()
    for tool in tools:
        space.check_free(tool)
        space.put(tool, enabled=tool.options.enabled)
    return space


# --- versions -----------------------------------------------------------------------------------------


def test_versions_order_as_people_read_them() -> None:
    ordered = [None, "", "1", "1.0", "2.0alpha", "2.0beta", "2.0", "2.0.1", "2.1", "10", "2026-07-28"]
    for older, newer in itertools.pairwise(ordered):
        assert version_key(older) < version_key(newer), (older, newer)


def test_leading_zeros_and_letters_case_make_no_version_newer() -> None:
    assert version_key("1.02") == version_key("1.2")
    assert version_key("1-RC1") == version_key("1-rc1")


def test_a_number_of_any_length_orders() -> None:
    assert version_key("9" * 5000) < version_key("1" + "0" * 5000)


# --- groups -------------------------------------------------------------------------------------------


def test_a_group_shows_its_newest_enabled_version() -> None:
    old, new = named("echo", version="2"), named("echo", version="10")
    group = VersionGroup([Entry(old, True), Entry(new, True)])
    assert group.newest is not None
    assert group.newest.tool is new
    assert VersionGroup([Entry(old, True), Entry(new, False)]).newest == Entry(old, True)
    assert VersionGroup([Entry(old, False), Entry(new, False)]).newest is None
    assert VersionGroup([Entry(old, False)]).newest is None


def test_a_group_answers_to_the_spellings_of_all_its_versions() -> None:
    group = VersionGroup(
        [Entry(named("echo", aliases=["say"]), True), Entry(named("echo", version="2"), True)]
    )
    assert group.spellings == ("echo", "say")


def test_a_tool_is_spelt_by_name_long_form_and_aliases() -> None:
    tool = named("short", aliases=["other"]).renamed("short", long_name="a_long_name")
    assert spellings(tool) == ("short", "a_long_name", "other")


# --- finding ------------------------------------------------------------------------------------------


def test_find_gives_all_versions_of_a_name_or_the_one_after_the_at_sign() -> None:
    one, two = named("echo", version="1", aliases=["say"]), named("echo", version="2")
    space = space_of(one, two)
    assert [entry.tool for entry in space.find("ECHO")] == [two, one]
    assert [entry.tool for entry in space.find("echo@1")] == [one]
    assert [entry.tool for entry in space.find("Say@2")] == [two]
    for unknown in ("", "@", "@1", "echo@", "echo@3", "ech", "nothing@1"):
        assert space.find(unknown) == []


def test_a_snapshot_finds_every_spelling_and_only_enabled_versions() -> None:
    one, two = named("Echo", version="1"), named("Echo", version="2", enabled=False, aliases=["say"])
    snapshot = Snapshot.of(space_of(one, two), 7)
    assert snapshot.revision == 7
    for spelling in ("Echo", "echo", "ECHO", "say", "SAY", "echo@1", "Say@1"):
        assert snapshot.find(spelling) is one
    for spelling in ("echo@2", "echo@3", "nothing", "nothing@1", "", "@"):
        assert snapshot.find(spelling) is None
    assert Snapshot.of(space_of(named("off", enabled=False)), 1).find("off") is None


# --- clashes ------------------------------------------------------------------------------------------


def test_every_spelling_of_a_newcomer_must_be_free() -> None:
    space = space_of(named("echo", aliases=["say"]), named("long").renamed("sh_rt", long_name="long_name"))
    for newcomer in (
        named("say"),
        named("SAY"),
        named("new", aliases=["Echo"]),
        named("new", aliases=["say"]),
        named("LONG_name"),
        named("new").renamed("new", long_name="echo"),
    ):
        with pytest.raises(ToolAlreadyExistsError) as refusal:
            space.check_free(newcomer)
        assert refusal.value.existing.file == refusal.value.source.file == __file__


def test_versions_of_one_name_do_not_clash_with_each_other() -> None:
    space = space_of(named("echo", aliases=["say"]))
    space.check_free(named("Echo", version="2", aliases=["say"]))


# --- changing -----------------------------------------------------------------------------------------


def test_putting_a_tool_in_the_place_of_another_keeps_the_order_and_forgets_old_spellings() -> None:
    first, second = named("Id", aliases=["say"]), named("other")
    space = space_of(first, second)
    again = named("id", aliases=["speak"])
    space.put(again, enabled=True)
    assert list(space.groups) == ["id", "other"]
    assert space.find("say") == []
    assert [entry.tool for entry in space.find("speak")] == [again]
    space.check_free(named("say"))


def test_anything_that_is_dropped_leaves_nothing_behind() -> None:
    one, two = named("echo", version="1", aliases=["say"]), named("echo", version="2", aliases=["talk"])
    space = space_of(one, two)
    space.drop(space.find("echo@1"))
    assert space.find("say") == []
    assert [entry.tool for entry in space.find("talk")] == [two]
    space.drop(space.find("echo"))
    assert space == NameIndex()


def test_switching_returns_what_was_not_so_already() -> None:
    one, two = named("echo", version="1"), named("echo", version="2", enabled=False)
    space = space_of(one, two)
    assert [entry.tool for entry in space.set_enabled(space.find("echo"), True)] == [two]
    assert space.set_enabled(space.find("echo"), True) == []
    assert space.listed == 1
    space.set_enabled(space.find("echo"), False)
    assert space.listed == 0


def test_a_copy_is_a_space_of_its_own() -> None:
    space = space_of(named("echo"))
    copy = space.copy()
    copy.put(named("other"), enabled=True)
    copy.drop(copy.find("echo"))
    assert (list(space.groups), space.listed, list(copy.groups)) == (["echo"], 1, ["other"])
    assert space.find("echo")
    assert not space.find("other")
