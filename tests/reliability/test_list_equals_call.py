"""Callable tools are listed; and listed tools can be called, unless a rule with conditions or a
missing scope prevents that.

A server whose tools come, go, change and are renamed, under policies of every kind; callers who list, call by
every spelling, and call through the tool that calls others. Whatever is listed can be called, and whatever is
not cannot be told from a tool that never was. 50,000 steps with `TOOLCRIB_SOAK=1`, some hundreds every day.
"""

from __future__ import annotations

import asyncio
import os
import re
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from toolcrib import MCPServer, Principal, Tool, ToolNotFoundError
from toolcrib.errors import (
    DefinitionError,
    DeniedError,
    InsufficientScopeError,
    InvalidArgumentsError,
    NotConfirmedError,
)
from toolcrib.policy import Policy, Rule

pytestmark = pytest.mark.row("D2")

IS_LONG = bool(os.environ.get("TOOLCRIB_SOAK"))
SCOPES = ("read", "write")
WORDS = ("x", "xy", "y")
CALLERS = [
    Principal(name, frozenset(scopes), frozenset(roles))
    for name in ("local", "key:a", "key:b")
    for scopes, roles in (((), ()), (("read",), ("lead",)))
]
CALLS = [{"n": n, **({} if word is None else {"word": word})} for n in range(4) for word in (None, *WORDS)]
SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 0, "maximum": 3},
        "word": {"type": "string", "enum": list(WORDS), "default": "y"},
    },
    "required": ["n"],
}

names = st.sampled_from(["find", "refund", "wipe"])
numbers = st.integers(-1, 4)
demands = st.one_of(
    st.dictionaries(st.sampled_from(["above", "at_most", "equals"]), numbers, min_size=1),
    st.builds(lambda number: {"not": number}, numbers),
)
word_demands = st.one_of(
    st.lists(st.sampled_from(WORDS), min_size=1),
    st.builds(lambda word: {"prefix": word}, st.sampled_from(WORDS)),
    st.builds(lambda exists: {"exists": exists}, st.booleans()),
    st.builds(lambda word: {"not": {"suffix": word}}, st.sampled_from(WORDS)),
)
conditions = st.fixed_dictionaries({}, optional={"n": demands, "word": word_demands})
selectors = st.lists(
    st.sampled_from(
        ["*", "find", "re*", "shop_*", "tag:odd", "namespace:shop", "hint:destructive", "nick", "re:.*i.*"]
    ),
    min_size=1,
    max_size=2,
)
callers = st.lists(st.sampled_from(["local", "key:*", "key:a", "role:lead", "role:team"]), max_size=2)
rules = st.builds(
    lambda effect, tools, who, when: Rule(**{effect: tools, "who": who, "when": when}),
    st.sampled_from(["allow", "allow", "deny", "deny", "confirm"]),
    selectors,
    callers,
    conditions,
)
policies = st.builds(
    lambda rules, scopes: Policy(
        rules=rules, scopes=scopes, roles={"team": ["key:b", "local"], "lead": ["nobody"]}
    ),
    st.lists(rules, max_size=5),
    st.dictionaries(st.sampled_from(SCOPES), selectors, max_size=1),
)


async def run(arguments: dict[str, Any]) -> str:
    return "ran"


@st.composite
def tools(draw: st.DrawFn) -> Tool:
    return Tool.from_handler(
        run,
        draw(names),
        "A tool.",
        SCHEMA,
        version=draw(st.sampled_from([None, "1", "2"])),
        aliases=draw(st.sampled_from([(), (), ("nick",), ("shop_other",)])),
        tags=draw(st.sampled_from([(), ("odd",)])),
        scopes=draw(st.sampled_from([(), (), ("read",), ("write",)])),
        destructive=draw(st.booleans()),
    )


