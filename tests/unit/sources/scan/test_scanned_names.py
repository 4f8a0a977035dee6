"""Names are followed through imports and files, within the roots and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scanning.scanned_snippet import Reader, definition_of, expression, read
from toolcrib import Tool
from toolcrib.errors import SourceError
from toolcrib.sources.scan.files import Library


def lay(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def reader_of(folder: Path, name: str, *roots: Path) -> Reader:
    library = Library(roots or (folder,))
    return Reader(library.file((folder / name).resolve()), library)


def parameters(reader: Reader, name: str = "tool") -> tuple[list[object], list[str]]:
    """What the parameters of a function look like, and what was found."""
    stub = reader.stub(definition_of(reader, name))
    schema = Tool.from_function(stub.function).definition.input_schema
    return list(schema["properties"].values()), [item.code for item in stub.findings]


NAMES = {
    "from mcp.server.fastmcp import FastMCP": ("FastMCP", "mcp.server.fastmcp.FastMCP"),
    "from mcp.server.fastmcp import FastMCP as F": ("F", "mcp.server.fastmcp.FastMCP"),
    "import mcp.server.fastmcp": ("mcp.server.fastmcp.FastMCP", "mcp.server.fastmcp.FastMCP"),
    "import mcp.server.fastmcp as m": ("m.FastMCP", "mcp.server.fastmcp.FastMCP"),
    "from mcp.server import fastmcp as m": ("m.FastMCP", "mcp.server.fastmcp.FastMCP"),
    "from fastmcp import FastMCP\nF = FastMCP\nG = F": ("G", "fastmcp.FastMCP"),
    "mcp = make()": ("mcp.tool", ""),
    "class App:\n    def go(self): ...": ("App.go", ""),
    "def tool(): ...": ("tool", ""),
    "x = 1": ("str", "builtins.str"),
    "from pydantic.fields import Field": ("Field", "pydantic.Field"),
    "import toolcrib as tc": ("tc.tool", "toolcrib.tool"),
    "A = B\nB = A": ("A", ""),
    "y = 2": ("nowhere", ""),
    "z = 3": ("f().x", ""),
    "if True:\n    from acme import thing": ("thing", "acme.thing"),
    "try:\n    from acme import thing\nexcept ImportError:\n    thing = None": ("thing", "acme.thing"),
}


@pytest.mark.parametrize("source", NAMES)
def test_a_name_of_another_package_has_a_full_name(source: str, tmp_path: Path) -> None:
    text, expected = NAMES[source]
    assert read(tmp_path, source).qualify(expression(text)) == expected


MODELS = "from enum import Enum\nclass Color(Enum):\n    RED = 'red'\nLIMIT = 7\nIds = list[int]\n"
COLOR = {"type": "string", "enum": ["red"]}


class TestAcrossFiles:
    @pytest.mark.parametrize(
        "imports",
        [
            "from pkg.models import Color, LIMIT",
            "from .models import Color, LIMIT",
            "from . import models\nColor, LIMIT = models.Color, models.LIMIT",
            "from pkg import Color, LIMIT",
            "from . import Color, LIMIT",
            "from .star import *",
            "from .deep.inner import Color\nfrom .deep import LIMIT",
            "import pkg.models as m\nfrom pkg.models import LIMIT\nColor = m.Color",
            "import pkg.models\nColor = pkg.models.Color\nLIMIT = pkg.models.LIMIT",
            "from .cycle import Color, LIMIT",
        ],
    )
    def test_an_import_is_followed(self, imports: str, tmp_path: Path) -> None:
        files = {
            "pkg/__init__.py": "from .models import Color, LIMIT\n",
            "pkg/models.py": MODELS,
            "pkg/star.py": "from .models import *\n",
            "pkg/cycle.py": "from .models import Color, LIMIT\nfrom .server import tool\n",
            "pkg/deep/__init__.py": "from ..models import LIMIT\n",
            "pkg/deep/inner.py": "from ...pkg.models import Color\nfrom ..models import Color\n",
            "pkg/server.py": f"{imports}\ndef tool(c: Color, n: int = LIMIT): ...\n",
        }
        lay(tmp_path, files)
        shown, codes = parameters(reader_of(tmp_path, "pkg/server.py"))
        assert (shown, codes) == ([COLOR, {"type": "integer", "default": 7}], [])

    def test_a_source_folder_is_where_imports_begin(self, tmp_path: Path) -> None:
        lay(
            tmp_path,
            {
                "src/pkg/__init__.py": "",
                "src/pkg/models.py": MODELS,
                "t.py": "from pkg.models import Color\ndef tool(c: Color): ...",
            },
        )
        assert parameters(reader_of(tmp_path, "t.py")) == ([COLOR], [])

    def test_all_restricts_a_star(self, tmp_path: Path) -> None:
        lay(
            tmp_path,
            {
                "m.py": "__all__ = ['A']\nA = int\nB = int\n",
                "t.py": "from m import *\ndef tool(a: A, b: B): ...",
            },
        )
        assert parameters(reader_of(tmp_path, "t.py")) == ([{"type": "integer"}, {}], ["unresolved-hint"])


class TestTheRoots:
    def test_are_not_left(self, tmp_path: Path) -> None:
        lay(
            tmp_path,
            {
                "secret.py": MODELS,
                "in/pkg/__init__.py": "",
                "in/pkg/t.py": "from ...secret import Color\ndef tool(c: Color): ...",
                "in/u.py": "from link import Color\nfrom secret import L\ndef tool(c: Color, n=L): ...",
            },
        )
        (tmp_path / "in/link.py").symlink_to(tmp_path / "secret.py")
        for name in ("in/pkg/t.py", "in/u.py"):
            reader = reader_of(tmp_path, name, tmp_path / "in")
            assert "unresolved-hint" in parameters(reader)[1]
            assert tmp_path / "secret.py" not in reader.library.files

    def test_links_in_circles_are_survived(self, tmp_path: Path) -> None:
        lay(tmp_path, {"t.py": "from a.a.a import X\nfrom loop import Y\ndef tool(x: X, y: Y): ..."})
        (tmp_path / "a").symlink_to(tmp_path)
        (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
        assert len(parameters(reader_of(tmp_path, "t.py"))[1]) == 2

    def test_a_file_of_a_known_name_does_not_stand_for_the_known(self, tmp_path: Path) -> None:
        lay(
            tmp_path,
            {
                "typing.py": "List = 3",
                "pydantic.py": "",
                "t.py": "from typing import List\ndef tool(x: List[int]): ...",
            },
        )
        assert parameters(reader_of(tmp_path, "t.py")) == (
            [{"type": "array", "items": {"type": "integer"}}],
            [],
        )

    def test_a_broken_neighbour_hides_nothing_else(self, tmp_path: Path) -> None:
        lay(tmp_path, {"bad.py": "def", "t.py": "from bad import X\ndef tool(x: X, y: int): ..."})
        reader = reader_of(tmp_path, "t.py")
        assert parameters(reader) == ([{}, {"type": "integer"}], ["unresolved-hint"])
        assert isinstance(reader.library.files[(tmp_path / "bad.py").resolve()], SourceError)

    def test_a_file_is_read_once_and_refused_each_time(self, tmp_path: Path) -> None:
        lay(tmp_path, {"a.py": "x = 1", "bad.py": "def"})
        library = Library([tmp_path])
        assert library.file(tmp_path / "a.py") is library.file(tmp_path / "a.py")
        for _ in range(2):
            with pytest.raises(SourceError):
                library.file(tmp_path / "bad.py")
        assert len(library.files) == 2


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a.py", "a"),
        ("pkg/__init__.py", "pkg"),
        ("pkg/b.py", "pkg.b"),
        ("pkg/sub/__init__.py", "pkg.sub"),
        ("pkg/sub/c.py", "pkg.sub.c"),
        ("loose/d.py", "d"),
    ],
)
def test_a_file_has_the_name_that_importing_gives_it(path: str, name: str, tmp_path: Path) -> None:
    lay(tmp_path, {"pkg/__init__.py": "", "pkg/sub/__init__.py": "", path: ""})
    file = Library([tmp_path]).file(tmp_path / path)
    assert file.name == name
