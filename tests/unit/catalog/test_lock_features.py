"""Lock files pin resources and prompts, too."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from toolcrib import MCPServer
from toolcrib.catalog.compare import compare
from toolcrib.catalog.lock import Lock
from toolcrib.component import Tool
from toolcrib.errors import BatchError, ConfigurationError, DriftError
from toolcrib.validation import codec


def make_server(**changes: Any) -> MCPServer:
    server = MCPServer("shop", dynamic=True)

    @server.tool
    def plan() -> str:
        """Plan something."""
        return ""

    @server.resource("orders://{number}", mime_type=changes.get("mime_type", "text/plain"))
    def order(number: int) -> str:
        """One order."""
        return str(number)

    @server.prompt("plan", scopes=changes.get("scopes", ()), description=changes.get("description"))
    def make_plan(city: str, days: int = 1) -> str:
        """Plan a trip.

        Args:
            city: Where to go
            days: How long
        """
        return city * days

    server.add_resource("shop://terms", "Pay soon.", size=changes.get("size"))
    return server


def everything(server: MCPServer) -> list[Tool]:
    return [*server.registry, *server.resources, *server.prompts]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "toolcrib.lock"
    Lock.of(everything(make_server()), path).save()
    return path


def test_anything_that_clients_list_is_pinned_by_kind_and_name(file: Path) -> None:
    document = json.loads(file.read_text())
    assert [entry["name"] for entry in document["resources"]] == ["orders://{number}", "shop://terms"]
    server = make_server()
    (entry,) = document["prompts"]
    assert entry["definition"] == server.prompts.get("plan").to_wire()
    lock = Lock.load(file)
    assert set(lock.pins) == {
        (name, None)
        for name in ("plan", "prompt:plan", "resource:orders://{number}", "resource:shop://terms")
    }
    assert lock.to_text() == file.read_text()


def test_a_pin_gives_back_what_was_pinned(file: Path) -> None:
    assert compare(Lock.load(file).tools, everything(make_server())).changes == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"mime_type": "text/html"},
            "'resource:orders://{number}' is not what was locked: its type was `text/plain`",
        ),
        (
            {"description": "Plan a whole trip."},
            "'prompt:plan' is not what was locked: the description was reworded",
        ),
        ({"scopes": ["admin"]}, "'prompt:plan' is not what was locked: it differs"),
    ],
)
def test_drift_is_graded_and_named(file: Path, changes: dict[str, Any], words: str) -> None:
    drift = Lock.load(file).check(everything(make_server(**changes)))
    (finding,) = drift.findings()
    assert words in finding.message
    assert finding.tool in words
    assert f"toolcrib lock --update {shlex.quote(finding.tool or '')}`" in (finding.hint or "")


def test_the_size_of_a_resource_is_content(file: Path) -> None:
    assert Lock.load(file).check(everything(make_server(size=9))).ok


def test_a_missing_prompt_is_a_warning(file: Path) -> None:
    drift = Lock.load(file).check(tool for tool in everything(make_server()) if tool.kind != "prompt")
    (finding,) = drift.findings()
    assert (drift.ok, finding.code, finding.tool) == (True, "locked-but-missing", "prompt:plan")


def test_registries_of_resources_and_prompts_are_guarded(file: Path) -> None:
    server, lock = make_server(), Lock.load(file)
    for kind, registry in (
        ("tool", server.registry),
        ("resource", server.resources),
        ("prompt", server.prompts),
    ):
        assert lock.guard(registry, kind=kind).missing == []
    with pytest.raises(DriftError, match="'prompt:beg' is not in the lock"):
        server.prompt("beg")(lambda: "")
    with pytest.raises(DriftError, match="'resource:shop://more' is not in the lock"):
        server.add_resource("shop://more", "")
    server.prompts.remove("plan")
    server.add(make_server().prompts.get("plan"))
    assert "plan" in server.prompts


def test_a_changed_prompt_is_refused_or_taken_out(file: Path) -> None:
    server = make_server(description="Plan a whole trip.")
    with pytest.raises(BatchError, match="1 not as locked"):
        Lock.load(file).guard(server.prompts, kind="prompt")
    Lock.load(file).guard(server.prompts, "quarantine", kind="prompt")
    assert (len(server.prompts), len(server.registry)) == (0, 1)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"mimeType": "text/plain"', '"mimeType": "text/html"', r"at resource 1 .*edited by hand"),
        ('"name": "orders://{number}"', '"name": "a://b"', "its definition belongs to another resource"),
        ('"prompts": [', '"prompts": [1, ', r"at prompt 1 \(None\): it is not an object"),
        ('"resources": [', '"resources": 1, "x": [', "lists of 'tools', 'resources' and 'prompts'"),
    ],
)
def test_a_damaged_or_edited_lock_is_refused(file: Path, old: str, new: str, words: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigurationError, match=words):
        Lock.load(file)


def test_entries_of_wrong_types_do_no_harm(tmp_path: Path) -> None:
    """A fingerprint only says that an entry was not edited, not that it makes sense."""
    wires = [
        {"name": "p", "arguments": [1, {"name": 2, "required": 1}], "icons": 3},
        {"name": "q", "title": []},
    ]
    pins = [
        {"name": wire["name"], "fingerprint": f"sha256:{codec.digest(wire)}", "definition": wire}
        for wire in wires
    ]
    path = tmp_path / "toolcrib.lock"
    path.write_text(json.dumps({"format": 1, "tools": [], "resources": [], "prompts": pins}))
    assert [tool.name for tool in Lock.load(path).tools] == ["p", "q"]
    assert compare([], Lock.load(path).tools).worst == "compatible"
