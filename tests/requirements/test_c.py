"""Document C: the catalog of an adapter that is read and never run, and its cache."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from toolcrib import build_catalog, get_catalog_cached
from toolcrib.cli import app

KEYS = ["version", "hash", "count", "promptList", "functionSchema"]
ADAPTER = '''\
"""The bridge between agents and the editor."""
from pathlib import Path
from typing import Annotated, Literal, Optional

from mcp.server.fastmcp import FastMCP
from pydantic import Field

Path("trace").write_text("this file was run")
mcp = FastMCP("bridge")


@mcp.tool()
def unity_command(command: str, args: dict = {}, dry_run: bool = False):
    """Run a command in the editor.

    What it prints is returned.

    Ejemplo: unity_command("spawn", {"name": "cube"})
    Example: unity_command("list")
    """
    raise SystemExit("nobody calls this")


@mcp.tool()
async def move(x: float, y: float, steps: int = 1, path: list = [], *, note=None, who: "Unknown" = None):
    """Move the selection."""


@mcp.tool()
def choose(mode: Literal["fast", "slow"], level: Annotated[int, Field(ge=1, le=9)], tag: Optional[str] = ""):
    """Choose a mode."""


def helper(x: int):
    """This is no tool."""
'''


@pytest.fixture
def adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "bridges" / "mcp_adapter.py"
    path.parent.mkdir()
    path.write_text(ADAPTER)
    return path


def functions(catalog: dict[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry for entry in catalog["functionSchema"]}


def properties(catalog: dict[str, Any], name: str) -> Any:
    return functions(catalog)[name]["parameters"]["properties"]


@pytest.mark.requirement("C-01", "C-12")
@pytest.mark.usefixtures("adapter")
def test_the_catalog_is_all_that_a_provider_needs_under_five_keys() -> None:
    catalog = build_catalog()
    assert list(catalog) == KEYS
    assert json.loads(json.dumps(catalog)) == catalog


@pytest.mark.requirement("C-02", "X-39")
def test_the_source_of_truth_is_the_adapter_of_the_project(adapter: Path) -> None:
    assert build_catalog() == build_catalog(adapter) == build_catalog("bridges/mcp_adapter.py")


@pytest.mark.requirement("C-03", "C-07")
@pytest.mark.usefixtures("adapter")
def test_decorated_functions_are_the_tools_under_their_own_names() -> None:
    assert list(functions(build_catalog())) == ["unity_command", "move", "choose"]


@pytest.mark.requirement("C-04", "X-20")
@pytest.mark.usefixtures("adapter")
def test_the_description_is_the_first_line_of_the_docstring() -> None:
    entry = functions(build_catalog())["unity_command"]
    assert entry["description"] == "Run a command in the editor."


@pytest.mark.requirement("C-06")
def test_the_adapter_is_read_and_never_run(adapter: Path) -> None:
    before = set(sys.modules)
    assert build_catalog()["count"] == 3
    assert get_catalog_cached()["count"] == 3
    assert not Path("trace").exists()
    new = set(sys.modules) - before
    assert not any(name.startswith(("bridges", "mcp")) for name in new)


@pytest.mark.requirement("C-08", "X-18")
@pytest.mark.usefixtures("adapter")
def test_simple_annotations_become_their_json_types() -> None:
    catalog = build_catalog()
    assert properties(catalog, "unity_command")["command"] == {"type": "string"}
    assert properties(catalog, "unity_command")["args"] == {"type": "object", "default": {}}
    assert properties(catalog, "unity_command")["dry_run"] == {"type": "boolean", "default": False}
    assert properties(catalog, "move")["x"] == {"type": "number"}
    assert properties(catalog, "move")["steps"] == {"type": "integer", "default": 1}
    assert properties(catalog, "move")["path"] == {"type": "array", "default": []}


@pytest.mark.requirement("C-10", "X-21")
@pytest.mark.usefixtures("adapter")
def test_required_are_those_without_a_default_and_it_is_always_shown() -> None:
    catalog = build_catalog()
    required = {name: entry["parameters"]["required"] for name, entry in functions(catalog).items()}
    assert required == {"unity_command": ["command"], "move": ["x", "y"], "choose": ["mode", "level"]}
    Path("none.py").write_text("from toolcrib import tool\n@tool\ndef now():\n    '''Tell the time.'''\n")
    assert functions(build_catalog("none.py"))["now"]["parameters"] == {
        "type": "object",
        "properties": {},
        "required": [],
    }


@pytest.mark.requirement("C-13")
def test_hash_version_and_count_are_of_the_file(adapter: Path) -> None:
    catalog = build_catalog()
    expected = hashlib.sha1(adapter.read_bytes()).hexdigest()
    assert (catalog["hash"], catalog["version"], catalog["count"]) == (expected, expected[:12], 3)


@pytest.mark.requirement("C-15")
@pytest.mark.usefixtures("adapter")
def test_function_schemas_have_three_keys_and_take_an_object() -> None:
    for entry in build_catalog()["functionSchema"]:
        assert list(entry) == ["name", "description", "parameters"]
        assert entry["parameters"]["type"] == "object"


@pytest.mark.requirement("C-16", "X-39")
@pytest.mark.usefixtures("adapter")
def test_the_cache_is_a_file_below_the_project() -> None:
    get_catalog_cached()
    assert [str(path) for path in Path(".cache").iterdir()] == [".cache/tool_catalog.json"]
    get_catalog_cached(cache="elsewhere/catalog.json")
    assert Path("elsewhere/catalog.json").is_file()


@pytest.mark.requirement("C-20")
@pytest.mark.usefixtures("adapter")
def test_literal_annotated_and_optional_are_known_too() -> None:
    shown = properties(build_catalog(), "choose")
    assert shown == {
        "mode": {"type": "string", "enum": ["fast", "slow"]},
        "level": {"type": "integer", "minimum": 1, "maximum": 9},
        "tag": {"type": "string", "default": ""},
    }


@pytest.mark.requirement("C-21", "G-16")
def test_the_lock_file_is_the_static_descriptor(adapter: Path) -> None:
    catalog = build_catalog()
    assert CliRunner().invoke(app, ["lock", "--static", str(adapter)]).exit_code == 0
    adapter.unlink()
    for again in (build_catalog(), get_catalog_cached(), build_catalog("toolcrib.lock")):
        assert functions(again).keys() == functions(catalog).keys()
        for name, entry in functions(catalog).items():
            assert functions(again)[name]["parameters"] == entry["parameters"]
    done = CliRunner().invoke(app, ["list", "toolcrib.lock", "--json"])
    assert [tool["name"] for tool in json.loads(done.stdout)["tools"]] == sorted(functions(catalog))
