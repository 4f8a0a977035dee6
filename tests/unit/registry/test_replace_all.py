"""ToolRegistry.replace_all: one set of tools replaces another."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.small_tools import broken, named, names
from toolcrib import Tool, ToolRegistry
from toolcrib.errors import BatchError, RegistrationClosedError
from toolcrib.registry.registry import Change


@pytest.fixture
def tools() -> ToolRegistry:
    return ToolRegistry()


@pytest.fixture
def heard(tools: ToolRegistry) -> list[Change]:
    changes: list[Change] = []
    tools.subscribe(changes.append)
    return changes


def written(text: str, name: str = "tool", **scope: Any) -> Tool:
    """A tool out of source text: each time another function, as loading a file again makes it."""
    exec(compile(text, "written.py", "exec"), scope)
    return Tool.from_function(scope[name])


def test_one_set_takes_the_place_of_another_in_one_change(tools: ToolRegistry, heard: list[Change]) -> None:
    report = tools.add_all([named("a"), named("b"), named("c")])
    tools.add(named("stranger"))
    heard.clear()
    new = [named("d"), named("b", tags=["x"]), named("a", tags=["x"])]
    assert tools.replace_all(report.registered, new).registered == new
    assert names(tools) == ["a", "b", "stranger", "d"]
    assert [tools.get(tool.name) for tool in new] == new
    assert heard == [Change("changed", ("d", "b", "a", "c"), 3)]
    assert (len(tools), tools.revision) == (4, 3)


@pytest.mark.parametrize(
    ("new", "kind"),
    [(["a", "b", "c"], "added"), (["a"], "removed"), ([], "removed")],
)
def test_a_change_of_one_kind_is_called_so(
    tools: ToolRegistry, heard: list[Change], new: list[str], kind: str
) -> None:
    functions = {name: named(name) for name in "abc"}
    old = tools.add_all([functions["a"], functions["b"]]).registered
    tools.replace_all(old, [functions[name] for name in new])
    assert heard[-1].kind == kind
    assert names(tools) == new


def test_the_same_tools_from_another_module_are_no_change_but_are_what_is_called(
    tools: ToolRegistry, heard: list[Change]
) -> None:
    text = "def tool(x: int = 1) -> int:\n    'Do.'\n    return [y for y in range(x)]"
    old = tools.add_all([written(text)]).registered
    before = (tools.revision, tools.snapshot)
    moved = written("# moved\n\n" + text.replace("    return", "\n    return"))
    tools.replace_all(old, [moved])
    assert tools.get("tool") is moved
    assert tools.revision == before[0]
    assert tools.snapshot is not before[1]
    assert len(heard) == 1


@pytest.mark.parametrize(
    "other",
    [
        "def tool(x: int = 1) -> int:\n    'Do.'\n    return x + 2",
        "def tool(x: int = 2) -> int:\n    'Do.'\n    return x + 1",
        "def tool(x: int = 1) -> int:\n    'Do it.'\n    return x + 1",
        "def tool(x: float = 1) -> int:\n    'Do.'\n    return x + 1",
        "def tool(x: int = 1) -> int:\n    'Do.'\n    return (lambda: x + 1)()",
    ],
)
def test_another_behaviour_and_other_words_are_a_change(
    tools: ToolRegistry, heard: list[Change], other: str
) -> None:
    old = tools.add_all([written("def tool(x: int = 1) -> int:\n    'Do.'\n    return x + 1")]).registered
    tools.replace_all(old, [written(other)])
    assert heard[-1] == Change("replaced", ("tool",), 2)


def test_what_a_function_has_closed_over_counts(tools: ToolRegistry, heard: list[Change]) -> None:
    text = "def make(word, other):\n    def tool() -> str:\n        return word + other()\n    return tool\n"
    text += "tool = make(given, lambda: 'x')"
    old = tools.add_all([written(text, given="one")]).registered
    old = tools.replace_all(old, [written(text, given="one")]).registered
    assert len(heard) == 1
    tools.replace_all(old, [written(text, given="two")])
    assert len(heard) == 2


def test_what_does_not_bear_comparing_is_a_change(tools: ToolRegistry, heard: list[Change]) -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError

        __hash__ = None  # type: ignore[assignment]

    text = "def tool(x: str = 'x', *, y: str = odd) -> str:\n    return x"
    schema = {"type": "object", "properties": {}}
    tool = written(text, odd=Odd()).with_options(input_schema=schema)
    again = written(text, odd=Odd()).with_options(input_schema=schema)
    tools.replace_all(tools.add_all([tool]).registered, [again])
    assert len(heard) == 2


def test_a_function_without_source_is_the_same_where_it_is_itself(
    tools: ToolRegistry, heard: list[Change]
) -> None:
    schema = {"type": "object", "properties": {"c": {"type": "string"}}, "required": ["c"]}
    old = tools.add_all([named("a"), Tool.from_function(ord, input_schema=schema)]).registered
    tools.replace_all(old, [old[0], Tool.from_function(ord, input_schema=schema)])
    assert len(heard) == 1


def test_switches_stay_as_they_were_set_by_hand(tools: ToolRegistry) -> None:
    old = tools.add_all(
        [named("off"), named("on", enabled=False), named("as_written", enabled=False)]
    ).registered
    tools.disable("off")
    tools.enable("on")
    tools.replace_all(old, [named("off"), named("on", enabled=False), named("as_written")])
    assert names(tools) == ["on", "as_written"]


def test_spellings_that_the_old_give_up_are_free_for_the_new(tools: ToolRegistry) -> None:
    old = tools.add_all([named("a", aliases=["x"]), named("b", aliases=["y"])]).registered
    tools.replace_all(old, [named("a", aliases=["y"]), named("b"), named("x")])
    assert (tools.get("y").name, tools.get("x").name) == ("a", "x")


@pytest.mark.parametrize(
    "wrong",
    [[named("a"), named("a")], [named("stranger")], [broken("a")], [named("b", aliases=["stranger"])], [5]],
)
def test_what_is_wrong_changes_nothing(tools: ToolRegistry, heard: list[Change], wrong: list[Any]) -> None:
    old = tools.add_all([named("a"), named("b")]).registered
    tools.add(named("stranger"))
    before = (tools.snapshot, tools.revision, len(heard))
    with pytest.raises(BatchError, match="Nothing changed, 1 refused") as refusal:
        tools.replace_all(old, [named("new"), *wrong])
    assert len(refusal.value.findings) == 1
    assert (tools.snapshot, tools.revision, len(heard)) == before


def test_what_is_known_to_be_wrong_is_left_out(tools: ToolRegistry) -> None:
    report = tools.add_all([named("a"), named("a"), broken("b")], strict=False)
    known = [*report.findings, *tools.check()]
    swapped = tools.replace_all(
        report.registered, [named("a"), named("a"), broken("b"), named("c")], known=known
    )
    assert names(tools) == ["a", "c"]
    assert [tool.name for tool in swapped.registered] == ["a", "c"]


def test_a_tool_that_another_has_replaced_is_not_taken_out(tools: ToolRegistry) -> None:
    old = tools.add_all([named("a"), named("b")]).registered
    mine = tools.replace(named("a", tags=["mine"]))
    tools.remove("b")
    tools.replace_all(old, [named("c")])
    assert tools.get_all()[0] is mine
    assert names(tools) == ["a", "c"]


def test_where_the_first_is_kept_a_strangers_tool_stays_a_strangers() -> None:
    tools = ToolRegistry(on_duplicate="keep")
    stranger = tools.add(named("a"))
    swapped = tools.replace_all([], [named("a"), named("b")])
    assert [tool.name for tool in swapped.registered] == ["b"]
    tools.replace_all(swapped.registered, [])
    assert tools.get_all() == [stranger]


def test_versions_of_a_name_are_exchanged_one_by_one(tools: ToolRegistry) -> None:
    old = tools.add_all([named("a", version="1"), named("a", version="2")]).registered
    tools.disable("a@2")
    tools.replace_all(old, [named("a", version="1"), named("a", version="2"), named("a", version="3")])
    assert [tool.version for tool in tools.versions("a")] == ["3", "2", "1"]
    assert tools.try_get("a@2") is None


def test_a_closed_registry_exchanges_nothing(tools: ToolRegistry) -> None:
    tools.close("No more")
    with pytest.raises(RegistrationClosedError, match="No more"):
        tools.replace_all([], [named("a")])
