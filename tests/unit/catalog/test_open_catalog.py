"""`open_catalog`: one catalog, whichever way its targets are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib.catalog.catalog import Catalog, TargetLoader, open_catalog
from toolcrib.catalog.lock import Lock
from toolcrib.errors import ConfigurationError, SourceError

SHOP = '''
from toolcrib import MCPServer, tool

server = MCPServer("shop")


@server.tool
def find_order(number: int) -> str:
    """Find an order by its number."""
    return f"order {number}"


@server.tool(group="admin", enabled=False)
def delete_order(number: int) -> str:
    """Delete an order by its number."""
    return f"deleted {number}"


@server.prompt
def complain(number: int) -> str:
    """Write a complaint about an order."""
    return f"Complain about order {number}."
'''


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop_to_open.py").write_text(SHOP)
    return "shop_to_open.py"


def names(catalog: Catalog) -> list[list[str]]:
    return [[component.reference for component in some] for some in (catalog.components, catalog.hidden)]


def test_importing_reading_and_pinning_give_the_same_components(shop: str) -> None:
    imported, read = open_catalog([shop]), open_catalog([shop], "static")
    Lock.of(imported.everything, Path("toolcrib.lock")).save()
    pinned = open_catalog(["toolcrib.lock"], "lock")
    remote = open_catalog(["http://shop.example/mcp"], "remote", listed=pinned.components)
    assert names(imported) == names(read) == [["find_order", "prompt:complain"], ["delete_order"]]
    assert sorted(names(pinned)[0]) == ["delete_order", "find_order", "prompt:complain"]
    assert names(remote) == names(pinned)
    assert [each.label for each in (imported, read, remote)] == [shop, shop, "http://shop.example/mcp"]
    assert imported.findings == read.findings == pinned.findings == remote.findings == []


def test_json_has_a_list_for_each_kind(shop: str) -> None:
    document = open_catalog([shop]).to_json()
    assert document.keys() == {"tools", "prompts", "findings"}
    assert document["tools"][0]["source"]["line"] == 7


def test_settings_apply_to_what_is_imported(shop: str) -> None:
    Path("toolcrib.toml").write_text(
        f"[server]\ntargets = [{shop!r}]\n[tools]\nexclude = ['complain']\nenable_admin_tools = true\n"
    )
    assert names(open_catalog()) == [["find_order", "delete_order"], []]


def test_a_problem_is_a_finding_and_hides_no_other_target(shop: str) -> None:
    Path("broken.py").write_text("def (")
    catalog = open_catalog(["broken.py", shop])
    assert names(catalog)[0] == ["find_order", "prompt:complain"]
    assert [(finding.level, finding.file) for finding in catalog.errors] == [
        ("error", str(Path("broken.py").resolve()))
    ]


@pytest.mark.parametrize(
    ("target", "error"), [("nowhere.py", SourceError), ("nowhere.toml", ConfigurationError)]
)
def test_a_target_that_does_not_exist_is_an_error(
    target: str, error: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(error, match="nowhere"):
        open_catalog([str(tmp_path / target)])


def test_the_errors_of_targets_can_be_watched(shop: str) -> None:
    Path("raising.py").write_text("1 / 0")
    seen: list[BaseException] = []
    loader = TargetLoader(on_error=seen.append)
    catalog = open_catalog(["raising.py", shop], loader=loader)
    assert [type(error) for error in seen] == [ZeroDivisionError]
    assert len(catalog.errors) == 1
