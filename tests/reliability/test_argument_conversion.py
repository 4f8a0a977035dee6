"""Conditions hold for what a tool gets, and not only for the text that came.

Validators strip, fold, round, clamp and change time zones. Each attack sends something that looks harmless
and becomes what the rule is about; the oracle is what the function received.
"""

from __future__ import annotations

import os.path
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import (
    AfterValidator,
    AnyHttpUrl,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
)

from tests.support.servers.http_servers import serving
from tests.support.servers.key_server import call_modern
from tests.support.servers.policy_server import YES, Voice
from toolcrib import MCPServer
from toolcrib.policy import Audit, Policy, Rule
from toolcrib.policy.audit import open_log

User = Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True)]
Normal = Annotated[str, AfterValidator(os.path.normpath)]


class Account(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True, populate_by_name=True)

    name: str = Field(alias="Name")
    limit: int = 10

    @field_validator("limit")
    @classmethod
    def at_least_ten(cls, value: int) -> int:
        return max(value, 10)


class Member(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    nick: str = Field("none", alias="Nick")

    @field_validator("nick", mode="before")
    @classmethod
    def fold(cls, value: str) -> str:
        return value.casefold()


@dataclass
class Parcel:
    to: str

    def __post_init__(self) -> None:
        self.to = self.to.strip().lower()


def tools(received: list[Any]) -> list[Any]:
    """Functions that keep the arguments they got."""

    def user(value: User) -> str:
        received.append(value)
        return "ran"

    async def url(value: AnyHttpUrl) -> str:
        received.append(str(value))
        return "ran"

    def path(value: Normal) -> str:
        received.append(value)
        return "ran"

    async def number(value: Annotated[str, AfterValidator(lambda text: int(float(text)))]) -> str:
        received.append(value)
        return "ran"

    async def clamped(value: Annotated[int, AfterValidator(lambda number: max(number, 100))]) -> str:
        received.append(value)
        return "ran"

    def rounded(value: Annotated[float, BeforeValidator(lambda number: round(float(number)))]) -> str:
        received.append(value)
        return "ran"

    def money(value: Decimal) -> str:
        received.append(value)
        return "ran"

    async def moment(value: Annotated[datetime, AfterValidator(lambda at: at.astimezone(UTC))]) -> str:
        received.append(value.isoformat())
        return "ran"

    def account(value: Account) -> str:
        received.append((value.name, value.limit))
        return "ran"

    def member(value: Member) -> str:
        received.append(value.nick)
        return "ran"

    def parcels(value: list[Parcel]) -> str:
        received.append([parcel.to for parcel in value])
        return "ran"

    async def made(value: Annotated[int, Field(default_factory=lambda: 1000)]) -> str:
        received.append(value)
        return "ran"

    texts = [user, url, path, moment]
    return [*texts, number, clamped, rounded, money, account, member, parcels, made]


class Attack(NamedTuple):
    """`when` is what a rule denies or asks about; `unless` is what a rule that allows would say instead."""

    tool: str
    arguments: dict[str, Any]
    when: dict[str, Any]
    unless: dict[str, Any]


ATTACKS = {
    "a space before a name": Attack(
        "user", {"value": " root"}, {"value": "root"}, {"value": {"not": "root"}}
    ),
    "a name in capitals": Attack("user", {"value": "ROOT"}, {"value": "root"}, {"value": {"not": "root"}}),
    "a URL in capitals": Attack(
        "url",
        {"value": "HTTP://INTERNAL/x"},
        {"value": {"prefix": "http://internal/"}},
        {"value": {"not": {"prefix": "http://internal/"}}},
    ),
    "a path with dots": Attack(
        "path", {"value": "/srv/../etc/passwd"}, {"value": {"prefix": "/etc"}}, {"value": {"prefix": "/srv/"}}
    ),
    "1e3 for 1000": Attack("number", {"value": "1e3"}, {"value": 1000}, {"value": {"not": 1000}}),
    "1000.0 for 1000": Attack("number", {"value": "1000.0"}, {"value": 1000}, {"value": {"not": 1000}}),
    "a number that is clamped": Attack(
        "clamped", {"value": 5}, {"value": {"at_least": 100}}, {"value": {"below": 100}}
    ),
    "a text that is mended and clamped": Attack("clamped", {"value": "5"}, {"value": 100}, {"value": [5, 6]}),
    "a number that is rounded": Attack("rounded", {"value": 99.6}, {"value": 100}, {"value": {"below": 100}}),
    "a moment in another year": Attack(
        "moment",
        {"value": "2026-12-31T23:00:00-05:00"},
        {"value": {"prefix": "2027"}},
        {"value": {"prefix": "2026"}},
    ),
    "a model that strips": Attack(
        "account",
        {"value": {"Name": " root"}},
        {"value.Name": "root"},
        {"value.Name": {"not": "root"}},
    ),
    "a field by its second name": Attack(
        "member",
        {"value": {"nick": "root"}},
        {"value.Nick": "root"},
        {"value.Nick": {"not": "root"}},
    ),
    "a field in capitals": Attack(
        "member", {"value": {"Nick": "ROOT"}}, {"value.Nick": "root"}, {"value.Nick": {"not": "root"}}
    ),
    "a field that is clamped": Attack(
        "account", {"value": {"Name": "ana", "limit": 1}}, {"value.limit": 10}, {"value.limit": {"below": 10}}
    ),
    "an item that folds itself": Attack(
        "parcels", {"value": [{"to": "b"}, {"to": " A "}]}, {"value.to": "a"}, {"value.to": {"not": "a"}}
    ),
    "a default that is not published": Attack(
        "made", {}, {"value": {"above": 500}}, {"value": {"at_most": 500}}
    ),
}


def rule_of(effect: str, attack: Attack) -> Rule:
    when = attack.unless if effect == "allow" else attack.when
    return Rule(**{effect: [attack.tool]}, when=when)


def build(effect: str, attack: Attack, **demands: Any) -> tuple[MCPServer, list[Any]]:
    received: list[Any] = []
    server = MCPServer("shop", policy=Policy(rules=[rule_of(effect, attack)], **demands))
    server.add(*tools(received))
    return server, received


def is_refused(result: dict[str, Any], effect: str) -> bool:
    if effect == "confirm":
        return result.get("resultType") == "input_required"
    return bool(result["isError"]) and result["_meta"]["toolcrib/refusal"]["code"] == "denied"


@pytest.mark.parametrize("effect", ["allow", "deny", "confirm"])
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
async def test_anything_that_a_rule_refuses_does_not_reach_the_tool(
    tmp_path: Path, effect: str, attack: Attack
) -> None:
    audit = tmp_path / "audit.db"
    server, received = build(effect, attack, audit=Audit(audit))
    async with server, Voice(server, elicitation={}) as client:
        result = (await client.call(attack.tool, attack.arguments))["result"]
    assert is_refused(result, effect), (result, received)
    assert received == []
    assert len(list(open_log(audit).records(tool=attack.tool))) == 1


def test_nor_over_http() -> None:
    for effect in ("allow", "deny", "confirm"):
        for name in ("a URL in capitals", "a number that is clamped", "a model that strips"):
            attack = ATTACKS[name]
            server, received = build(effect, attack)
            with serving("own", server) as served:
                result = call_modern(served, None, attack.tool, attack.arguments).result
            assert is_refused(result, effect), (name, result)
            assert received == []


HARMLESS = [
    ("user", {"value": "ana"}, {"value": {"not": "root"}}, "ana"),
    ("url", {"value": "https://example.com/a"}, {"value": {"prefix": "https://"}}, "https://example.com/a"),
    ("path", {"value": "/srv/a"}, {"value": {"prefix": "/srv/"}}, "/srv/a"),
    ("clamped", {"value": 200}, {"value": {"above": 100}}, 200),
    ("money", {"value": 0.1}, {"value": 0.1}, Decimal("0.1")),
    ("money", {"value": 7}, {"value": {"at_most": 7}}, Decimal(7)),
    ("account", {"value": {"Name": "ana"}}, {"value.limit": {"at_most": 10}}, ("ana", 10)),
    ("account", {"value": {"Name": "ana"}}, {"value.limit": {"exists": False}}, ("ana", 10)),
    ("parcels", {"value": [{"to": "b"}]}, {"value.to": ["a", "b"]}, ["b"]),
]


@pytest.mark.parametrize(("tool", "arguments", "when", "expected"), HARMLESS)
async def test_anything_that_a_rule_allows_in_both_forms_runs(
    tool: str, arguments: dict[str, Any], when: dict[str, Any], expected: Any
) -> None:
    server, received = build("allow", Attack(tool, arguments, {}, when))
    async with server, Voice(server) as client:
        assert await client.text(tool, arguments) == "ran"
    assert received == [expected]


# --- converted once, and only where rules leave it a chance --------------------------------------------


SEEN: list[str] = []
DAYS: list[str] = []


def look(text: str) -> str:
    SEEN.append(text)
    if text == "bad":
        raise ValueError("the database says no")
    return text.lower()


def find(value: Annotated[str, AfterValidator(look)]) -> str:
    return value


async def find_async(value: Annotated[str, AfterValidator(look)]) -> str:
    return value


def plan(day: Annotated[str, AfterValidator(lambda _: DAYS.pop(0))]) -> str:
    return f"planned {day}"


@pytest.mark.parametrize(
    ("function", "mode"), [(find, "auto"), (find, "inline"), (find, "process"), (find_async, "auto")]
)
async def test_a_validator_runs_once_and_not_for_what_is_refused_as_it_came(function: Any, mode: Any) -> None:
    SEEN.clear()
    rules = [Rule(allow=["find"], when={"value": {"not": "root"}}), Rule(deny=["find"], when={"value": "x"})]
    server = MCPServer("shop", policy=Policy(rules=rules))
    server.add(function, name="find", run=mode)
    async with server, Voice(server) as client:
        assert await client.text("find", {"value": "Ana"}) == "ana"
        assert SEEN == ["Ana"]
        for refused in ("root", "x"):
            assert "may not be called with these arguments" in await client.text("find", {"value": refused})
        assert SEEN == ["Ana"]
        assert "'value': the database says no" in await client.text("find", {"value": "bad"})
        assert "may not be called with these arguments" in await client.text("find", {"value": "Root"})
        assert SEEN == ["Ana", "bad", "Root"]


# --- what a person agrees to is what runs --------------------------------------------------------------


async def test_a_person_is_shown_what_the_tool_gets() -> None:
    received: list[Any] = []
    server = MCPServer("shop", policy=Policy(rules=[Rule(confirm=["user", "account"])]))
    server.add(*tools(received))
    async with server, Voice(server, elicitation={}) as client:
        call = {"value": {"Name": " Root "}}
        asked = (await client.call("account", call))["result"]
        [(key, request)] = asked["inputRequests"].items()
        assert (
            request["params"]["message"]
            == 'Run \'account\' with these arguments?\n  value: {"Name":"Root","limit":10}'
        )
        state = asked["requestState"]
        assert await client.text("account", call, requestState=state, inputResponses={key: YES}) == "ran"
    assert received == [("Root", 10)]


async def test_a_yes_is_for_the_value_that_was_shown() -> None:
    DAYS[:] = ["monday", "tuesday", "tuesday"]
    server = MCPServer("shop", policy=Policy(rules=[Rule(confirm=["plan"])]))
    server.add(plan)
    async with server, Voice(server, elicitation={}) as client:
        shown = []
        more: dict[str, Any] = {}
        for _ in range(2):
            asked = (await client.call("plan", {"day": "today"}, **more))["result"]
            assert asked["resultType"] == "input_required", asked
            [(key, request)] = asked["inputRequests"].items()
            shown.append(request["params"]["message"].splitlines()[-1])
            more = {"requestState": asked["requestState"], "inputResponses": {key: YES}}
        assert shown == ["  day: monday", "  day: tuesday"]
        assert await client.text("plan", {"day": "today"}, **more) == "planned tuesday"
