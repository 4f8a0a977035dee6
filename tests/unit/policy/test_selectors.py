"""Selectors of tools and principals."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib import Tool
from toolcrib.context import LOCAL, Principal
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Auth, OAuth, Policy
from toolcrib.policy.selectors import PrincipalSelector, ToolSelector, roles_of

ANA = Principal("key:ana")
BOSS = Principal("oauth:boss@example.com", roles=frozenset({"chief"}))
ROLES = {"support": ["key:ana", "oauth:*@example.com"], "night": ["key:n*"]}


def make(name: str, **options: Any) -> Tool:
    return Tool.from_function(lambda: name, name=name, description="Give it.", **options)


REFUND, SEARCH = make("refund", destructive=True, tags=["money"]), make("search_orders", read_only=True)


@pytest.mark.parametrize(
    ("selectors", "fits"),
    [
        (["refund"], (True, False)),
        (["*"], (True, True)),
        (["Refund"], (False, False)),
        (["search_*", "refund"], (True, True)),
        (["tag:mon*"], (True, False)),
        (["hint:destructive"], (True, False)),
        (["hint:not-destructive"], (False, True)),
        (["re:refu.."], (True, False)),
        (["re:refu"], (False, False)),
        ([], (False, False)),
    ],
)
def test_tools_are_meant_by_name_tag_hint_and_pattern(selectors: list[str], fits: Any) -> None:
    match = ToolSelector(Policy(), "rules[1].deny", selectors)
    assert (match.matches(REFUND), match.matches(SEARCH)) == fits


def test_selectors_that_mean_nothing_are_named_in_their_order() -> None:
    match = ToolSelector(Policy(), "k", ["nobody", "refund", "tag:none"])
    assert [error.message for error in match.check([REFUND, SEARCH])] == [
        "'nobody' matches no tool",
        "'tag:none' matches no tool",
    ]
    assert len(list(match.check([]))) == 3
    assert not list(ToolSelector(Policy(), "k", ["*"]).check([]))


def test_a_selector_that_cannot_be_read_is_told_with_its_place() -> None:
    policy = Policy(file="toolcrib.toml", lines={"rules[2].deny": 9})
    with pytest.raises(ConfigurationError) as caught:
        ToolSelector(policy, "rules[2].deny", ["re:("])
    assert str(caught.value).startswith(
        "toolcrib.toml:9: rules[2].deny: selector 're:(' is not a valid pattern"
    )


@pytest.mark.parametrize(
    ("who", "fits"),
    [
        ([], (True, True, True)),
        (["local"], (True, False, False)),
        (["key:*"], (False, True, False)),
        (["KEY:ana"], (False, False, False)),
        (["role:support"], (False, True, True)),
        (["role:night"], (False, False, False)),
        (["role:night", "local"], (True, False, False)),
        (["*"], (True, True, True)),
    ],
)
def test_callers_are_meant_by_name_and_role(who: list[str], fits: Any) -> None:
    match = PrincipalSelector(Policy(roles=ROLES), "rules[1].who", who)
    assert tuple(match.matches(principal) for principal in (LOCAL, ANA, BOSS)) == fits


def test_a_role_that_a_key_brings_along_counts_where_there_are_keys() -> None:
    match = PrincipalSelector(Policy(auth=Auth(keys="k.json")), "rules[1].who", ["role:chief"])
    assert match.matches(BOSS)
    assert not match.matches(ANA)


def test_a_role_that_nobody_can_have_is_wrong() -> None:
    with pytest.raises(ConfigurationError) as caught:
        PrincipalSelector(Policy(roles=ROLES), "rules[1].who", ["role:chief"])
    assert str(caught.value) == "rules[1].who: unknown role 'chief'"
    assert caught.value.hint == "roles: night, support"
    with pytest.raises(ConfigurationError) as caught:
        PrincipalSelector(Policy(), "rules[1].who", ["role:chief"])
    assert caught.value.hint == "roles: none are defined"


def test_all_roles_of_a_caller_its_own_and_those_it_is_given() -> None:
    policy = Policy(roles=ROLES)
    assert roles_of(BOSS, policy) == ["chief", "support"]
    assert roles_of(Principal("key:nina", roles=frozenset({"night"})), policy) == ["night"]
    assert roles_of(LOCAL, policy) == []


# --- names in a file: anyone who is meant there must be able to call ---

FILE = {"file": "toolcrib.toml", "lines": {"rules[1].who": 7, "roles.boss": 3}}


@pytest.mark.parametrize(
    ("who", "place", "name"),
    [
        (["ana"], "toolcrib.toml:7: rules[1].who", "ana"),
        (["local", "key:bob", "k*", "ana"], "toolcrib.toml:7: rules[1].who", "ana"),
        ([":ana"], "toolcrib.toml:7: rules[1].who", ":ana"),
        (["staff:ana"], "toolcrib.toml:7: rules[1].who", "staff:ana"),
        (["key"], "toolcrib.toml:7: rules[1].who", "key"),
        (["X"], "toolcrib.toml:7: rules[1].who", "X"),
        (["role:boss"], "toolcrib.toml:3: roles.boss", "ana"),
    ],
)
def test_a_name_in_a_file_that_no_caller_has_is_wrong(who: list[str], place: str, name: str) -> None:
    policy = Policy(roles={"boss": ["local", "ana"]}, **FILE)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError) as caught:
        PrincipalSelector(policy, "rules[1].who", who)
    assert str(caught.value) == f"{place}: no principal can be named {name!r}"
    assert caught.value.hint == "names are: local, anonymous, key:NAME, oauth:SUBJECT, role:NAME"


@pytest.mark.parametrize(
    "name", ["local", "anonymous", "key:ana", "oauth:ana", "staff:ana", "a*", "?na", "[a]na"]
)
def test_a_name_in_a_file_that_a_caller_may_have_is_in_order(name: str) -> None:
    issuer = OAuth(issuer="https://login.example.com", label="staff")
    policy = Policy(auth=Auth(oauth=[issuer]), roles={"boss": [name]}, **FILE)  # type: ignore[arg-type]
    PrincipalSelector(policy, "rules[1].who", [name])
    PrincipalSelector(policy, "rules[1].who", ["role:boss"])


def test_in_code_a_caller_may_have_any_name() -> None:
    assert PrincipalSelector(Policy(), "rules[1].who", ["ana"]).matches(Principal("ana"))
