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
    assert named(found) == ["resource:shop://docs", "resource:shop://files", "prompt:beg"]
    messages = {finding.code: finding for finding in found.findings}
    assert "Option 'uri' (os.environ['URI']) cannot be told" in [
        finding.message.partition(" without")[0] for finding in found.findings
    ]
    assert messages["invalid-tool"].line == 12
    assert messages["guessed-more"].tool == "shop://files"
    assert messages["guessed-condition"].message.startswith("Prompt 'beg' is a guess")
    assert any("Option 'content'" in finding.message for finding in found.findings)


FILES = """
    from pathlib import Path
    from toolcrib import MCPServer

    HERE = Path(__file__).resolve().parent
    server = MCPServer("shop")
    server.add_resource("shop://docs", HERE / "docs", description="The manual.")
    server.add_resource("shop://start", Path(__file__).parent / "docs" / "start.md")
    server.add_skills(HERE / "skills")
    server.add_skills(str(HERE / "skills"), "acme")
"""


def write_files(folder: Path) -> None:
    for name, text in {
        "docs/start.md": "# Start",
        "docs/more/table.csv": "a,b",
        "skills/tea/SKILL.md": "---\nname: tea\ndescription: Make tea.\n---\nBoil water.",
        "skills/tea/notes.md": "Green tea needs less heat.",
        "skills/wrong/SKILL.md": "---\nname: other\ndescription: In another folder.\n---\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_files_folders_and_skills_are_listed_as_the_server_lists_them(tmp_path: Path) -> None:
    write_files(tmp_path)
    found = scan_text(tmp_path, FILES)
    imported = {tool.reference: tool for tool in collect(load_file(tmp_path / "shop.py")).resources}
    assert sorted(named(found)) == sorted(imported)
    assert "resource:shop://docs/{+path}" in imported
    assert "resource:skill://acme/tea/notes.md" in imported
    for tool in found.features:
        assert tool.to_wire() == imported[tool.reference].to_wire()
        assert (tool.source, tool.digest) == (
            imported[tool.reference].source,
            imported[tool.reference].digest,
        )
    assert set(codes(found)) == {"invalid-skill"}
    assert found.features[0].source.line == 7


def test_a_folder_that_is_computed_missing_or_elsewhere_is_a_finding(tmp_path: Path) -> None:
    write_files(tmp_path)
    (tmp_path / "app").mkdir()

    def messages_with(parent: str) -> list[str]:
        found = scan_text(tmp_path / "app", FILES.replace("resolve().parent\n", f"{parent}\n"))
        assert named(found) == ["resource:shop://docs", "resource:shop://start"]
        assert {finding.line for finding in found.findings} == {7, 8, 9, 10}
        return [finding.message for finding in found.findings]

    computed = messages_with("resolve().parents[1]")
    assert "Option 'folder' (HERE / 'skills') cannot be told without running the code" in computed
    missing = messages_with("resolve().parent")
    assert f"Skills are not listed: '{tmp_path / 'app' / 'skills'}' does not exist here" in missing
    above = messages_with("resolve().parent.parent")
    assert f"Skills are not listed: '{tmp_path / 'skills'}' is not beside the scanned files" in above
    place = f"a folder is a resource for each file, and '{tmp_path / 'docs'}' is not beside the scanned files"
    assert f"Resource 'shop://docs' is a guess: {place}" in above


def test_skills_above_the_code_are_listed_if_the_scanned_folder_has_both(tmp_path: Path) -> None:
    write_files(tmp_path)
    (tmp_path / "src").mkdir()
    code = FILES.replace("resolve().parent\n", "resolve().parent.parent\n")
    assert "resource:skill://tea/SKILL.md" not in named(scan_text(tmp_path / "src", code))
    assert "resource:skill://tea/SKILL.md" in named(scan(tmp_path))


def test_what_a_function_adds_to_the_server_that_it_is_passed_is_listed(tmp_path: Path) -> None:
    write_files(tmp_path)
    found = scan_text(
        tmp_path,
        """
        from pathlib import Path
        from toolcrib import MCPServer

        server = MCPServer("shop")

        def register(server):
            server.add_resource("shop://tea", "tea")
            server.add_skills(Path(__file__).parent / "skills")

        register(server)
        """,
    )
    assert {"resource:shop://tea", "resource:skill://tea/SKILL.md"} <= set(named(found))


def test_a_link_out_of_the_scanned_folder_is_not_followed(tmp_path: Path) -> None:
    write_files(tmp_path)
    (tmp_path / "app").mkdir()
    for name in ("docs", "skills"):
        (tmp_path / "app" / name).symlink_to(tmp_path / name)
    found = scan_text(tmp_path / "app", FILES)
    assert named(found) == ["resource:shop://docs", "resource:shop://start"]
    assert sum("is not beside the scanned files" in item.message for item in found.findings) == 4


def test_only_so_many_folders_are_listed(tmp_path: Path) -> None:
    write_files(tmp_path)
    calls = "".join(f"    server.add_resource('shop://{n}', HERE / 'docs')\n" for n in range(30))
    found = scan_text(tmp_path, FILES + calls)
    assert sum(name.endswith("{+path}") for name in named(found)) == 18  # and two of skills
    assert any("only 20 folders are read" in finding.message for finding in found.findings)


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
