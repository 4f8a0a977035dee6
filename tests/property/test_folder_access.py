"""Rules about the files of a folder: whatever names a file, the same rules decide about it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib import MCPServer, Principal, ToolNotFoundError
from toolcrib.errors import FileUnavailableError
from toolcrib.policy import Policy, Rule
from toolcrib.policy.access.explain import explain
from toolcrib.registry.resources import Resource

PATHS = ("a.txt", "b.txt", "in/a.txt", "in/secret.txt", "in/deep/a b.txt", "secret.txt")
LATER = ("in/new.txt", "new secret.txt")
TEMPLATE = "docs://{+path}"
CALLERS = (Principal("local"), Principal("key:a"))

names = st.sampled_from([*PATHS, *LATER]).map(lambda path: f"docs://{path.replace(' ', '%20')}")
selectors = st.one_of(
    names,
    names.map(lambda uri: f"resource:{uri}"),
    st.sampled_from([TEMPLATE, "docs://*", "docs://in/*", "*secret*", "re:docs://[^/]*", "*", "tag:doc"]),
)
predicates = st.one_of(
    st.sampled_from(["a.txt", "in/new.txt"]),
    st.sampled_from(["in/", "a", "new"]).map(lambda text: {"prefix": text}),
    st.sampled_from(["secret.txt", ".txt"]).map(lambda text: {"suffix": text}),
    st.just({"not": {"prefix": "in/"}}),
)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    effect = draw(st.sampled_from(["allow", "deny", "deny"]))
    selector = draw(selectors)
    matches_template = is_selected(selector, TEMPLATE)  # else no tool of the rule has the argument
    when = {"path": draw(predicates)} if matches_template and draw(st.booleans()) else {}
    who = draw(st.sampled_from([(), ("local",), ("key:*",)]))
    return Rule(**{effect: [selector], "when": when, "who": who})


def is_selected(selector: str, name: str) -> bool:
    if selector.startswith("tag:"):
        return True
    if selector.startswith("re:"):
        return re.fullmatch(selector[3:], name) is not None
    return fnmatchcase(name, selector.removeprefix("resource:"))


def holds(predicate: Any, path: str) -> bool:
    if isinstance(predicate, str):
        return path == predicate
    ((operator, constant),) = predicate.items()
    if operator == "not":
        return not holds(constant, path)
    return path.startswith(constant) if operator == "prefix" else path.endswith(constant)


def is_readable(written: list[Rule], caller: Principal, path: str) -> bool:
    """A plain reading of the rules: those about the URI and those about the template with the path."""
    uri = f"docs://{path.replace(' ', '%20')}"
    counting = {
        rule.effect
        for rule in written
        if (is_selected(rule.tools[0], uri) or is_selected(rule.tools[0], TEMPLATE))
        and (not rule.who or any(fnmatchcase(caller.name, who) for who in rule.who))
        and all(holds(predicate, path) for predicate in rule.when.values())
    }
    return "deny" not in counting and ("allow" in counting or not any(rule.allow for rule in written))


def spell(path: str) -> Iterator[str]:
    """Every way to write the URI of a file that a server may take for it."""
    plain = path.replace(" ", "%20")
    yield f"docs://{plain}"
    yield f"docs://{path}"
    yield f"docs://{path.replace('t', '%74').replace(' ', '%20')}"
    yield f"docs://{plain.replace('/', '%2F')}"
    yield f"docs://{plain.replace('/', '//')}"
    yield f"docs://./{plain}"
    yield f"docs:///{plain}"
    yield f"docs://x/../{plain}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("docs")
    for path in PATHS:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
    return root


@settings(max_examples=150)
@given(st.lists(rules(), min_size=1, max_size=4))
def test_a_denied_file_of_a_folder_is_neither_listed_nor_readable(folder: Path, written: list[Rule]) -> None:
    for path in LATER:
        (folder / path).unlink(missing_ok=True)
    server = MCPServer("docs", policy=Policy(rules=written), dynamic=True)
    server.add_resource("docs://", folder, tags=["doc"])
    for path in LATER:
        (folder / path).write_text(path)
    asyncio.run(check(server, written))


async def check(server: MCPServer, written: list[Rule]) -> None:
    dispatcher, enforcer = server.dispatcher, server.enforcer
    assert enforcer is not None
    for caller in CALLERS:
        listed = {tool.name for tool in dispatcher.view(caller, dispatcher.resources)}
        for path in (*PATHS, *LATER):
            expected = is_readable(written, caller, path)
            uri = f"docs://{path.replace(' ', '%20')}"
            if path in PATHS:
                assert (uri in listed) is expected
            resource, values = dispatcher.find_resource(uri)
            assert isinstance(resource, Resource)
            assert explain(enforcer.access, caller, resource, values).is_refused is not expected
            for spelling in spell(path):
                text = await read(server, spelling, caller)
                assert text in ((path, None) if expected else (None,)), spelling
            assert (await read(server, uri, caller) is not None) is expected


async def read(server: MCPServer, uri: str, caller: Principal) -> str | None:
    try:
        return str((await server.read(uri, principal=caller))[0]["text"])
    except (FileUnavailableError, ToolNotFoundError):
        return None
