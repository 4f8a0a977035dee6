"""A person who confirms a call is shown the values that the tool gets, and agrees to these."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, PlainValidator, model_validator

from tests.support.servers.policy_server import YES, Voice
from toolcrib import MCPServer
from toolcrib.policy import Policy, Rule


class Payment(BaseModel):
    model_config = ConfigDict(frozen=True)

    id: str
    amount: int = 1


class Login(BaseModel):
    user: str
    admin: bool = False

    @model_validator(mode="after")
    def promote(self) -> Login:
        self.admin = self.user == "bob"
        return self


PAYMENTS = [{"id": "x"}, {"id": "a", "amount": 1000}]
BOTH = '[{"id":"a","amount":1000},{"id":"x","amount":1}]'


@pytest.mark.parametrize(
    ("hint", "sent", "shown"),
    [
        (Annotated[list[Payment], AfterValidator(lambda v: v[::-1])], PAYMENTS, BOTH),
        (set[Payment], PAYMENTS, BOTH),
        (Login, {"user": "bob"}, '{"user":"bob","admin":true}'),
        (dict[Annotated[str, AfterValidator(str.lower)], int], {"A": 1, "a": 2}, '{"a":2}'),
        (
            Annotated[Any, PlainValidator(lambda v: object())],
            "bob",
            '{"received":"(cannot be shown)","sent":"bob"}',
        ),
    ],
    ids=["reversed", "set", "set by a validator", "keys", "opaque"],
)
async def test_a_person_is_shown_the_whole_value_that_the_tool_gets(hint: Any, sent: Any, shown: str) -> None:
    def run(value: Any) -> str:
        return "ran"

    run.__annotations__["value"] = hint
    server = MCPServer("shop", policy=Policy(rules=[Rule(confirm=["run"])]))
    server.add(run)
    async with server, Voice(server, elicitation={}) as client:
        asked = (await client.call("run", {"value": sent}))["result"]
        [(key, request)] = asked["inputRequests"].items()
        assert request["params"]["message"] == f"Run 'run' with these arguments?\n  value: {shown}"
        again = {"requestState": asked["requestState"], "inputResponses": {key: YES}}
        assert await client.text("run", {"value": sent}, **again) == "ran"


async def test_a_yes_is_for_the_fields_that_a_validator_fills_in() -> None:
    targets = iter(["safe", "other", "other"])

    class Job(BaseModel):
        user: str
        target: str = ""

        @model_validator(mode="after")
        def choose(self) -> Job:
            self.target = next(targets)
            return self

    def run(job: Job) -> str:
        return f"ran on {job.target}"

    run.__annotations__["job"] = Job
    server = MCPServer("shop", policy=Policy(rules=[Rule(confirm=["run"])]))
    server.add(run)
    call = {"job": {"user": "bob"}}
    async with server, Voice(server, elicitation={}) as client:
        shown, more = [], {}
        for _ in range(2):
            asked = (await client.call("run", call, **more))["result"]
            [(key, request)] = asked["inputRequests"].items()
            shown.append(request["params"]["message"].splitlines()[-1])
            more = {"requestState": asked["requestState"], "inputResponses": {key: YES}}
        assert shown == [f'  job: {{"user":"bob","target":"{name}"}}' for name in ("safe", "other")]
        assert await client.text("run", call, **more) == "ran on other"
