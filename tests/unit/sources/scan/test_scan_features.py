"""Resources and prompts are found without importing a file, as importing it finds them."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from toolcrib.sources import collect
from toolcrib.sources.loading import load_file
from toolcrib.sources.scan import Scan, scan

OURS = '''
    from pathlib import Path
    from typing import Literal

    from toolcrib import Context, MCPServer

    TERMS = "shop://terms"
    server = MCPServer("shop")

    @server.tool
    def plan(city: str) -> str:
        """Find a plan."""
        return city

    @server.resource("orders://{number}", mime_type="text/plain", name="one", annotations={"priority": 1})
    def order(number: int, ctx: Context) -> str:
        """One order."""
        return str(number)

    @server.prompt
    def plan(city: str, tone: Literal["kind", "firm"] = "kind") -> str:
        """Plan a trip.

        Args:
            city: Where to go
        """
        return city + tone

    @server.prompt("beg", title="Beg", tags=["a"])
    async def ask_nicely() -> list[str]:
        """Beg for something."""
        return []

    def thank(who: str) -> str:
        """Thank somebody."""
        return who

    server.prompt(thank)
    server.add_resource(TERMS, "Pay soon.", description="The terms.")
    server.add_resource("shop://prices", {"tea": 3})
'''


def scan_text(folder: Path, text: str) -> Scan:
    path = folder / "shop.py"
    path.write_text(dedent(text))
    return scan(path)


def named(found: Scan) -> list[str]:
    return [tool.reference for tool in found.features]


def codes(found: Scan) -> list[str]:
    return [finding.code for finding in found.findings]


def test_a_scan_finds_what_importing_finds(tmp_path: Path) -> None:
    found = scan_text(tmp_path, OURS)
    batch = collect(load_file(tmp_path / "shop.py"))
    imported = {tool.reference: tool for tool in (*batch.resources, *batch.prompts)}
    assert sorted(named(found)) == sorted(imported)
    for tool in found.features:
        assert tool.to_wire() == imported[tool.reference].to_wire()
        assert tool.source == imported[tool.reference].source
    assert [tool.name for tool in found.tools] == ["plan"]
    assert found.findings == []
    assert set(found.servers.values()) == {"shop"}


@pytest.mark.parametrize(
    "start",
    [
        'from mcp.server.fastmcp import FastMCP, Context\\nmcp = FastMCP("desk")',
        'from mcp.server.mcpserver import Context, MCPServer\\nmcp = MCPServer("desk")',
        'from fastmcp import Context, FastMCP\\nmcp = FastMCP("desk")',
    ],
)
def test_those_of_other_libraries_are_found(tmp_path: Path, start: str) -> None:
    found = scan_text(
        tmp_path,
        start.replace("\\n", "\n")
        + dedent('''
            @mcp.resource("desk://{name}/notes", title="Notes")
            def notes(name: str, ctx: Context) -> str:
                """The notes of somebody."""

            @mcp.prompt(name="sort", description="Sort a desk.")
            def sort_desk(order: str = "size") -> str: ...

            def register(server):
                @server.prompt()
                def later(x: int) -> str:
                    """Do it later."""

            register(mcp)
        '''),
    )
    wires: list[dict[str, Any]] = [tool.to_wire() for tool in found.features]
    assert wires[0] == {
        "uriTemplate": "desk://{name}/notes",
        "name": "notes",
        "title": "Notes",
        "description": "The notes of somebody",
        "mimeType": "text/plain",
    }
    assert wires[1] == {"name": "sort", "description": "Sort a desk.", "arguments": [{"name": "order"}]}
    assert wires[2]["name"] == "later"
    assert (found.tools, codes(found)) == ([], [])


def test_a_computed_uri_is_announced_and_hides_nothing_else(tmp_path: Path) -> None:
    found = scan_text(
        tmp_path,
        '''
        import os
        from pathlib import Path
        from toolcrib import MCPServer

        server = MCPServer("shop")

        @server.resource(os.environ["URI"])
        def order() -> str:
            """One order."""

        @server.resource("shop://{a}")
        def wrong(b: int) -> str:
            """Wrong."""

        server.add_resource("shop://docs", os.listdir("."))
        server.add_resource("shop://files", Path("files"))

        if os.environ.get("ALL"):
            @server.prompt
            def beg() -> str:
                """Beg."""
        ''',
    )
    assert named(found) == ["prompt:beg"]
    messages = {finding.code: finding for finding in found.findings}
    assert "Option 'uri' (os.environ['URI']) cannot be told" in [
        finding.message.partition(" without")[0] for finding in found.findings
    ]
    assert messages["invalid-tool"].line == 12
    assert messages["guessed-condition"].line == 19
    assert any("Option 'content'" in finding.message for finding in found.findings)


def test_skills_files_and_folders_are_one_finding_each(tmp_path: Path) -> None:
    found = scan_text(
        tmp_path,
        """
        from pathlib import Path
        from toolcrib import MCPServer

        server = MCPServer("shop")
        server.add_skills(Path(__file__).parent / "skills")
        server.add_resource("shop://docs", Path(__file__).parent / "docs")
        """,
    )
    assert not found.features
    assert [(finding.code, finding.line) for finding in found.findings] == [
        ("guessed-more", 6),
        ("unresolved-option", 7),
    ]


def test_a_prompt_and_a_tool_may_share_a_name_but_two_prompts_may_not(tmp_path: Path) -> None:
    found = scan_text(
        tmp_path,
        '''
        from toolcrib import MCPServer

        server = MCPServer("shop")

        @server.tool
        def plan() -> str:
            """Find a plan."""

        @server.prompt("plan")
        def first() -> str:
            """First."""

        @server.prompt("plan")
        def second() -> str:
            """Second."""
        ''',
    )
    assert named(found) == ["prompt:plan"]
    assert codes(found) == ["duplicate-name"]


def test_one_server_and_a_selection_are_scanned(tmp_path: Path) -> None:
    scan_text(tmp_path, OURS)
    (tmp_path / "toolcrib.toml").write_text(
        '[server]\ntargets = ["shop.py"]\n[tools]\nexclude = ["prompt:*", "resource:shop://*"]\n'
    )
    assert named(scan(tmp_path / "toolcrib.toml")) == ["resource:orders://{number}"]
    assert len(scan(f"{tmp_path / 'shop.py'}:server").features) == 6


def test_lambdas_and_bare_decorators_have_findings_in_plain_words(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        dedent(
            """
            from toolcrib import MCPServer

            server = MCPServer("shop")
            server.prompt(lambda: "Hello", name="greet")

            @server.prompt(name="part")
            def leave() -> str:
                return "Goodbye"

            @server.resource
            def order() -> str:
                return ""
            """
        )
    )
    found = scan(str(tmp_path / "shop.py"))
    texts = [f"{item.line} {item.code} {item.message}" for item in found.findings]
    assert texts == [
        "11 invalid-tool The URI of a resource must be a string, got function",
        "5 unresolved-tool `lambda: 'Hello'` is put on the server here, and cannot be told without running"
        " the code",
    ]
