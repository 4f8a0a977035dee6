"""What was decided is remembered, shared, bounded and let go."""

from __future__ import annotations

import pytest

from toolcrib import Principal, Tool
from toolcrib.context import LOCAL
from toolcrib.policy import Policy, Rule
from toolcrib.policy.access import Access, Decision, access

from .conftest import ANA, BOB, CARLA, FIND, REFUND, TOOLS, WIPE, make, names


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


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MAX_DECISIONS", 4)
    monkeypatch.setattr(access, "MAX_CALLERS", 3)
    monkeypatch.setattr(access, "MAX_VIEWS", 2)
    policy = make(*(Rule(deny=[tool.name], who=[f"key:{tool.name}*"]) for tool in TOOLS))
    callers = [Principal(f"key:{name}{number}") for number in range(3) for name in ("find", "refund", "wipe")]
    for caller in callers:
        assert len(policy.view(caller, TOOLS)) == 2
        assert len(policy._decisions) <= 4
        assert len(policy._by_rules) <= 4
        assert len(policy._about) <= 3
        assert len(policy._views.by_principal) <= 3
        assert len(policy._views.shared) <= 2


def test_a_view_is_one_object_for_all_who_see_the_same() -> None:
    policy = make(Rule(deny=["wipe"], who=["key:*"]))
    seen = policy.view(ANA, TOOLS)
    assert names(seen) == ["find", "refund"]
    assert policy.view(ANA, TOOLS) is seen
    assert policy.view(BOB, TOOLS) is seen
    assert policy.view(CARLA, TOOLS) is TOOLS


def test_forgetting_callers_changes_no_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MAX_CALLERS", 1)
    policy = make(Rule(deny=["wipe"], who=["key:*"]))
    seen = policy.view(ANA, TOOLS)
    assert policy.view(BOB, TOOLS) is seen
    assert policy.view(ANA, TOOLS) is seen


def test_other_tools_make_another_view_and_the_old_ones_are_let_go() -> None:
    policy = make(Rule(deny=["wipe"], who=["key:*"]))
    first = policy.view(ANA, TOOLS)
    policy.decide(ANA, FIND)
    again = policy.view(ANA, (REFUND, WIPE))
    assert names(again) == ["refund"]
    assert {tool.name for _, tool in policy._decisions} == {"refund", "wipe"}
    assert policy.view(ANA, TOOLS) == first
    policy.clear()
    assert not policy._decisions
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


def test_where_callers_do_not_matter_one_view_is_remembered_for_all() -> None:
    policy = make(Rule(deny=["wipe"]))
    for caller in (ANA, BOB, CARLA):
        assert names(policy.view(caller, TOOLS)) == ["find", "refund"]
    assert list(policy._views.by_principal) == [LOCAL]
