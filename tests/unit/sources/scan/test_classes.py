"""Classes of files become classes with the same fields and words, and none of their code."""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any

import pytest

from tests.support.scanning import snippets_of_models
from tests.support.scanning.scanned_snippet import definition_of, read, stub_in
from toolcrib.sources.scan.values import Unresolved

HEAD = snippets_of_models.HEAD


def class_in(folder: Path, source: str, name: str = "C") -> Any:
    reader = read(folder, HEAD + source)
    return reader.cls(definition_of(reader, name))


class TestWhatIsKept:
    def test_no_reference_is_left_that_could_be_evaluated(self, tmp_path: Path) -> None:
        source = (
            "@dataclass\nclass C:\n    d: 'list[D]'\n    t: 'T'\n    n: 'N | None' = None\n"
            "@dataclass\nclass D(C):\n    c: 'dict[str, C] | None' = None\n"
            "class T(TypedDict):\n    c: 'C'\nclass U(T):\n    d: 'list[U]'\n"
            "class N(NamedTuple):\n    u: 'U'\n    n: 'N | None' = None\n"
        )
        waiting, seen = [class_in(tmp_path, source)], set()
        while waiting:
            cls = waiting.pop()
            for hint in cls.__annotations__.values():
                assert "ForwardRef" not in repr(hint)
                for part in (hint, *typing.get_args(hint)):
                    if isinstance(part, type) and part.__module__ == "snippet" and part not in seen:
                        seen.add(part)
                        waiting.append(part)
        assert {cls.__name__ for cls in seen} == {"T", "U", "N"}

    def test_a_reference_to_itself_is_announced_in_its_line(self, tmp_path: Path) -> None:
        source = "@dataclass\nclass C:\n    n: int\n    kids: 'list[C]'\n"
        stub = stub_in(tmp_path, f"from dataclasses import dataclass\n{source}def tool(x: C): ...")
        assert [(item.code, item.line) for item in stub.findings] == [("unresolved-hint", 5)]
        assert "class 'C' refers to itself" in stub.findings[0].message


class TestWhatIsNotRun:
    TRACES = [
        "class C:\n    open(TRACE, 'w')\n",
        "class C:\n    def __init_subclass__(cls): open(TRACE, 'w')\nclass D(C): ...\n",
        "class Meta(type):\n    def __new__(m, *a): open(TRACE, 'w')\nclass C(metaclass=Meta): ...\n",
        "def deco(c): open(TRACE, 'w')\n@deco\nclass C: ...\n",
        "@dataclass\nclass C:\n    a: int = open(TRACE, 'w')\n",
        "@dataclass\nclass C:\n    a: list = field(default_factory=lambda: open(TRACE, 'w'))\n",
        "class C(Enum):\n    A = open(TRACE, 'w')\n",
        "class C(Enum):\n    A = 1\n    def __init__(self, x): open(TRACE, 'w')\n",
        "class C(BaseModel):\n    a: int = Field(default_factory=lambda: open(TRACE, 'w'))\n",
        "class C(BaseModel):\n    a: int\n    @model_validator(mode='before')\n"
        "    @classmethod\n    def v(cls, d): open(TRACE, 'w')\n",
        "class C(BaseModel):\n    @computed_field\n    @property\n    def p(self) -> int: open(TRACE, 'w')\n",
        "class C(BaseModel):\n    model_config = {'json_schema_extra': lambda: open(TRACE)}\n    a: int\n",
        "class C(BaseModel):\n    a: Annotated[int, AfterValidator(lambda v: open(TRACE, 'w'))] = 3\n",
        "class C(str):\n    def __new__(cls, *a): open(TRACE, 'w')\n",
        "class C(NamedTuple):\n    a: int = open(TRACE, 'w')\n",
        "class C(TypedDict):\n    a: open(TRACE, 'w')\n",
        "class C(open(TRACE, 'w')): ...\n",
    ]

    @pytest.mark.parametrize("source", TRACES)
    def test_no_part_of_a_class(self, source: str, tmp_path: Path) -> None:
        trace = tmp_path / "trace"
        code = source.replace("TRACE", repr(str(trace)))
        name = "D" if "class D" in source else "C"
        stub = stub_in(tmp_path, f"{HEAD}{code}\ndef tool(x: {name}, y: list[{name}] = {name}()): ...")
        _ = str(stub.function.__annotations__)
        assert not trace.exists()


