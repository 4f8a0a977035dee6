"""Mapping names of tools and properties to ones that providers accept."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.catalog.export.dialect import map_names
from toolcrib.catalog.export.formats import ANTHROPIC, GEMINI, OPENAI
from toolcrib.names import shorten_name

RULE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")


def test_an_accepted_name_stays_whatever_else_is_exported() -> None:
    assert map_names(["files_read", "files.read", "files/read"])["files_read"] == "files_read"


def test_other_characters_become_underscores() -> None:
    assert map_names(["files.read", "a b", "größe"]) == {
        "files.read": "files_read",
        "a b": "a_b",
        "größe": "gr__e",
    }


def test_names_that_differ_only_in_such_characters_stay_unique() -> None:
    found = map_names(["files.read", "files/read", "files:read"])
    assert len(set(found.values())) == 3
    assert all(re.fullmatch(r"files_read_[0-9a-f]{8}", name) for name in found.values())


def test_the_order_of_tools_does_not_matter() -> None:
    names = ["files.read", "files/read", "files_read", "x" * 80, "日本", "中国", "1st", "-"]
    assert map_names(names) == {name: map_names(reversed(names))[name] for name in names}


def test_the_digest_of_a_long_name_is_not_cut_off() -> None:
    stem = "a_tool_of_a_very_long_server_name" * 3
    names = [f"{stem}.{number}" for number in range(50)] + [f"{stem}_{number}" for number in range(50)]
    found = map_names(names)
    assert len(set(found.values())) == 100
    assert all(RULE.fullmatch(name) for name in found.values())


def test_a_long_name_is_shortened_as_registries_shorten_it() -> None:
    long = "read_the_quarterly_report_of_every_department_and_write_a_summary_for_it"
    assert map_names([long])[long] == shorten_name(long, 64)


def test_a_name_that_imitates_a_shortened_one_stays_unique() -> None:
    long = "x" * 90
    short = shorten_name(long, 64)
    found = map_names([long, short])
    assert found[short] == short
    assert found[long] != short


@pytest.mark.parametrize("name", ["日本", "...", "1st", "-x", " "])
def test_names_without_ascii_letters_get_a_valid_name(name: str) -> None:
    assert RULE.fullmatch(map_names([name])[name])


@pytest.mark.requirement("G-07")
@given(st.lists(st.text(min_size=1, max_size=90) | st.text("ab._/", min_size=1, max_size=70), unique=True))
def test_any_names_become_valid_and_unique(names: list[str]) -> None:
    found = map_names(names)
    assert list(found) == names
    assert len(set(found.values())) == len(names)
    assert all(RULE.fullmatch(name) for name in found.values())


def test_properties_are_renamed_only_where_a_provider_does_not_accept_them() -> None:
    names = ["user-id", "user_id", "größe", "ok"]
    assert map_names(names, OPENAI.property_name) == {name: name for name in names}
    wide = map_names(names, ANTHROPIC.property_name, always_digest=True)
    assert [name for name in names if wide[name] != name] == ["größe"]
    assert re.fullmatch(r"gr__e_[0-9a-f]{8}", wide["größe"])
    narrow = map_names(names, GEMINI.property_name)
    assert narrow["user_id"] == "user_id"
    assert re.fullmatch(r"user_id_[0-9a-f]{8}", narrow["user-id"])
    assert map_names(["user-id"], GEMINI.property_name) == {"user-id": "user_id"}
    assert len(set(narrow.values())) == 4


@given(st.lists(st.text(max_size=80), unique=True))
def test_any_property_names_become_valid_and_unique(names: list[str]) -> None:
    for dialect, marked in ((ANTHROPIC, True), (GEMINI, False)):
        rule = dialect.property_name
        found = map_names(names, rule, always_digest=marked)
        assert len(set(found.values())) == len(names)
        assert all(rule.fullmatch(name) for name in found.values())
