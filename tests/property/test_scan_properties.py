"""Whole source files out of a grammar: scanning finds what importing registers, word for word."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.scanning.import_results import DOUBTS, describe_scan
from tests.support.scanning.import_targets import describe
from toolcrib import ToolRegistry
from toolcrib.errors import DefinitionError
from toolcrib.sources import collect
from toolcrib.sources.scan import scan

HEAD = '''
{future}
import datetime as dt
import enum
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

import toolcrib
from pydantic import BaseModel, Field
from toolcrib import Application, Context, MCPServer, tool
from toolcrib import tool as offered
from typing_extensions import NotRequired, TypedDict

server = MCPServer("generated")
LIMIT = 5
WORDS = "words " + "of a constant"
Alias = list[int] | None


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Point:
    """A point."""

    x: int
    y: float = 0.5
    names: list[str] = field(default_factory=list)


class Settings(TypedDict):
    depth: int
    colour: NotRequired[Colour]


class Order(BaseModel):
    """An order."""

    number: int = Field(gt=0, description="Its number")
    point: Point | None = None
'''
PAIRS = [
    ("int", ["1", "-3", "LIMIT", "0"]),
    ("float", ["1.5", "2", "-0.25"]),
    ("str", ["'x'", '"two words"', "WORDS", "'a' 'b'", "''"]),
    ("bool", ["True", "False"]),
    ("bytes", []),
    ("list[int]", ["[]", "[1, 2]"]),
    ("list", []),
    ("dict[str, int]", ["{}", "{'a': 1}"]),
    ("Mapping[str, list[float]]", ["None"]),
    ("Sequence[str]", ["()", "('a',)"]),
    ("tuple[int, str]", ["(1, 'a')"]),
    ("set[str]", []),
    ("Any", ["None", "3"]),
    ("object", ["None"]),
    ("None", ["None"]),
    ("Literal['a', 'b', 3]", ["'a'", "3"]),
    ("Optional[int]", ["None", "4"]),
    ("Union[int, str, None]", ["None", "'u'"]),
    ("int | str", ["1"]),
    ("t.List[t.Dict[str, t.Any]]", ["None"]),
    ("dt.date", ["dt.date(2020, 1, 2)"]),
    ("dt.datetime", ["None"]),
    ("dt.timedelta", ["dt.timedelta(seconds=3)"]),
    ("Decimal", ["Decimal('1.5')"]),
    ("Path", ["Path('a')"]),
    ("Colour", ["Colour.RED"]),
    ("Level", ["Level.LOW"]),
    ("Point", []),
    ("Settings", []),
    ("Order", []),
    ("list[Order]", []),
    ("Point | None", ["None"]),
    ("Alias", ["None"]),
    ("'Point'", []),
    ("Annotated[int, Field(ge=0, lt=10)]", ["1", "12"]),
    ("Annotated[str, Field(min_length=1, description='Said beside it')]", ["'x'"]),
    ("Annotated[list[str], 'noted']", ["[]"]),
]
NAMES = ["city", "days", "n", "self_", "key", "value", "kind_of", "x1"]
WORDS = st.sampled_from(
    ["Look it up", "how many, at most", "A text: with marks", "one\\ntwo", "größe ☃", "'quoted'"]
)


@dataclass(frozen=True)
class Parameter:
    name: str
    hint: str | None
    default: str | None
    words: str | None

    def __str__(self) -> str:
        hint = f": {self.hint}" if self.hint else ""
        return f"{self.name}{hint}{f' = {self.default}' if self.default is not None else ''}"


@st.composite
def parameters(draw: st.DrawFn) -> tuple[list[Parameter], int, int]:
    """Parameters in an order that Python takes; how many by place only, and from where by name only."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=5))
    by_name = draw(st.integers(0, len(names)))
    found: list[Parameter] = []
    has_default = False
    for position, name in enumerate(names):
        hint, defaults = draw(st.sampled_from(PAIRS))
        wants = draw(st.booleans()) or (has_default and position < by_name)
        default = draw(st.sampled_from(defaults)) if wants and defaults else None
        if default is None and has_default and position < by_name:
            default = "None"
        has_default = has_default or default is not None
        is_bare = draw(st.integers(0, 9)) == 0
        found.append(Parameter(name, None if is_bare else hint, default, draw(st.none() | WORDS)))
    by_place = draw(st.integers(0, by_name)) if draw(st.integers(0, 4)) == 0 else 0
    return found, by_place, by_name


def sign(given: tuple[list[Parameter], int, int]) -> str:
    several, by_place, by_name = given
    texts = [str(item) for item in several]
    if by_name < len(texts):
        texts.insert(by_name, "*")
    if by_place:
        texts.insert(by_place, "/")
    return ", ".join(texts)


@st.composite
def docstrings(draw: st.DrawFn, several: list[Parameter]) -> str | None:
    style = draw(st.sampled_from(["none", "plain", "google", "numpy", "sphinx"]))
    first = draw(WORDS)
    told = [item for item in several if item.words]
    lines = [first]
    if style == "none":
        return None
    if style == "google" and told:
        lines += [
            "",
            "Args:",
            *(f"    {item.name}: {item.words}" for item in told),
            "",
            "Returns:",
            "    Something",
        ]
    elif style == "numpy" and told:
        lines += ["", "Parameters", "----------"]
        for item in told:
            lines += [f"{item.name} : {item.hint or 'int'}", f"    {item.words}"]
    elif style == "sphinx":
        lines += ["", *(f":param {item.name}: {item.words}" for item in told), ":raises KeyError: sometimes"]
    return "\n".join(line.replace("\\n", " ") for line in lines)


