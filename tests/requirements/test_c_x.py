"""Further details of document C: examples, kinds of parameters, several files, folders, registries."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.support.system.source_folders import write
from toolcrib import MCPServer, ToolRegistry, build_catalog, get_catalog_cached
from toolcrib.validation import codec


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.requirement("X-32")
def test_an_example_needs_its_colon_and_may_go_on_indented(folder: Path) -> None:
    write(
        folder,
        {
            "tools.py": '''
            from toolcrib import tool

            @tool
            def greet(name: str):
                """Greet somebody.

                Example: greet("Ana",
                    )
                Ejemplo:
                    greet("Luz")
                Example without a colon
                For example: not this

                Examples:
                    greet("Bo")
                    greet("Cy")
                """
            '''
        },
    )
    assert build_catalog("tools.py")["promptList"].splitlines() == [
        "- greet: Greet somebody.",
        '  e.g. greet("Ana",',
        "       )",
        '  e.g. greet("Luz")',
        '  e.g. greet("Bo")',
        '  e.g. greet("Cy")',
    ]


@pytest.mark.requirement("X-33")
def test_async_keyword_only_and_positional_only_are_all_there(folder: Path) -> None:
    write(
        folder,
        {
            "tools.py": '''
            from toolcrib import tool

            @tool
            async def act(first: int, /, second: str = "x", *, third: bool, fourth: float = 1.5):
                """Act."""
            '''
        },
    )
    (entry,) = build_catalog("tools.py")["functionSchema"]
    assert list(entry["parameters"]["properties"]) == ["first", "second", "third", "fourth"]
    assert entry["parameters"]["required"] == ["first", "third"]


@pytest.mark.requirement("X-39")
def test_several_files_a_folder_and_a_registry_have_hashes_of_their_own(folder: Path) -> None:
    tool = "from toolcrib import tool\n@tool\ndef {0}() -> int:\n    '''Do {0}.'''\n    return 1\n"
    write(folder, {"shop/a.py": tool.format("one"), "shop/b/c.py": tool.format("two")})
    hashes = {
        name: hashlib.sha1((folder / "shop" / name).read_bytes()).hexdigest() for name in ("a.py", "b/c.py")
    }
    expected = hashlib.sha1("".join(f"{name} {hashes[name]}\n" for name in hashes).encode()).hexdigest()
    for adapter in ("shop", Path("shop"), ["shop/b/c.py", "shop/a.py"]):
        catalog = build_catalog(adapter)
        assert (catalog["hash"], catalog["count"]) == (expected, 2)
        assert get_catalog_cached(adapter) == catalog
    write(folder, {"toolcrib.toml": '[server]\ntargets = ["shop"]\n'})
    assert build_catalog() == build_catalog("shop")
    registry = ToolRegistry()
    registry.add(first)
    server = MCPServer()
    server.add(first)
    wire = registry.get("first").definition.to_wire()
    digest = hashlib.sha1(codec.canonical([wire])).hexdigest()
    assert build_catalog(registry)["hash"] == build_catalog(server)["hash"] == digest


def first(x: int) -> int:
    """Be the first."""
    return x


@pytest.mark.requirement("X-18")
def test_a_bare_list_has_no_items_and_functions_say_nothing_of_further_arguments() -> None:
    def act(some: list, any_of: dict) -> None:  # type: ignore[type-arg]
        """Act."""

    registry = ToolRegistry()
    registry.add(act)
    (entry,) = build_catalog(registry)["functionSchema"]
    assert entry["parameters"] == {
        "type": "object",
        "properties": {"some": {"type": "array"}, "any_of": {"type": "object"}},
        "required": ["some", "any_of"],
    }
