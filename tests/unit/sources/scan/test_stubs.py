"""Stubs: what is known of a function is kept, what is not is permissive and told."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from tests.support.scanning import snippets
from tests.support.scanning.scanned_snippet import definition_of, imported, read, stub_in
from toolcrib import Tool
from toolcrib.catalog.lint import inspect_tools
from toolcrib.errors import InvalidSignatureError


def look(folder: Path, source: str, **options: Any) -> tuple[Any, list[tuple[str, str | None]]]:
    """The input schema of the stub's tool, and its findings: code and parameter."""
    stub = stub_in(folder, snippets.HEAD + source, **options)
    schema = Tool.from_function(stub.function).definition.input_schema
    assert all(item.level == "warning" and item.tool == "tool" for item in stub.findings)
    assert all(item.line and item.hint and item.file for item in stub.findings)
    return schema, [(item.code, item.parameter) for item in stub.findings]


HINT, DEFAULT = "unresolved-hint", "unresolved-default"
UNKNOWN = {
    "a package that is not read": ("from acme import Order\ndef tool(x: Order): ...", {}, HINT),
    "a part of a hint": ("from acme import Order\ndef tool(x: list[Order]): ...", {"type": "array"}, HINT),
    "a member of a union": ("from acme import Order\ndef tool(x: int | Order): ...", {}, HINT),
    "a name that is nowhere": ("def tool(x: 'Nowhere'): ...", {}, HINT),
    "text that is no annotation": ("def tool(x: 'not a type!'): ...", {}, HINT),
    "a call": ("def tool(x: make_type(3)): ...", {}, HINT),
    "an alias of itself": ("A = B\nB = A\ndef tool(x: A): ...", {}, HINT),
    "a class of itself": ("class X(X): ...\ndef tool(x: X): ...", {}, HINT),
    "classes of each other": ("class A(B): ...\nclass B(A): ...\ndef tool(x: A): ...", {}, HINT),
    "one of two by a condition": (
        "import acme\nif acme.OLD:\n    T = int\nelse:\n    T = str\ndef tool(x: T): ...",
        {"type": "integer"},
        HINT,
    ),
    "what an import falls back to": (
        "try:\n    from acme import T\nexcept ImportError:\n    T = int\ndef tool(x: T): ...",
        {},
        HINT,
    ),
    "metadata that is computed": ("def tool(x: Annotated[int, make()]): ...", {"type": "integer"}, HINT),
    "a class whose decorator is not known": (
        "import acme\n@acme.d\nclass M:\n    a: int\ndef tool(x: M): ...",
        {},
        HINT,
    ),
    "a class whose base is not known": (
        "from acme import B\nclass M(B):\n    a: int\ndef tool(x: M): ...",
        {},
        HINT,
    ),
    "a class with a metaclass": ("class M(metaclass=Meta): ...\ndef tool(x: M): ...", {}, HINT),
    "a class that describes itself": (
        "class M:\n    def __get_pydantic_core_schema__(cls, s, h): ...\ndef tool(x: M): ...",
        {},
        HINT,
    ),
    "a class that Python refuses": ("@dataclass\nclass D:\n    a: list = []\ndef tool(x: D): ...", {}, HINT),
    "an enum that is computed": ("class E(Enum):\n    A = make()\ndef tool(x: E): ...", {}, HINT),
    "too many members": (
        f"def tool(x: Union[{', '.join(f'Literal[{i}]' for i in range(600))}]): ...",
        {},
        HINT,
    ),
    "too deep a hint": (f"def tool(x: {'list[' * 90}int{']' * 90}): ...", {}, HINT),
    "aliases that double": (
        "A0 = int\n"
        + "".join(f"A{i} = tuple[A{i - 1}, A{i - 1}]\n" for i in range(1, 25))
        + "def tool(x: A24): ...",
        {},
        HINT,
    ),
    "too large an enum": (
        "class E(Enum):\n" + "".join(f"    A{i} = {i}\n" for i in range(6000)) + "def tool(x: E): ...",
        {},
        HINT,
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_anything_that_a_hint_means_and_cannot_be_known_is_permissive_and_told(
    name: str, tmp_path: Path
) -> None:
    source, expected, code = UNKNOWN[name]
    schema, findings = look(tmp_path, source)
    assert schema["properties"]["x"] == expected
    assert schema["required"] == ["x"]
    assert (code, "x") in findings


COMPUTED = [
    "os.environ['HOME']",
    "compute(3)",
    "[f() for f in ()]",
    "lambda: 3",
    "Path.home()",
    "datetime.datetime.now()",
    "10 ** 10 ** 10",
    "'a' * 10 ** 10",
    "[0] * 10 ** 10",
    "1 << 10 ** 10",
    "bytes(10 ** 11)",
    "int(Decimal('1e999999999'))",
    "'%1000000000d' % 3",
    "f'{3:>1000000000}'",
    "{**{'a': open('x')}}",
    "CHANGED",
    "SEVERAL",
    "SELF",
    "uuid.uuid4()",
    "__import__('os')",
    "''.join(x for x in 'a')",
    "(lambda: 3)()",
    "print",
    "Holder.missing",
    "DATA['nothing']",
    "1 / 0",
]


@pytest.mark.parametrize("default", COMPUTED)
def test_a_default_that_is_computed_is_there_but_not_shown(default: str, tmp_path: Path) -> None:
    source = (
        "CHANGED = ['a']\nCHANGED.append('b')\nimport acme\n"
        "if acme.X:\n    SEVERAL = 1\nelse:\n    SEVERAL = 2\n"
        "SELF = [SELF]\nclass Holder:\n    a = 1\nDATA = {'a': 1}\n"
        f"def tool(x: Any = {default}, y: int = 3): ..."
    )
    schema, findings = look(tmp_path, source)
    assert schema == {"type": "object", "properties": {"x": {}, "y": {"type": "integer", "default": 3}}}
    assert findings == [(DEFAULT, "x")]


def test_a_default_that_is_not_known_does_not_contradict_the_docstring(tmp_path: Path) -> None:
    source = "def tool(x=compute()):\n    '''Do.\n\n    Args:\n        x (int): n\n    '''"
    stub = stub_in(tmp_path, source)
    tool = Tool.from_function(stub.function)
    assert tool.definition.input_schema["properties"]["x"] == {"type": "integer", "description": "n"}
    assert tool.findings == ()


def test_findings_of_a_class_are_told_of_every_tool_that_uses_it(tmp_path: Path) -> None:
    source = (
        "from acme import Base\nfrom pydantic import BaseModel\n"
        "class Inner(Base, BaseModel):\n    a: int\nclass Outer(BaseModel):\n    inner: list[Inner]\n"
        "def tool(o: Outer): ...\ndef other(p: Outer | None = None): ..."
    )
    reader = read(tmp_path, source)
    for name, parameter in (("tool", "o"), ("other", "p")):
        [finding] = reader.stub(definition_of(reader, name)).findings
        assert (finding.code, finding.tool, finding.parameter, finding.line) == (HINT, name, parameter, 3)


class TestOfAFunction:
    @pytest.mark.parametrize(
        ("body", "check"),
        [
            ("yield 1", inspect.isgeneratorfunction),
            ("return [x async for x in y]", lambda f: not inspect.isgeneratorfunction(f)),
            ("def inner():\n        yield 1\n    return inner", lambda f: not inspect.isgeneratorfunction(f)),
        ],
    )
    def test_it_is_a_generator_where_the_real_one_is(self, body: str, check: Any, tmp_path: Path) -> None:
        word = "async def" if "async" in body else "def"
        assert check(stub_in(tmp_path, f"{word} tool(x):\n    {body}").function)

    @pytest.mark.parametrize(
        "body",
        [
            "return 1",
            "return",
            "return None",
            "if x:\n        return x",
            "def f():\n        return 1",
            "pass",
        ],
    )
    def test_it_returns_something_where_the_real_one_does(self, body: str, tmp_path: Path) -> None:
        source = f"def tool(x):\n    'Some long words.'\n    {body}\n"
        stub = Tool.from_function(stub_in(tmp_path, source).function)
        with imported(tmp_path, source) as module:
            real = Tool.from_function(module.tool)
            expected = [item.code for item in inspect_tools([real]).findings]
        assert [item.code for item in inspect_tools([stub]).findings] == expected

    def test_nothing_happens_when_it_is_called(self, tmp_path: Path) -> None:
        source = "def tool(x: int) -> int:\n    open('trace', 'w')\n"
        assert stub_in(tmp_path, source).function(3) == 0


class TestOfAMethod:
    SOURCE = (
        "from enum import Enum\nclass App:\n    class Kind(Enum):\n        A = 'a'\n"
        "    def tool(self, k: Kind, p: int, d: Kind = Kind.A) -> str: ...\n"
    )

    def test_a_method_without_its_object_is_refused_as_at_run_time(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidSignatureError, match="is an unbound method"):
            Tool.from_function(stub_in(tmp_path, self.SOURCE).function)

    def test_a_parameter_that_is_private_to_the_class_is_told(self, tmp_path: Path) -> None:
        stub = stub_in(tmp_path, "class App:\n    def tool(self, __p: int): ...\n", drops={"self"})
        (finding,) = stub.findings
        assert (finding.code, finding.tool) == (HINT, "tool")
        assert "'__p'" in finding.message


class TestTheContextOfAnotherLibrary:
    @pytest.mark.parametrize(
        ("head", "hint"),
        [
            ("from mcp.server.fastmcp import Context", "Context"),
            ("from mcp.server.mcpserver import Context as C", "C[int]"),
            ("import fastmcp", "fastmcp.Context | None"),
            ("from fastmcp import Context\nfrom typing import *", "Optional['Context']"),
        ],
    )
    def test_it_is_left_out(self, head: str, hint: str, tmp_path: Path) -> None:
        stub = stub_in(tmp_path, f"{head}\ndef tool(a: int, ctx: {hint} = None, b: int = 3): ...")
        assert str(inspect.signature(stub.function)) == "(a: int, b: int = 3)"
        assert stub.findings == []

    def test_our_own_decorator_refuses_it(self, tmp_path: Path) -> None:
        source = "from fastmcp import Context\ndef tool(a: int, ctx: Context): ..."
        stub = stub_in(tmp_path, source, keeps_contexts=True)
        with pytest.raises(InvalidSignatureError, match="is a Context of fastmcp"):
            _ = Tool.from_function(stub.function).definition
