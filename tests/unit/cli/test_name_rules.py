"""Names with dots: which ones a server accepts, and how they are exported."""

from __future__ import annotations

import pytest

from toolcrib import MCPServer, Tool
from toolcrib.catalog.export import export

from .conftest import CommandLine

DOTTED = """
from toolcrib import MCPServer

server = MCPServer("math")

@server.tool(name="math.add")
def add(a: int, b: int) -> int:
    \"\"\"Add two whole numbers, exactly.

    Args:
        a: The first number
        b: The second number
    \"\"\"
    return a + b
"""


def test_names_with_dots_are_accepted_and_called(cli: CommandLine) -> None:
    cli.write("sums.py", DOTTED)
    assert cli.run("check", "sums.py").exit_code == 0
    assert cli.run("call", "math.add", "a=1", "b=2", "-t", "sums.py").stdout == "3\n"


@pytest.mark.parametrize(
    "words", [("check", "sums.py", "--name-rule", "portable"), ("check", "toolcrib.toml")]
)
def test_a_name_rule_of_the_command_or_the_file_refuses_them(
    cli: CommandLine, words: tuple[str, ...]
) -> None:
    cli.write("sums.py", DOTTED)
    cli.write("toolcrib.toml", '[server]\ntargets = ["sums.py"]\nname_rule = "portable"\n')
    done = cli.run(*words)
    assert done.exit_code == 1
    text = "Tool name 'math.add' invalid (must contain only letters, digits, underscores, hyphens)"
    assert text in done.stdout + done.stderr


def test_the_command_comes_before_the_file(cli: CommandLine) -> None:
    cli.write("sums.py", DOTTED)
    cli.write("toolcrib.toml", '[server]\ntargets = ["sums.py"]\nname_rule = "portable"\n')
    assert cli.run("check", "--name-rule", "mcp", "toolcrib.toml").exit_code == 0


def test_an_unknown_name_rule_is_an_error(cli: CommandLine) -> None:
    cli.write("toolcrib.toml", '[server]\nname_rule = "loose"\n')
    done = cli.run("check", "toolcrib.toml")
    assert done.exit_code != 0
    assert "server.name_rule" in done.stdout + done.stderr


def test_check_advises_a_name_that_every_provider_accepts(cli: CommandLine) -> None:
    cli.write("sums.py", DOTTED)
    found = cli.json("check", "sums.py", "--json")["findings"]
    assert ("name-style", "advice") in [(item["code"], item["level"]) for item in found]


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "bedrock"])
async def test_a_call_with_an_exported_name_reaches_its_tool(provider: str) -> None:
    server = MCPServer("math")
    long = "math." + "very_long_" * 10
    for name in ("math.add", "math_add", "math-add", f"{long}one", f"{long}two"):

        def tell(name: str = name) -> str:
            return name

        server.add(Tool.from_function(tell, name=name, hide=["name"]))
    exported = export(server.registry, provider)
    assert len(exported.names) == 5
    assert exported.names["math_add"] == "math_add"
    for name, tool in exported.names.items():
        assert len(name) <= 64
        assert "." not in name
        assert (await server.call(exported.route(name), {})).text == tool
