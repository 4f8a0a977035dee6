"""Access: visibility, scopes, caches."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib import Principal, Tool
from toolcrib.context import LOCAL
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Auth, Policy, Rule
from toolcrib.policy.access import Access, Confirm, Decision, Judgement, access

from .conftest import ANA, BOB, CARLA, FIND, REFUND, TOOLS, WIPE, make, names

# --- rules that need no arguments ---


def test_without_rules_everything_is_allowed_and_nothing_is_to_be_judged() -> None:
    decision = make().decide(BOB, FIND)
    assert (decision.is_visible, decision.is_final) == (True, True)
    assert (decision.rule, decision.missing) == ("default", ())
    assert decision.judge({"q": "x"}) == Judgement(True, "default")
    assert decision.judge({}) is decision.judge({"q": "y"})


def test_anything_that_is_denied_is_not_there() -> None:
    policy = make(Rule(deny=["find"], who=["key:*"], because="not by machine"))
    decision = policy.decide(BOB, FIND)
    assert (decision.is_visible, decision.is_final) == (False, False)
    assert decision.rule == "rule 1"
    assert decision.judge({}) == Judgement(False, "rule 1", "not by machine")
    assert policy.is_visible(CARLA, FIND)
    assert not policy.is_visible(BOB, FIND)


def test_as_soon_as_something_is_allowed_the_rest_is_denied() -> None:
    policy = make(Rule(allow=["find"]))
    assert policy.decide(BOB, FIND).rule == "rule 1"
    assert policy.decide(BOB, FIND).is_final
    hidden = policy.decide(BOB, WIPE)
    assert (hidden.is_visible, hidden.rule) == (False, "default")
    assert hidden.judge({}) == Judgement(False, "default")


def test_a_default_can_be_said_outright() -> None:
    assert not make(default="deny").is_visible(BOB, FIND)
    assert make(default="allow").is_visible(BOB, FIND)


@pytest.mark.parametrize("is_turned", [False, True])
def test_deny_wins_over_allow_in_either_order(is_turned: bool) -> None:
    rules = [Rule(allow=["*"]), Rule(deny=["wipe"])]
    policy = make(*(reversed(rules) if is_turned else rules))
    assert names(policy.view(BOB, TOOLS)) == ["find", "refund"]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("re*", ["refund"]),
        ("give_back", ["refund"]),
        ("tag:orders", ["find"]),
        ("hint:destructive", ["refund", "wipe"]),
        ("hint:not-read-only", ["refund", "wipe"]),
        ("re:f.*", ["find"]),
        ("namespace:shop", ["wipe"]),
    ],
)
def test_rules_choose_tools_by_name_alias_tag_hint_pattern_and_namespace(
    selector: str, expected: list[str]
) -> None:
    placed = WIPE.with_options()
    placed.namespace = "shop"
    assert names(make(Rule(allow=[selector])).view(BOB, (FIND, REFUND, placed))) == expected


def test_a_rule_is_about_all_versions_of_a_tool() -> None:
    old, new = (WIPE.with_options(version=version) for version in ("1", "2"))
    policy = make(Rule(deny=["wipe"]))
    assert not policy.is_visible(BOB, old)
    assert not policy.is_visible(BOB, new)


def test_roles_are_those_of_the_caller_and_those_that_the_policy_gives() -> None:
    policy = make(Rule(allow=["refund"], who=["role:support"]), roles={"support": ["oauth:*"]})
    assert policy.is_visible(ANA, REFUND)
    assert policy.is_visible(CARLA, REFUND)
    assert not policy.is_visible(BOB, REFUND)


# --- conditions ---


def test_conditions_are_judged_with_the_arguments_of_the_call() -> None:
    policy = make(Rule(allow=["refund"], when={"amount": {"at_most": 100}}, because="ask a manager"))
    decision = policy.decide(ANA, REFUND.with_options(scopes=[]))
    assert (decision.is_visible, decision.is_final, decision.rule) == (True, False, "rule 1")
    assert decision.judge({"order": "1", "amount": 100}) == Judgement(True, "rule 1")
    assert decision.judge({"order": "1", "amount": 101}) == Judgement(False, "rule 1", "ask a manager")


@pytest.mark.parametrize(
    "rule",
    [
        Rule(allow=["refund"], when={"amount": {"at_most": 100}}),
        Rule(deny=["refund"], when={"amount": {"above": 100}}),
    ],
)
def test_leaving_an_argument_out_smuggles_no_default_past_a_rule(rule: Rule) -> None:
    decision = make(rule).decide(LOCAL, REFUND)
    assert not decision.judge({"order": "1"}).is_allowed
    assert not decision.judge({"order": "1", "amount": None}).is_allowed
    assert decision.judge({"order": "1", "amount": 5}).is_allowed


def test_a_denial_for_arguments_wins_over_every_permission() -> None:
    policy = make(
        Rule(allow=["*"]),
        Rule(deny=["refund"], when={"amount": {"above": 50}}, because="too much"),
        Rule(allow=["refund"], when={"amount": {"at_most": 100}}),
    )
    decision = policy.decide(LOCAL, REFUND)
    assert decision.rule == "rule 2"
    assert decision.judge({"amount": 70}) == Judgement(False, "rule 2", "too much")
    assert decision.judge({"amount": 50}) == Judgement(True, "rule 1")


def test_all_conditions_of_a_rule_must_hold() -> None:
    policy = make(Rule(deny=["refund"], when={"amount": {"above": 50}, "order": {"prefix": "x"}}))
    decision = policy.decide(LOCAL, REFUND)
    assert not decision.judge({"order": "x1", "amount": 70}).is_allowed
    assert decision.judge({"order": "y1", "amount": 70}).is_allowed
    assert decision.judge({"order": "x1", "amount": 7}) == Judgement(True, "default")
    allowing = make(Rule(allow=["refund"], when={"amount": {"below": 50}, "order": {"prefix": "x"}}))
    decision = allowing.decide(LOCAL, REFUND)
    assert decision.judge({"order": "x1", "amount": 7}).is_allowed
    assert not decision.judge({"order": "y1", "amount": 7}).is_allowed


def test_where_several_rules_might_have_allowed_it_the_default_denies() -> None:
    policy = make(
        Rule(allow=["refund"], when={"amount": 1}),
        Rule(allow=["refund"], when={"amount": 2}, because="one or two"),
    )
    decision = policy.decide(LOCAL, REFUND)
    assert decision.judge({"amount": 2}) == Judgement(True, "rule 2")
    assert decision.judge({"amount": 3}) == Judgement(False, "default", "one or two")


@pytest.mark.parametrize(
    ("arguments", "denied", "allowed"),
    [
        ({"names": ["ab", "x"]}, True, False),
        ({"names": ["ab", "ac"]}, True, True),
        ({"names": ["x", "y"]}, False, False),
        ({"names": []}, False, False),
        ({"names": "ab"}, True, True),
        ({"names": 5}, True, False),
        ({"names": ["ab", 5]}, True, False),
        ({}, False, False),
    ],
)
def test_one_item_of_a_list_is_enough_to_deny_and_all_are_needed_to_allow(
    arguments: dict[str, Any], denied: bool, allowed: bool
) -> None:
    async def run(given: dict[str, Any]) -> None: ...

    tool = Tool.from_handler(run, "run", "Run.", {"type": "object", "properties": {"names": {}}})
    when = {"names": {"prefix": "a"}}
    denying = make(Rule(deny=["run"], when=when)).decide(LOCAL, tool)
    allowing = make(Rule(allow=["run"], when=when)).decide(LOCAL, tool)
    assert denying.judge(arguments).is_allowed is not denied
    assert allowing.judge(arguments).is_allowed is allowed


@pytest.mark.parametrize(
    ("demand", "denied", "allowed"),
    [
        ({"exists": False}, True, True),
        ({"exists": True}, False, False),
        ({"not": "x"}, True, False),
        ({"exists": False, "not": "x"}, True, True),
        ("x", False, False),
    ],
)
def test_anything_that_is_absent_is_only_what_rules_say_it_is(
    demand: Any, denied: bool, allowed: bool
) -> None:
    def run(label: str | None = None) -> None: ...

    tool = Tool.from_function(run)
    denying = make(Rule(deny=["run"], when={"label": demand})).decide(LOCAL, tool)
    allowing = make(Rule(allow=["run"], when={"label": demand})).decide(LOCAL, tool)
    assert denying.judge({}).is_allowed is not denied
    assert allowing.judge({}).is_allowed is allowed


def test_an_empty_list_is_neither_a_way_around_what_must_be_given_nor_around_what_must_not() -> None:
    def run(names: list[str]) -> None: ...

    tool = Tool.from_function(run)
    for exists in (True, False):
        when = {"names": {"exists": exists}}
        assert not make(Rule(deny=["run"], when=when)).decide(LOCAL, tool).judge({"names": []}).is_allowed
        assert not make(Rule(allow=["run"], when=when)).decide(LOCAL, tool).judge({"names": []}).is_allowed


# --- somebody has to agree ---


def test_a_confirmation_is_asked_for_whatever_the_arguments() -> None:
    policy = make(Rule(confirm=["hint:destructive"], because="It cannot be undone."))
    decision = policy.decide(LOCAL, WIPE)
    assert (decision.is_visible, decision.is_final) == (True, False)
    judged = decision.judge({})
    assert judged == Judgement(True, "default", None, Confirm("rule 1", "It cannot be undone."))
    assert decision.judge({"path": "x"}) is judged
    assert policy.decide(LOCAL, FIND).is_final


def test_a_confirmation_may_depend_on_arguments() -> None:
    decision = make(Rule(confirm=["refund"], when={"amount": {"above": 100}})).decide(LOCAL, REFUND)
    assert (decision.is_visible, decision.rule) == (True, "default")
    assert not decision.is_final
    assert decision.judge({"amount": 5}) == Judgement(True, "default")
    assert decision.judge({"amount": 500}).confirm == Confirm("rule 1", None)
    assert decision.judge({}).confirm == Confirm("rule 1", None)


def test_several_rules_ask_one_question() -> None:
    policy = make(
        Rule(confirm=["wipe"]),
        Rule(confirm=["wipe"], because="It is gone."),
        Rule(confirm=["wipe"], because="It is gone."),
        Rule(confirm=["wipe"], when={"path": "/"}, because="All of it."),
    )
    decision = policy.decide(LOCAL, WIPE)
    assert decision.judge({"path": "/"}).confirm == Confirm(
        "rule 1 and rule 2 and rule 3 and rule 4", "It is gone. All of it."
    )
    assert decision.judge({"path": "/a"}).confirm == Confirm("rule 1 and rule 2 and rule 3", "It is gone.")


def test_anyone_who_is_denied_is_not_asked() -> None:
    policy = make(Rule(confirm=["wipe"]), Rule(deny=["wipe"], when={"path": "/"}))
    assert policy.decide(LOCAL, WIPE).judge({"path": "/"}) == Judgement(False, "rule 2")


# --- scopes ---


def test_a_tool_that_lacks_only_a_scope_is_seen_and_says_which() -> None:
    policy = make(scopes={"money": ["refund"], "files": ["wipe"], "mail": ["refund"]})
    assert policy.decide(BOB, REFUND).missing == ("mail", "money", "orders:write")
    assert policy.decide(CARLA, REFUND).missing == ("money",)
    assert policy.decide(CARLA, WIPE).missing == ("files",)
    assert policy.decide(CARLA, FIND).missing == ()
    assert policy.is_visible(BOB, REFUND)


def test_a_denial_is_said_before_a_missing_scope() -> None:
    decision = make(Rule(deny=["refund"])).decide(BOB, REFUND)
    assert (decision.is_visible, decision.missing) == (False, ("orders:write",))


def test_the_local_user_holds_every_scope_where_nobody_can_show_who_they_are() -> None:
    assert make().decide(LOCAL, REFUND).missing == ()
    assert make(auth=Auth(keys="keys.json")).decide(LOCAL, REFUND).missing == ("orders:write",)
    given = Principal("local", scopes=frozenset({"orders:write"}))
    assert make(auth=Auth(keys="keys.json")).decide(given, REFUND).missing == ()


@pytest.mark.parametrize(
    ("given", "missing"), [(["orders:write"], ()), (["*"], ()), (["orders:read"], ("orders:write",))]
)
def test_the_local_user_has_the_scopes_that_the_policy_gives(
    given: list[str], missing: tuple[str, ...]
) -> None:
    policy = make(auth=Auth(keys="keys.json"), local_scopes=given)
    assert policy.decide(LOCAL, REFUND).missing == missing
    assert policy.decide(BOB, REFUND).missing == ("orders:write",)


# --- what cannot be understood ---


@pytest.mark.parametrize(
    ("rules", "demands", "key"),
    [
        ([Rule(deny=["*"]), Rule(deny=["tags:x"])], {}, "rules[2].deny"),
        ([Rule(allow=["re:("])], {}, "rules[1].allow"),
        ([Rule(confirm=["hint:dangerous"])], {}, "rules[1].confirm"),
        ([Rule(deny=["*"], who=["role:nobody"])], {}, "rules[1].who"),
        ([Rule(deny=["*"], when={"amount": {"below": "x"}})], {}, "rules[1].when.amount.below"),
        ([Rule(deny=["*"], when={"amount": {"matches": "("}})], {}, "rules[1].when.amount.matches"),
        ([Rule(deny=["*"], when={"a..b": 1})], {}, "rules[1].when.a..b"),
        ([Rule(deny=["*"], when={"": 1})], {}, "rules[1].when."),
        ([], {"scopes": {"mail": ["hint:mail"]}}, "scopes.mail"),
    ],
)
def test_anything_that_cannot_be_understood_is_an_error_that_names_its_key(
    rules: list[Rule], demands: dict[str, Any], key: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make(*rules, **demands)
    assert caught.value.key == key


def test_a_path_that_is_none_says_what_one_is() -> None:
    with pytest.raises(ConfigurationError, match=r"(?m): not a path$") as caught:
        make(Rule(deny=["*"], when={".a": 1}))
    assert caught.value.hint == "use argument names, with dots for the fields of objects"


@pytest.mark.parametrize(
    ("name", "file", "lines", "label"),
    [
        (None, None, {}, "rule 1"),
        ("no wiping", None, {}, 'rule 1 "no wiping"'),
        (None, "/etc/shop/toolcrib.toml", {"rules[1]": 14}, "rule 1 (toolcrib.toml:14)"),
        ("no wiping", "toolcrib.toml", {"rules[2]": 14}, 'rule 1 "no wiping" (toolcrib.toml)'),
    ],
)
def test_a_rule_is_called_by_its_number_its_name_and_its_place(
    name: str | None, file: str | None, lines: dict[str, int], label: str
) -> None:
    policy = make(Rule(deny=["wipe"], name=name), file=file, lines=lines)
    assert policy.decide(BOB, WIPE).rule == label


def test_a_decision_is_made_once() -> None:
    policy = make(Rule(deny=["find"]))
    assert policy.decide(BOB, FIND) is policy.decide(Principal("key:bob"), FIND)
    assert policy.decide(BOB, REFUND) is not policy.decide(CARLA, REFUND)


def test_callers_about_whom_the_same_is_said_share_a_decision() -> None:
    policy = make(Rule(deny=["refund"], who=["key:*"], when={"amount": 3}), scopes={"mail": ["find"]})
    assert policy.decide(ANA, REFUND) is policy.decide(BOB, REFUND)
    assert policy.decide(CARLA, REFUND) is not policy.decide(BOB, REFUND)
    assert policy.decide(ANA, FIND) is policy.decide(BOB, FIND)
    assert policy.decide(CARLA, FIND) is not policy.decide(BOB, FIND)  # who holds the scope


def test_two_tools_of_one_name_are_two_tools() -> None:
    policy = make(Rule(deny=["hint:destructive"]))
    assert not policy.is_visible(BOB, WIPE)
    assert policy.is_visible(BOB, WIPE.with_options(destructive=False))


def test_anything_that_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MAX_CALLERS", 3)
    monkeypatch.setattr(access, "MAX_VIEWS", 2)
    policy = make(*(Rule(deny=[tool.name], who=[f"key:{tool.name}*"]) for tool in TOOLS))
    callers = [Principal(f"key:{name}{number}") for number in range(3) for name in ("find", "refund", "wipe")]
    for caller in callers:
        assert len(policy.view(caller, TOOLS)) == 2
        assert len(policy._about) <= 3
        assert all(len(about.decisions) <= 2 for about in policy._about.values())
        assert len(policy._views["tool"][1]) <= 3
        assert len(policy._views["tool"][2]) <= 2


def test_a_view_is_one_object_for_all_who_see_the_same() -> None:
    policy = make(Rule(deny=["wipe"], who=["key:*"]))
    seen = policy.view(ANA, TOOLS)
    assert names(seen) == ["find", "refund"]
    assert policy.view(ANA, TOOLS) is seen
    assert policy.view(BOB, TOOLS) is seen
    assert policy.view(CARLA, TOOLS) is TOOLS


def test_other_tools_make_another_view_and_the_old_ones_are_let_go() -> None:
    policy = make(Rule(deny=["wipe"], who=["key:*"]))
    first = policy.view(ANA, TOOLS)
    policy.decide(ANA, FIND)
    again = policy.view(ANA, (REFUND, WIPE))
    assert names(again) == ["refund"]
    assert set(policy._about) == {REFUND, WIPE}
    assert policy.view(ANA, TOOLS) == first
    policy.clear()
    assert not policy._about
    assert policy.view(ANA, TOOLS) == first


def test_tools_that_change_while_somebody_looks_leave_no_old_view_behind() -> None:
    """Another thread lists the new tools while this one is at the old ones."""
    new = (REFUND, WIPE)

    class Changing(Access):
        __slots__ = ("is_first",)

        def decide(self, principal: Principal, tool: Tool) -> Decision:
            if self.is_first:
                self.is_first = False
                assert self.view(principal, new) == (REFUND,)
            return super().decide(principal, tool)

    policy = Changing(Policy(rules=[Rule(deny=["wipe"], who=["key:*"])]))
    policy.is_first = True
    assert names(policy.view(ANA, TOOLS)) == ["find", "refund"]
    assert policy.view(ANA, new) == (REFUND,)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], False),
        ([Rule(deny=["wipe"])], False),
        ([Rule(deny=["wipe"], who=["*"])], False),
        ([Rule(deny=["wipe"], who=["*", "key:ana"])], False),
        ([Rule(confirm=["wipe"], who=["key:ana"])], False),
        ([Rule(deny=["wipe"], who=["key:ana"])], True),
        ([Rule(deny=["wipe"]), Rule(allow=["find"], who=["role:support"])], True),
    ],
)
def test_it_is_known_whether_two_callers_may_see_different_tools(rules: list[Rule], expected: bool) -> None:
    policy = make(*rules, roles={"support": ["key:x"]}, scopes={"mail": ["find"]})
    assert policy.depends_on_principal is expected
    assert (policy.view(ANA, TOOLS) is policy.view(CARLA, TOOLS)) is not expected
