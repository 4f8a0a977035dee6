"""Annotations become the hints that they are at run time, or are Unresolved; nothing is evaluated as text."""

from __future__ import annotations

import sys
import typing
from pathlib import Path

import pytest

from tests.support.scanning.scanned_snippet import definition_of, expression, read, stub_in
from toolcrib import Tool
from toolcrib.sources.scan.values import Unresolved

SOURCE = """
import collections.abc, datetime, re, toolcrib
import typing as t
from typing import *
from typing_extensions import Annotated as An, Literal as Li
import annotated_types
from decimal import Decimal
Ids = list[int]
T = TypeVar("T")
Pairs = dict[str, T]
Loop = list["Loop"]
Wrong = 3
def function(): ...
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Nowhere", "not defined"),
        ("list[Nowhere]", "not defined"),
        ("acme.Order", "not defined"),
        ("function", "no type"),
        ("toolcrib", "comes from"),
        ("Loop", "refers to itself"),
        ("int[str]", "refused at run time"),
        ("dict[str, *Ids]", "cannot be read"),
        ("lambda: 3", "no annotation"),
        ("int + str", "no annotation"),
        ("Literal[compute()]", "computed"),
        ("Annotated[int, compute()]", "computed"),
        ("'int; import os'", "no annotation"),
        ('\'__import__("os").system("true")\'', "computed"),
        ("[x for x in ()]", "no annotation"),
        ("str.__class__", "not known"),
        ("typing.sys", "not defined"),
        ("t.sys", "comes from"),
        ("re.enum.Enum", "comes from"),
    ],
)
def test_anything_that_is_not_known_for_certain_is_unresolved(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(Unresolved) as caught:
        read(tmp_path, SOURCE).hint(expression(text))
    assert words in caught.value.message or "comes from" in caught.value.message
    assert caught.value.line == (11 if text == "Loop" else 10_001)


@pytest.mark.parametrize(
    "annotation",
    [
        "str(EVIL)",
        "list[str(EVIL)]",
        "''.join([EVIL])",
        "Optional[EVIL.strip()]",
        "Annotated[str(EVIL), 1]",
        "dict[str, 'list[str(EVIL)]']",
        "EVIL",
        "list[EVIL]",
        "NewType('N', EVIL)",
        "ALIAS",
        "VARIABLE",
        "ROW",
        "Both",
        "ForwardRef(EVIL)",
    ],
)
def test_no_text_of_a_file_is_ever_evaluated(annotation: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    source = (
        "from typing import *\nfrom dataclasses import dataclass\n"
        f"EVIL = '[].append(open({str(trace)!r}, \"w\"))'\nALIAS = NewType('ALIAS', EVIL)\n"
        "VARIABLE = TypeVar('VARIABLE', bound=EVIL)\nROW = NamedTuple('ROW', [('x', EVIL)])\n"
        "@dataclass\nclass Both:\n    a: str(EVIL)\n    b: EVIL\n"
        f"def tool(x: {annotation}): ...\n"
    ).replace(f"open({str(trace)!r}", f"open({str(trace)!r}".replace("'", '"'))
    stub = stub_in(tmp_path, source)
    _ = Tool.from_function(stub.function).definition
    assert [item.code for item in stub.findings]
    assert not trace.exists()


def test_nothing_that_a_file_names_is_imported(tmp_path: Path) -> None:
    (tmp_path / "sideways.py").write_text("raise SystemExit")
    names = ("sideways", "antigravity", "turtledemo", "lib2to3")
    source = "\n".join(f"import {name}\nfrom {name} import X as {name}_x" for name in names)
    reader = read(tmp_path, source)
    before = set(sys.modules)
    for name in names:
        for text in (f"{name}_x", f"{name}.X", f"list[{name}.a.b]"):
            with pytest.raises(Unresolved):
                reader.hint(expression(text))
            with pytest.raises(Unresolved):
                reader.value(expression(text))
    assert not {name for name in set(sys.modules) - before if name.partition(".")[0] in names}


def test_pydantic_is_loaded_only_where_a_file_means_it(tmp_path: Path) -> None:
    import subprocess

    (tmp_path / "plain.py").write_text(
        "from pydantic import BaseModel\ndef tool(x: list[int] = [1]) -> str: ...\n"
    )
    code = (
        "import sys; from pathlib import Path\n"
        "from toolcrib.sources.scan.files import Library\n"
        "from toolcrib.sources.scan.stubs import Stubs\n"
        f"library = Library([{str(tmp_path)!r}]); file = library.file(Path({str(tmp_path / 'plain.py')!r}))\n"
        "Stubs(library).make(file.tree.body[1], file)\n"
        "print('pydantic' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is of Python 3.12")
def test_a_type_statement_and_type_parameters_are_announced(tmp_path: Path) -> None:
    reader = read(tmp_path, "type Ids = list[int]\ndef tool[T: int](x: Ids, y: T): ...\n")
    found = reader.stub(definition_of(reader)).findings
    assert [(item.code, item.parameter) for item in found] == [
        ("unresolved-hint", None),
        ("unresolved-hint", "x"),
        ("unresolved-hint", "y"),
    ]
    made = reader.hint(expression("Ids"))
    assert made.__value__ == list[int]
    assert reader.hint(expression("list[Ids]")) == list[made]


def test_a_file_is_read_as_if_it_were_the_only_one(tmp_path: Path) -> None:
    for first, second in ("ab", "ba"):
        source = f"from typing import *\ndef tool(x: List[Literal['{first}', '{second}']]): ..."
        hint = stub_in(tmp_path, source).function.__annotations__["x"]
        assert typing.get_args(typing.get_args(hint)[0]) == (first, second)