UNREAD = {
    "an unknown base": "from acme import B\nclass C(B, BaseModel):\n    a: int",
    "a decorator": "import acme\n@acme.wrap\n@dataclass\nclass C:\n    a: int",
    "a metaclass": "class C(metaclass=Meta):\n    a: int",
    "an alias generator": "class C(BaseModel):\n    model_config = {'alias_generator': f}\n    a: int",
    "computed settings": "class C(BaseModel):\n    model_config = settings()\n    a: int",
    "an extra that is code": "class C(BaseModel):\n    model_config = {'json_schema_extra': f}\n    a: int",
    "field words": "class C(BaseModel):\n    model_config = {'use_attribute_docstrings':1}\n    a: int",
    "a computed field": "class C(BaseModel):\n    @computed_field\n    def p(self) -> int: ...",
    "a plain validator": (
        "class C(BaseModel):\n    a: int\n    @field_validator('a', mode='plain')\n    def v(cls, x): ..."
    ),
    "an inner Config": "class C(BaseModel):\n    a: int\n    class Config:\n        title = 'T'",
    "older validators": "class C(BaseModel):\n    a: int\n    @validator('a')\n    def v(cls, x): return x",
    "its own schema": "class C(BaseModel):\n    a: int\n    def __get_pydantic_json_schema__(c, h): ...",
    "a changed class": "@dataclass\nclass C:\n    a: int\nC.__doc__ = 'Other words.'",
    "a body with conditions": "@dataclass\nclass C:\n    a: int\n    if NEW:\n        b: int = 3",
    "a mixin with fields": "class X:\n    b: int\nclass C(X, BaseModel):\n    a: int",
    "values that an enum computes": "class C(Enum):\n    A = 1\n    def __init__(self, n): ...",
    "names that an enum computes": "class C(Enum):\n    def _generate_next_value_(n, *a): ...\n    A = 1",
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_class_that_is_not_read_as_a_whole_is_any_type(name: str, tmp_path: Path) -> None:
    stub = stub_in(tmp_path, f"{HEAD}{UNREAD[name]}\ndef tool(x: C): ...")
    assert {item.code for item in stub.findings} == {"unresolved-hint"}
    assert all(item.message and item.hint for item in stub.findings)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("@dataclass\nclass C:\n    a: int = 1\n    b: int", "refused at run time"),
        ("class C(Enum):\n    A = 1\n    A = 2", "refused at run time"),
        ("class C(int, str): ...", "refused at run time"),
        ("class C(bool): ...", "refused at run time"),
        ("@dataclass\nclass C:\n" + "".join(f"    a{i}: int\n" for i in range(1_100)), "too many members"),
        ("class C(Enum):\n" + "".join(f"    A{i} = {i}\n" for i in range(5_100)), "too many members"),
    ],
)
def test_anything_that_cannot_be_made_is_unresolved(source: str, words: str, tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(Unresolved, match=words):
            class_in(tmp_path, source)


def test_a_long_chain_of_classes_comes_to_an_end(tmp_path: Path) -> None:
    source = "".join(f"@dataclass\nclass C{i}:\n    n: 'C{i + 1} | None' = None\n" for i in range(500))
    stub = stub_in(tmp_path, f"{HEAD}{source}C500 = int\ndef tool(x: C0): ...")
    assert [item.code for item in stub.findings] == ["unresolved-hint"]
    assert "too many others" in stub.findings[0].message


def test_a_chain_of_deep_hints_comes_to_an_end(tmp_path: Path) -> None:
    hint = "list[dict[str, Optional[tuple[list[set['C{}']], ...]]]]"
    source = "".join(f"@dataclass\nclass C{i}:\n    n: {hint.format(i + 1)}\n" for i in range(200))
    stub = stub_in(
        tmp_path, f"{HEAD}{source}C200 = int\ndef tool(x: C0, y: {'a.' * 2_000}b = {'a.' * 900}b): ..."
    )
    assert {item.parameter for item in stub.findings} == {"x", "y"}
