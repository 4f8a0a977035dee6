"""`toolcrib export`: data on stdout, messages on stderr, exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from .conftest import ADD, SHOP, CommandLine

LOSSY = """
@tool("mark", "Mark things, each once.", {
    "type": "object",
    "properties": {"names": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}},
})
def mark(arguments: dict) -> str:
    return ""
"""
HOPELESS = """
@tool("never", "Refers to an anchor.", {
    "type": "object",
    "properties": {"a": {"$ref": "#here"}},
    "$defs": {"x": {"$anchor": "here"}},
})
def never(arguments: dict) -> str:
    return ""
"""


def test_tools_go_to_stdout_and_the_summary_to_stderr(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    done = cli.run("export", "--to", "anthropic", "tools.py")
    (tool,) = json.loads(done.stdout)
    assert tool["name"] == "add"
    assert tool["input_schema"]["required"] == ["a"]
    assert done.exit_code == 0
    assert done.stderr.startswith("note: 1 tool for anthropic; about ")


def test_the_first_losses_of_a_tool_are_listed(cli: CommandLine) -> None:
    names = '"names": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}'
    several = ", ".join(names.replace("names", f"names{number}") for number in range(6))
    cli.write("tools.py", ADD + LOSSY.replace(names, several))
    lines = cli.run("export", "--to", "gemini", "tools.py").stderr.splitlines()
    assert [line.split(":")[0] for line in lines[:5]] == [
        "changed  mark  /properties/names0",
        "changed  mark  /properties/names1",
        "changed  mark  /properties/names2",
        "changed  mark  and 3 more",
        "note",
    ]


def test_a_skipped_tool_exits_with_1_and_hides_no_other(cli: CommandLine) -> None:
    cli.write("tools.py", ADD + HOPELESS)
    done = cli.run("export", "--to", "openai", "tools.py")
    assert [tool["function"]["name"] for tool in json.loads(done.stdout)] == ["add"]
    assert "skipped  never  /properties/a refers to the anchor" in done.stderr
    assert done.exit_code == 1


def test_a_tool_that_cannot_be_built_is_reported(cli: CommandLine) -> None:
    cli.write("tools.py", ADD + '\n@tool\ndef bad(x: "Nowhere"): "Never works at all."\n')
    done = cli.run("export", "--to", "mcp", "tools.py")
    assert [tool["name"] for tool in json.loads(done.stdout)] == ["add"]
    assert "error: tools.py:17: Parameter 'x' of tool 'bad'" in done.stderr
    assert done.exit_code == 1


def test_json_output_has_everything_and_stderr_nothing(cli: CommandLine) -> None:
    cli.write("tools.py", ADD + LOSSY)
    done = cli.run("export", "--to", "gemini", "--json", "tools.py")
    document = json.loads(done.stdout)
    assert document.keys() == {"to", "tools", "names", "notes", "skipped", "tokens", "findings"}
    assert document["notes"] == {"mark": ["/properties/names: uniqueItems: only in the description"]}
    assert document["names"] == {"add": "add", "mark": "mark"}
    assert document["tokens"]["total"] == sum(document["tokens"]["tools"].values())
    assert done.stderr == ""


def test_data_goes_to_a_file(cli: CommandLine) -> None:
    cli.write("tools.py", ADD + LOSSY)
    done = cli.run("export", "--to", "bedrock", "tools.py", "--output", "tools.json")
    assert done.stdout == ""
    assert "written to tools.json" in done.stderr
    tools = json.loads((cli.folder / "tools.json").read_text())
    assert [tool["toolSpec"]["name"] for tool in tools] == ["add", "mark"]


def test_an_unwritable_file_is_an_error(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    done = cli.run("export", "--to", "mcp", "tools.py", "-o", "nowhere/tools.json")
    assert done.exit_code == 2
    assert done.stderr == "error: nowhere/tools.json: No such file or directory\n"


def test_static_export_is_the_same_and_runs_nothing(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    ran = cli.json("export", "--to", "openai", "tools.py")
    cli.write("tools.py", f"from pathlib import Path\nPath('trace').write_text('ran')\n{ADD}")
    assert cli.json("export", "--to", "openai", "--static", "tools.py") == ran
    assert not (cli.folder / "trace").exists()


def test_tools_of_a_running_server_are_exported_and_renamed(cli: CommandLine) -> None:
    source = Path(__file__).resolve().parents[3] / "src"
    path = cli.write(
        "server.py",
        f"""
        import sys
        sys.path.insert(0, {str(source)!r})
        from toolcrib import MCPServer
        server = MCPServer("far", name_rule="mcp")

        @server.tool(name="go.far")
        def far(a: int) -> int:
            "Go far."
            return a

        server.run()
        """,
    )
    done = cli.run("export", "--to", "anthropic", "--command", f"{sys.executable} {path}")
    assert [tool["name"] for tool in json.loads(done.stdout)] == ["go_far"]
    assert "renamed  go.far  to go_far" in done.stderr


@pytest.mark.parametrize(
    ("options", "words", "hint"),
    [
        ([], "error: Missing option '--to'", "hint: available: openai, "),
        (["--to", "opnai"], "error: there is no format 'opnai'", "hint: did you mean 'openai'?"),
    ],
)
def test_wrong_usage_is_reported_before_loading(
    cli: CommandLine, options: list[str], words: str, hint: str
) -> None:
    cli.write("tools.py", "raise SystemExit(9)")
    done = cli.run("export", *options, "tools.py")
    assert done.exit_code == 2
    assert done.stderr.startswith(words)
    assert hint in done.stderr
    assert done.stdout == ""


def test_the_samples_are_exported_if_asked_for(cli: CommandLine) -> None:
    done = cli.run("export", "--to", "openai", "--samples")
    assert done.exit_code == 0


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["tools.py", "--output", "tools.py"], "tools.py is a source of the tools"),
        ([".", "--output", "tools.py"], "tools.py is a source of the tools"),
        (["--output", "toolcrib.toml"], "toolcrib.toml is a source of the tools"),
    ],
)
def test_sources_of_tools_are_not_overwritten(cli: CommandLine, words: list[str], error: str) -> None:
    cli.write("tools.py", ADD)
    cli.write("toolcrib.toml", '[server]\ntargets = ["tools.py"]\n')
    before = {path.name: path.read_bytes() for path in cli.folder.iterdir() if path.is_file()}
    done = cli.run("export", "--to", "mcp", *words)
    assert (done.exit_code, error in done.stderr) == (2, True), done.stderr
    assert {path.name: path.read_bytes() for path in cli.folder.iterdir() if path.is_file()} == before


def test_mcp_exports_resources_and_prompts_beside_tools(cli: CommandLine) -> None:
    cli.write("shop.py", SHOP)
    done = cli.run("export", "--to", "mcp", "shop.py")
    document = json.loads(done.stdout)
    assert {key: len(entries) for key, entries in document.items()} == {
        "tools": 1,
        "resources": 2,
        "resourceTemplates": 1,
        "prompts": 2,
    }
    assert document["prompts"][1]["arguments"] == [{"name": "who", "description": "A name", "required": True}]
    assert done.stderr.startswith("note: 1 tool for mcp; about")
    assert done.stderr.endswith("tokens; also 2 resources, 1 template and 2 prompts\n")
    assert isinstance(json.loads(cli.run("export", "--to", "mcp", "shop.py:find_order").stdout), list)


def test_other_formats_say_once_that_they_export_tools_only(cli: CommandLine) -> None:
    cli.write("shop.py", SHOP)
    cli.write("tools.py", ADD)
    done = cli.run("export", "--to", "openai", "shop.py")
    warning = (
        "warning: openai exports tools only: 2 resources, 1 template and 2 prompts left out\n"
        "hint: --to mcp exports all\n"
    )
    assert (done.exit_code, done.stderr.count("left out"), len(json.loads(done.stdout))) == (0, 1, 1)
    assert warning in done.stderr
    assert "warning" not in cli.run("export", "--to", "openai", "tools.py").stderr
