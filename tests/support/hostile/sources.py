# ruff: noqa: E501 - programs in one line each are long
"""Source files that would do harm if anything in them ran, and files that are hard to read at all.

Code that runs creates a file named after the source file. The same seed gives the same file everywhere.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

Make = Callable[[random.Random, str], bytes]
HEAD = "from toolcrib import MCPServer, Application, tool\nserver = MCPServer('hostile')\n"
GOOD = '''

@tool
def honest_{number}(a: int, b: str = "b") -> int:
    """Is found all the same."""
    return a
'''


def _trace(where: str) -> str:
    """Return an expression that creates that file, in one of several ways."""
    return f"__import__('pathlib').Path({where!r}).write_text('it ran')"


def _at_import(rng: random.Random, where: str) -> bytes:
    ways = (
        f"{_trace(where)}\n",
        f"import os\nos.system('touch {where}')\n",
        f"import subprocess\nsubprocess.run(['touch', {where!r}])\n",
        f"exec(compile({_trace(where)!r}, 'x', 'exec'))\n",
        f"import socket\nsocket.create_connection(('127.0.0.1', 9))\n{_trace(where)}\n",
        f"while True:\n    {_trace(where)}\n",
        f"import sys\n{_trace(where)}\nsys.exit(3)\n",
        f"if {_trace(where)}:\n    import antigravity\n",
        f"assert {_trace(where)}\nraise SystemExit\n",
        f"import ctypes\n{_trace(where)}\nctypes.string_at(0)\n",
    )
    return f"{HEAD}{rng.choice(ways)}".encode()


def _in_decorator(rng: random.Random, where: str) -> bytes:
    trace = _trace(where)
    ways = (
        f"@tool(name={trace})\ndef f(a: int) -> int:\n    '''Words.'''\n    return a\n",
        f"@server.tool(description=str({trace}))\ndef f(a: int):\n    '''Words.'''\n",
        f"@(lambda f: ({trace}, f)[1])\n@tool\ndef f(a: int):\n    '''Words.'''\n",
        f"def deco(f):\n    {trace}\n    return tool(f)\n@deco\ndef f(a: int):\n    '''Words.'''\n",
        f"@tool(**{{'name': {trace}}})\nclass T:\n    name = 'x'\n",
        f"server.add(*[{trace}], namespace={trace})\n",
        f"server.tool(tags=[{trace} for _ in range(10**9)])(print)\n",
    )
    return f"{HEAD}{rng.choice(ways)}".encode()


def _in_signature(rng: random.Random, where: str) -> bytes:
    trace = _trace(where)
    ways = (
        f"@tool\ndef f(a={trace}, b: {trace} = 1) -> {trace}:\n    '''Words.'''\n",
        f"@tool\ndef f(a: '{trace.replace(chr(39), chr(34))}'):\n    '''Words.'''\n",
        f"from typing import Annotated, Literal\n@tool\ndef f(a: Annotated[int, {trace}], b: Literal[{trace}]):\n    '''W.'''\n",
        f"from pydantic import Field\n@tool\ndef f(a: int = Field(default_factory=lambda: {trace})):\n    '''Words.'''\n",
        f"A = list[{trace}]\n@tool\ndef f(a: A):\n    '''Words.'''\n",
        f"@tool\ndef f(a=[{trace} for _ in [1]], b=(x := {trace})):\n    '''Words.'''\n",
    )
    return f"{HEAD}{rng.choice(ways)}".encode()


def _in_class(rng: random.Random, where: str) -> bytes:
    trace = _trace(where)
    body = "    @tool\n    def m(self, a: int) -> int:\n        '''Words.'''\n        return a\n"
    ways = (
        f"class A(Application):\n    x = {trace}\n{body}",
        f"class M(type):\n    def __new__(c, *a, **k):\n        {trace}\n        return super().__new__(c, *a, **k)\n"
        f"class A(Application, metaclass=M):\n{body}",
        f"class A({trace}):\n    name = 'a'\n    description = 'Words.'\n    input_schema = {{}}\n    def execute(self): ...\n",
        f"class A(Application):\n    def __init__(self):\n        {trace}\n{body}",
        f"class A(Application):\n    def __init_subclass__(cls):\n        {trace}\nclass B(A):\n{body}",
        f"class D:\n    def __get__(self, *a):\n        {trace}\nclass A(Application):\n    name = D()\n    namespace = D()\n{body}",
        f"class A(Application):\n    def list_tools(self):\n        {trace}\n        return [self.m]\n{body}",
        f"from pydantic import BaseModel, field_validator\nclass A(BaseModel):\n    x: int = {trace}\n"
        f"    @field_validator('x')\n    def v(cls, v):\n        {trace}\n@tool\ndef f(a: A):\n    '''Words.'''\n",
        f"import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: int = dataclasses.field(default_factory=lambda: {trace})\n"
        f"    def __post_init__(self):\n        {trace}\n@tool\ndef f(a: A = A(1)):\n    '''Words.'''\n",
        f"import enum\nclass E(enum.Enum):\n    A = {trace}\n    def _generate_next_value_(*a):\n        {trace}\n"
        "    B = enum.auto()\n@tool\ndef f(a: E = E.B):\n    '''Words.'''\n",
    )
    return f"{HEAD}{rng.choice(ways)}".encode()


def _in_table(rng: random.Random, where: str) -> bytes:
    trace = _trace(where)
    ways = (
        f"TOOL_DEFINITIONS = [{{'name': {trace}, 'schema': {{}}}}]\nTOOL_HANDLERS = {{{trace}: print}}\n",
        f"TOOL_DEFINITIONS = [{{'name': 'x', 'schema': {{}}, 'handler': lambda: {trace}}}] * 10**9\n",
        f"TOOL_CONFIGS = {{**{trace}}}\nTOOL_GROUP = {trace}\n__all__ = {trace}\n",
        "TOOL_DEFINITIONS = []\nTOOL_DEFINITIONS.extend(TOOL_DEFINITIONS)\nTOOL_DEFINITIONS += TOOL_DEFINITIONS\n",
    )
    return f"{HEAD}{rng.choice(ways)}".encode()


def _huge(rng: random.Random, where: str) -> bytes:
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: b"x = 1  # tool\n" * 750_000,
        lambda: b"tool = '" + b"a" * 10_000_000 + b"'\n",
        lambda: b"tool = [" + b"1," * 2_000_000 + b"]\n",
        lambda: b"tool = " + b"9" * 100_000 + b"\n",
        lambda: b"#" + b" tool" * 900_000 + b"\n",
        lambda: HEAD.encode() + b"@tool\ndef f(a: int):\n    '''Words.'''\n" * 20_000,
        lambda: HEAD.encode() + b"server.add(print)\n" * 30_000,
        lambda: (
            HEAD.encode()
            + b"from enum import Enum\nclass E(Enum):\n"
            + b"".join(b"    A%d = %d\n" % (n, n) for n in range(50_000))
            + b"@tool\ndef f(e: E):\n    '''Words.'''\n"
        ),
        lambda: (
            HEAD.encode()
            + b"@tool\ndef f("
            + b",".join(b"a%d" % n for n in range(20_000))
            + b"):\n    '''W.'''\n"
        ),
        lambda: HEAD.encode() + b"@tool\ndef f():\n    '''" + b"Args:\n        a: b\n" * 100_000 + b"'''\n",
    )
    return rng.choice(ways)()


def _deep(rng: random.Random, where: str) -> bytes:
    size = rng.choice((90, 500, 5_000, 50_000))
    ways = (
        "x = " + "(" * size + ")" * size,
        "x = " + "[" * size + "]" * size,
        "x = " + "-" * size + "1",
        "x = a" + ".b" * size,
        "x = f" + "()" * size,
        "x = " + "+".join(["1"] * size),
        "x = " + "+".join(["[tool]"] * size),
        "x = " + "not " * size + "True",
        "x = " + "lambda: " * size + "1",
        "@tool\ndef f(a: " + "list[" * size + "int" + "]" * size + "): '''Words.'''",
        "@tool\ndef f(a: " + "|".join(["int", "str"] * size) + "): '''Words.'''",
        "if a: pass\n" + "elif tool: pass\n" * size,
        "x = " + "f'{" * min(size, 400) + "1" + "}'" * min(size, 400),
        "\n".join(" " * depth + "if tool:" for depth in range(min(size, 99))) + "\n" + " " * 99 + "pass",
        "".join(f"def f{n}(s):\n    f{n + 1}(s)\n    f{n + 1}(s)\n" for n in range(60)) + "f0(server)\n",
        "".join(f"A{n} = tuple[A{n + 1}, A{n + 1}]\n" for n in range(60)) + "@tool\ndef f(a: A0): '''W.'''\n",
        "A = B\nB = A\n@tool\ndef f(a: A, b: 'f' = A): '''Words.'''",
        "class A(A): pass\nclass B(C): pass\nclass C(B):\n    def list_tools(self): return self.list_tools()\n",
        "def f(g): return f(g)(f)\nf(server)(f)(f)\n@f\n@f(f)\ndef h(): pass",
        "tools = []\nfor a in tools:\n    tools.append(a)\nwhile tools: tools.extend(tools)\n",
    )
    return f"{HEAD}{rng.choice(ways)}\n".encode()


def _odd_bytes(rng: random.Random, where: str) -> bytes:
    text = f"{HEAD}@tool\ndef f(a: int):\n    '''Wörds.'''\n"
    ways = (
        text.encode() + b"\0",
        b"\0" * 1000,
        b"# -*- coding: latin-1 -*-\n" + text.encode("latin-1"),
        text.encode("latin-1"),
        b"# -*- coding: no-such-codec -*-\n" + text.encode(),
        b"# -*- coding: utf-16 -*-\n" + text.encode(),
        text.encode("utf-16"),
        text.encode("utf-32"),
        b"\xef\xbb\xbf" + text.encode(),
        b"\xef\xbb\xbf# -*- coding: latin-1 -*-\n" + text.encode(),
        b"# -*- coding: rot13 -*-\n" + text.encode(),
        b"# -*- coding: hex -*-\n" + text.encode(),
        b"# -*- coding: punycode -*-\n" + text.encode(),
        b"# -*- coding: unicode_escape -*-\n" + text.encode(),
        text.replace("\n", "\r").encode(),
        text.replace("\n", "\r\n").encode() + b"\x1a",
        text.encode() + b"\xff\xfe tool",
        b"def f(:\n  tool",
        b"\x7fELF" + bytes(rng.randrange(256) for _ in range(5_000)) + b"tool",
        b"\\" * 10_000 + b"tool",
        "tool = '\\N{LATIN SMALL LETTER A}' '\\d' \"\u202e\"\n".encode(),
        "\u200bdef tool(): pass\n".encode(),
        f"{HEAD}@tool\ndef ｆ(ａ: int):\n    'Words.'\n".encode(),
        "tool = '\ud800'\n".encode("utf-8", "surrogatepass"),
    )
    return rng.choice(ways)


_KINDS: dict[str, Make] = {
    "import": _at_import,
    "decorator": _in_decorator,
    "signature": _in_signature,
    "class": _in_class,
    "table": _in_table,
    "deep": _deep,
    "bytes": _odd_bytes,
    "huge": _huge,
}
_WEIGHTS = (4, 5, 5, 5, 3, 6, 5, 1)
_NAMES = (
    "{stem}",
    "sitecustomize_{stem}",
    "{stem}.pth",
    "__init___{stem}",
    "-{stem}",
    "{stem} {stem}",
    "ü{stem}",
)


def write_hostile(folder: Path, traces: Path, number: int) -> Path:
    """Write one hostile file, in some cases with a harmless tool at its end."""
    rng = random.Random(number)
    kind = rng.choices(list(_KINDS), _WEIGHTS)[0]
    stem = f"{kind}_{number}"
    data = _KINDS[kind](rng, str(traces / stem))
    if kind in ("import", "decorator", "signature", "class", "table"):
        data += GOOD.format(number=number).encode()
    path = folder / f"{rng.choice(_NAMES).format(stem=stem)}.py"
    path.write_bytes(data)
    return path


def write_special(folder: Path) -> None:
    """Create entries of a folder that are not regular files, or dangling links."""
    os.mkfifo(folder / "fifo_tool.py")
    (folder / "loop_a.py").symlink_to(folder / "loop_b.py")
    (folder / "loop_b.py").symlink_to(folder / "loop_a.py")
    (folder / "gone.py").symlink_to(folder / "nowhere.py")
    (folder / "endless.py").symlink_to("/dev/zero")
    (folder / "around").symlink_to(folder)
    (folder / "folder.py").mkdir()
    (folder / "code.pth").write_text("import os; os.system('touch traced')\n")
    (folder / "sitecustomize.py").write_text("raise SystemExit('it ran')\n")
    (folder / "conftest.py").write_text("raise SystemExit('it ran')\n")