@st.composite
def foreign_functions(draw: st.DrawFn, number: int) -> str:
    """A function on a server of another library."""
    given = draw(parameters())
    result = draw(st.none() | st.sampled_from([hint for hint, _ in PAIRS]))
    words = draw(docstrings(given[0]))
    said = ["name='named'", "title='A title'", "description='Described beside.'", "meta={'a/b': 1}"]
    options = draw(st.lists(st.sampled_from(said), unique=True, max_size=2))
    signature = sign((given[0], 0, given[2]))
    lines = [f"@theirs.tool({', '.join(options).replace('named', f'named_{number}')})"]
    lines += [f"async def tool_{number}({signature}){f' -> {result}' if result else ''}:"]
    lines += [f"    {json.dumps(words, ensure_ascii=False)}"] if words is not None else []
    return "\n".join([*lines, "    return None", ""])


@st.composite
def foreign_sources(draw: st.DrawFn, library: str) -> str:
    server = f"\n\n{library}\ntheirs = Theirs('theirs')\n\n\n"
    return HEAD.replace("{future}", "") + server + draw(foreign_functions(0))


@st.composite
def functions(draw: st.DrawFn, number: int, *, is_method: bool = False) -> str:
    given = draw(parameters())
    several = given[0]
    word = draw(st.sampled_from(["def", "async def"]))
    result = draw(st.none() | st.sampled_from([hint for hint, _ in PAIRS]))
    words = draw(docstrings(several))
    options = draw(
        st.lists(
            st.sampled_from(
                [
                    f"name='named_{number}'",
                    "description='Described beside.'",
                    "title='A title'",
                    "tags=['a', 'b']",
                    "read_only=True",
                    "version='1.2'",
                    "metadata={'k': [1, 2]}",
                    "group='g'",
                    "description=WORDS",
                    "enabled=False",
                ]
            ),
            unique_by=lambda text: text.partition("=")[0],
            max_size=3,
        )
    )
    doors = ["@tool", "@offered", "@toolcrib.tool"] if is_method else ["@tool", "@offered", "@server.tool"]
    door = draw(st.sampled_from(doors))
    if options or draw(st.booleans()):
        door = f"{door}({', '.join(options)})"
    signature = sign(given)
    if is_method:
        signature = f"self, {signature}" if signature else "self"
    lines = [door, f"{word} tool_{number}({signature}){f' -> {result}' if result else ''}:"]
    if words is not None:
        lines += [f"    {json.dumps(words, ensure_ascii=False)}"]
    lines += ["    return None", ""]
    return "\n".join(lines)


@st.composite
def sources(draw: st.DrawFn) -> str:
    future = "from __future__ import annotations" if draw(st.booleans()) else ""
    parts = [draw(functions(number)) for number in range(draw(st.integers(1, 3)))]
    methods = [draw(functions(number + 10, is_method=True)) for number in range(draw(st.integers(0, 2)))]
    if methods:
        lines = "\n".join(methods).splitlines()
        space = draw(st.sampled_from(["", "    namespace = 'space'\n"]))
        body = "\n".join(f"    {line}" if line else "" for line in lines)
        parts.append(f"class GeneratedApp(Application):\n{space}{body}\n")
    return HEAD.replace("{future}", future) + "\n\n" + "\n\n".join(parts)


def register(path: Path) -> tuple[dict[str, Any], list[tuple[str, str | None]]]:
    """What importing the file registers, and what it refuses."""
    try:
        batch = collect(path)
    except DefinitionError as error:
        return {}, [("import", error.message)]
    registry = ToolRegistry()
    report = registry.add_all(batch.tools)
    refused = [
        (item.code, item.tool) for item in [*batch.findings, *report.findings] if item.level == "error"
    ]
    tools = {}
    for entry in registry.entries():
        try:
            described = {**describe(entry.tool), "enabled": entry.enabled}
        except DefinitionError as error:
            refused.append((error.code, error.tool))
        else:
            tools[f"{entry.tool.name}@{entry.tool.version or ''}"] = json.loads(
                json.dumps(described, default=str)
            )
    return tools, refused


@given(source=sources())
def test_a_generated_file_scans_to_what_importing_registers(source: str) -> None:
    compare(source)


@pytest.mark.parametrize(
    "library", ["from mcp.server import MCPServer as Theirs", "from fastmcp import FastMCP as Theirs"]
)
@settings(max_examples=max(30, settings().max_examples // 3))
@given(data=st.data())
def test_a_generated_file_of_another_library_scans_to_what_importing_registers(
    library: str, data: st.DataObject
) -> None:
    pytest.importorskip(library.split()[1].partition(".")[0])
    compare(data.draw(foreign_sources(library)))


def compare(source: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder).resolve() / "generated_tools.py"
        path.write_text(source)
        found = scan(path)
        path_before, modules_before = list(sys.path), set(sys.modules)
        try:
            tools, refused = register(path)
        finally:
            sys.path[:] = path_before
            for name in set(sys.modules) - modules_before:
                if str(getattr(sys.modules[name], "__file__", "")).startswith(folder):
                    del sys.modules[name]
    if refused and refused[0][0] == "import":  # a server refuses at once, and with it the file
        return
    doubts = [finding for finding in found.findings if finding.code.startswith(DOUBTS)]
    # What we refuse and another library takes has that one's schema, which only running it can tell.
    theirs = {f"{finding.tool}@" for finding in doubts if finding.code == "guessed-schema"}
    assert len(theirs) == len(doubts), doubts
    errors = [(item.code, item.tool) for item in found.findings if item.level == "error"]
    assert sorted(errors, key=str) == sorted(refused, key=str)
    scanned = describe_scan(found)
    assert scanned.keys() == tools.keys()
    for key in tools.keys() - theirs:
        assert scanned[key] == tools[key], key