class Shop(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.caller = CALLERS[0]
        self.server = MCPServer("shop", search="always", name_rule="mcp")

    def teardown(self) -> None:
        self.loop.run_until_complete(self.server.stop())
        self.loop.close()

    @initialize(policy=policies)
    def open(self, policy: Policy) -> None:
        self.server.enforce(policy)

    # --- what changes ---

    @rule(policy=policies)
    def write_another_policy(self, policy: Policy) -> None:
        self.server.enforce(policy)

    @rule(tool=tools(), namespace=st.sampled_from([None, None, "shop"]))
    def add(self, tool: Tool, namespace: str | None) -> None:
        try:
            self.server.registry.add(tool, namespace=namespace, on_duplicate="replace")
        except DefinitionError:
            pass  # one of its names is another tool's

    @rule(tool=tools())
    def replace(self, tool: Tool) -> None:
        self._try(self.server.registry.replace, tool)

    @rule(name=names, version=st.sampled_from(["", "@1", "@2"]))
    def remove(self, name: str, version: str) -> None:
        self._try(self.server.registry.remove, name + version)

    @rule(name=names, version=st.sampled_from(["", "@1", "@2"]))
    def disable(self, name: str, version: str) -> None:
        self._try(self.server.registry.disable, name + version)

    @rule(name=names)
    def enable(self, name: str) -> None:
        self._try(self.server.registry.enable, name)

    @rule(name=names, other=names)
    def rename(self, name: str, other: str) -> None:
        tool = self.server.registry.try_get(name)
        if tool is not None and other != name:
            self.server.registry.remove(tool.name)
            self.add(tool.renamed(f"{other}_too"), None)

    @rule(caller=st.sampled_from(CALLERS))
    def be_somebody_else(self, caller: Principal) -> None:
        self.caller = caller

    def _try(self, change: Any, thing: Any) -> None:
        try:
            change(thing)
        except (DefinitionError, ToolNotFoundError):
            pass  # there is no such tool, or one of its names is taken

    # --- what always holds ---

    def _call(self, name: str, arguments: dict[str, Any], caller: Principal) -> Any:
        """What becomes of a call: None where it ran, else the kind of its error."""
        try:
            result = self.loop.run_until_complete(self.server.call(name, arguments, principal=caller))
        except ToolNotFoundError as error:
            return type(error) if str(error) == f"Unknown tool: {name}" else error
        return None if result.error is None else type(result.error)

    @invariant()
    def what_is_listed_is_what_can_be_called(self) -> None:
        listed = set(self.server.dispatcher.view(self.caller))
        assert {tool.definition.name for tool in listed} == {
            definition.name for definition in self.server.list_tools(self.caller)
        }
        newest = set(self.server.registry.published())
        assert listed <= newest
        for group in self.server.registry.snapshot.groups:
            for entry in group.entries:
                self._look_at(entry.tool, entry.enabled, listed, newest)

    def _look_at(self, tool: Tool, is_enabled: bool, listed: set[Tool], newest: set[Tool]) -> None:
        spellings = [f"{tool.name}@{tool.version}"] if tool.version else []
        if tool in newest:
            spellings += [tool.name, tool.name.upper(), *tool.options.aliases]
        is_seen = tool in listed if tool in newest else None
        richer = Principal(self.caller.name, frozenset(SCOPES), self.caller.roles)
        for name in spellings:
            ends = [self._call(name, arguments, self.caller) for arguments in CALLS]
            if not is_enabled or is_seen is False:
                assert set(ends) == {ToolNotFoundError}
            elif is_seen or ToolNotFoundError not in ends:
                assert set(ends) <= {None, DeniedError, InsufficientScopeError, NotConfirmedError}
                further = [self._call(name, arguments, richer) for arguments in CALLS]
                is_open = {None, NotConfirmedError} & set(further) or self._has_conditions(tool)
                assert is_open, (name, further)
                lacking = InsufficientScopeError in ends
                assert set(ends) == {InsufficientScopeError} if lacking else ends == further
            else:  # a version that is not the newest: hidden from every side
                assert set(ends) == {ToolNotFoundError}

    def _has_conditions(self, tool: Tool) -> bool:
        """Whether a rule about a tool and the caller has conditions."""
        assert self.server.enforcer is not None
        rules = self.server.enforcer.access.decide(self.caller, tool).rules
        return any(rule.conditions for rule in (*rules.denies, *rules.allows))

    @invariant()
    def the_tool_that_calls_others_calls_the_same(self) -> None:
        shown = [definition.name for definition in self.server.list_shown(self.caller)]
        if "call_tool" not in shown:
            return
        listed = {tool.name for tool in self.server.dispatcher.view(self.caller)}
        found = self.loop.run_until_complete(
            self.server.call("search_tools", {"query": "tool", "limit": 50}, principal=self.caller)
        )
        assert {item["name"] for item in found.structured_content["tools"]} <= listed
        for tool in self.server.registry.published():
            for arguments in CALLS[::5]:
                try:
                    passed = self.loop.run_until_complete(
                        self.server.call(
                            "call_tool",
                            {"name": tool.name, "arguments": arguments},
                            principal=self.caller,
                        )
                    )
                except ToolNotFoundError:
                    assert tool.name not in listed
                    continue
                error = passed.error
                assert not isinstance(error, InvalidArgumentsError)
                if tool.name in listed:
                    direct = self._call(tool.name, arguments, self.caller)
                    assert (None if error is None else type(error)) is direct
                else:
                    assert passed.is_error
                    hidden = {item.name for item in self.server.registry.published()} - listed
                    assert hidden.intersection(re.findall(r"\w+", str(error))) <= {tool.name}


TestShop = Shop.TestCase
TestShop.settings = settings(
    max_examples=1_000 if IS_LONG else 20, stateful_step_count=50 if IS_LONG else 20, deadline=None
)
