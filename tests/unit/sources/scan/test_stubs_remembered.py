"""Annotations that are written alike are read once, where that cannot make a difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.scanning.scanned_snippet import definition_of, read
from toolcrib.sources.scan import scan

HEAD = "from toolcrib import tool\n"


def hints(folder: Path, source: str, *names: str) -> list[Any]:
    """The hints of the parameter `x` of functions in one file, in this order."""
    reader = read(folder, source)
    return [reader.stub(definition_of(reader, name)).function.__annotations__["x"] for name in names]


def shown(folder: Path) -> dict[str, Any]:
    found = scan(folder)
    assert not found.findings
    return {tool.name: tool.definition.input_schema["properties"]["x"] for tool in found.tools}


def test_one_annotation_is_one_hint(tmp_path: Path) -> None:
    first, second = hints(tmp_path, "def a(x: list[str]): ...\ndef b(x: list[str]): ...", "a", "b")
    assert first is second == list[str]


def test_what_a_call_says_is_made_anew_each_time(tmp_path: Path) -> None:
    head = "from typing import Annotated\nfrom pydantic import Field\n"
    source = f"{head}def a(x: Annotated[int, Field(ge=1)]): ...\ndef b(x: Annotated[int, Field(ge=1)]): ..."
    first, second = hints(tmp_path, source, "a", "b")
    assert first.__metadata__[0] is not second.__metadata__[0]


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_a_name_that_changes_on_the_way_means_what_it_means_there(tmp_path: Path, names: str) -> None:
    source = "T = int\ndef a(x: list[T]): ...\nT = str\ndef b(x: list[T]): ..."
    found = dict(zip(names, hints(tmp_path, source, *names), strict=True))
    assert found == {"a": list[int], "b": list[str]}


def test_a_name_of_a_class_is_its_own(tmp_path: Path) -> None:
    source = "class C:\n    str = int\n    def a(self, x: list[str]): ...\ndef b(x: list[str]): ..."
    assert hints(tmp_path, source, "b", "a", "b") == [list[str], list[int], list[str]]


@pytest.mark.parametrize(
    "binding", ["str = int", "from other import *", "from other import str", "import decimal as str"]
)
def test_a_file_that_means_something_else_by_a_built_in_name_is_believed(
    tmp_path: Path, binding: str
) -> None:
    (tmp_path / "other.py").write_text("str = int\n")
    function = '@tool\ndef {}(x: list[str]) -> int:\n    """Say."""\n    return 1\n'
    (tmp_path / "a.py").write_text(HEAD + function.format("before"))
    (tmp_path / "b.py").write_text(HEAD + binding + "\n" + function.format("odd"))
    (tmp_path / "c.py").write_text(HEAD + function.format("after"))
    found = {tool.name: tool.definition.input_schema["properties"]["x"] for tool in scan(tmp_path).tools}
    plain = {"type": "array", "items": {"type": "string"}}
    assert found["before"] == found["after"] == plain
    assert found["odd"] != plain


def test_findings_are_those_of_every_tool(tmp_path: Path) -> None:
    source = HEAD + "from acme import Order\n"
    for name in ("first", "second"):
        source += f'@tool\ndef {name}(x: list[Order]) -> int:\n    """Say."""\n    return 1\n'
    (tmp_path / "a.py").write_text(source)
    told = [(item.code, item.tool, item.line) for item in scan(tmp_path).findings]
    assert told == [("unresolved-hint", "first", 4), ("unresolved-hint", "second", 8)]


def test_an_empty_file_beside_others_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "a.py").write_text(f'{HEAD}@tool\ndef go(x: str) -> str:\n    """Go."""\n    return x\n')
    assert shown(tmp_path) == {"go": {"type": "string"}}
