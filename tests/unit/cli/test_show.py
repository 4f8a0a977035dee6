"""`toolcrib show`: everything about one tool."""

from __future__ import annotations

import pytest

from .conftest import ADD, SHOP, CommandLine

RICH = '''
from typing import Annotated, Literal
from pydantic import Field
from toolcrib import tool

@tool(title="Weather report", tags=["outside"], version="2", timeout_s=5, read_only=True, destructive=None,
      aliases=["weather"])
async def forecast(
    city: str,
    units: Literal["metric", "imperial"] = "metric",
    days: Annotated[int, Field(ge=1, le=10)] = 3,
    tags: list[str] | None = None,
) -> dict[str, float]:
    """Say what the weather will be.

    Longer words about it, [in brackets].

    Args:
        city: Where
        units: Which units

    Returns:
        Degrees by day
    """
    return {}
'''


def test_all_details_of_a_tool_are_shown(cli: CommandLine) -> None:
    cli.write("tools.py", RICH)
    done = cli.run("show", "-t", "tools.py", "forecast")
    for words in (
        "forecast  Weather report",
        "Longer words about it, [in brackets].",
        '"metric" | "imperial"',
        'default "metric"',
        "integer, minimum 1, maximum 10",
        "string[]",
        "optional",
        "Degrees by day",
        "outside",
        "weather",
        "event loop",
        "5 s",
        "tools.py:6",
    ):
        assert words in done.stdout, words


NESTED = '''
from dataclasses import dataclass, field
from toolcrib import tool

@dataclass
class Size:
    """A size.

    Attributes:
        width: In mm
    """
    width: float

@dataclass
class Line:
    article: str
    quantity: int = 1
    size: Size | None = None
    parts: "list[Line]" = field(default_factory=list)

@tool
def order(lines: list[Line], spare: dict[str, Size], urgent: bool = False) -> str:
    """Order articles."""
    return ""
'''


def test_the_fields_of_nested_parameters_are_shown(cli: CommandLine) -> None:
    cli.write("nested.py", NESTED)
    done = cli.run("show", "-t", "nested.py", "order")
    start = done.stdout.index("PARAMETER")
    rows = [line.split("  ") for line in done.stdout[start:].split("\n\n")[0].splitlines()[1:]]
    assert [[cell.strip() for cell in row if cell] for row in rows] == [
        ["lines", "Line[]", "required", "-"],
        ["lines[].article", "string", "required", "-"],
        ["lines[].quantity", "integer", "default 1", "-"],
        ["lines[].size", "Size | null", "optional", "-"],
        ["lines[].size.width", "number", "required", "In mm"],
        ["lines[].parts", "Line[]", "default []", "-"],
        ["spare", "object", "required", "-"],
        ["spare.*.width", "number", "required", "In mm"],
        ["urgent", "boolean", "default false", "-"],
    ]


def test_the_json_is_one_tool_with_tags_version_and_fingerprint(cli: CommandLine) -> None:
    path = cli.write("tools.py", RICH)
    shown = cli.json("show", "tools.py:forecast", "--json")
    assert shown["name"] == "forecast"
    assert shown["title"] == "Weather report"
    assert shown["source"] == {"file": str(path), "line": 6}
    assert (shown["tags"], shown["version"], shown["timeout_s"]) == (["outside"], "2", 5)
    assert len(shown["fingerprint"]) == 64


def test_an_alias_and_a_version_find_their_tool(cli: CommandLine) -> None:
    cli.write("tools.py", RICH)
    assert cli.json("show", "-t", "tools.py", "weather", "--json")["name"] == "forecast"
    assert cli.json("show", "-t", "tools.py", "forecast@2", "--json")["version"] == "2"


def test_a_disabled_tool_is_not_reported_as_unknown(cli: CommandLine) -> None:
    done = cli.run("show", "read_file", "--samples")
    assert done.exit_code == 2
    assert "error: Tool 'read_file' is disabled" in done.stderr
    assert "TOOLCRIB_ENABLE_FILE_TOOLS=1" in done.stderr


def test_a_tool_that_cannot_be_built_shows_why(cli: CommandLine) -> None:
    cli.write("tools.py", 'from toolcrib import tool\n@tool\ndef bad(x: "Nowhere"): "Never works at all."\n')
    done = cli.run("show", "tools.py:bad")
    assert done.exit_code == 1
    assert "error: tools.py:2: Parameter 'x'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "tools.py"], "tools.py is a file, not a tool"),
        (["show", "tools.py:ad"], "There is no 'ad' in tools.py"),
        (["show", "missing.py:add"], "No such file or folder: missing.py"),
        (["show", "no_such_module:add"], "There is no module 'no_such_module'"),
        (["show", "-t", "missing.py", "add"], "missing.py"),
        (["show", "-t", "tools.py", "tools.py:add"], "--target cannot be combined with"),
        (["show"], "Missing argument 'NAME'"),
    ],
)
def test_wrong_usage_exits_with_2(cli: CommandLine, arguments: list[str], words: str) -> None:
    cli.write("tools.py", ADD)
    done = cli.run(*arguments)
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_an_object_with_several_tools_is_ambiguous(cli: CommandLine) -> None:
    cli.write(
        "apps.py",
        """
        from toolcrib import Application
        class Shop(Application):
            name = "shop"
            def list_tools(self): return [self.buy, self.sell]
            def buy(self, what: str) -> str: "Buy something for me."
            def sell(self, what: str) -> str: "Sell something for me."
        """,
    )
    done = cli.run("show", "apps.py:Shop")
    assert done.exit_code == 2
    assert "apps.py:Shop contains 2 tools" in done.stderr
    assert cli.run("show", "-t", "apps.py:Shop", "sell").exit_code == 0


# --- resources and prompts ---------------------------------------------------------------------------


def facts_of(cli: CommandLine, name: str) -> tuple[str, dict[str, str]]:
    """Return the first line, and the facts at the end."""
    lines = cli.run("show", "-t", "shop.py", name).stdout.splitlines()
    facts = lines[lines.index("", 3) + 1 :] if "" in lines[3:] else lines[3:]
    return lines[0], {line.split("  ")[0]: line.split("  ", 1)[1].strip() for line in facts}


def test_a_resource_is_shown_by_its_uri_a_template_or_a_uri_that_it_matches(cli: CommandLine) -> None:
    cli.write("shop.py", SHOP)
    name, facts = facts_of(cli, "shop://logo")
    assert (name, facts["Kind"], facts["Type"]) == ("shop://logo", "resource", "image/png")
    assert facts["Cached"] == "by clients, for 3600 s"
    for uri in ("orders://{number}/invoice", "orders://17/invoice", "resource:orders://17/invoice"):
        name, facts = facts_of(cli, uri)
        assert (name, facts["Kind"], facts["Name"]) == ("orders://{number}/invoice", "template", "invoice")
    assert cli.json("show", "-t", "shop.py", "orders://17/invoice", "--json")["mimeType"] == "text/markdown"


def test_a_prompt_is_shown_with_its_arguments(cli: CommandLine) -> None:
    cli.write("shop.py", SHOP)
    name, facts = facts_of(cli, "complain")
    assert (name, facts["Kind"]) == ("complain", "prompt")
    lines = cli.run("show", "-t", "shop.py", "complain").stdout.splitlines()
    assert 'tone      "polite" | "firm"  default "polite"  How it should sound' in lines


def test_a_name_of_two_kinds_needs_its_kind(cli: CommandLine) -> None:
    cli.write("shop.py", SHOP.replace("def thank", "def find_order"))
    done = cli.run("show", "-t", "shop.py", "find_order")
    assert (done.exit_code, done.stderr) == (
        2,
        "error: 'find_order' is a tool and a prompt\nhint: write tool:find_order or prompt:find_order\n",
    )
    assert "Number of the order" in cli.run("show", "-t", "shop.py", "tool:find_order").stdout
    assert "A name" in cli.run("show", "-t", "shop.py", "prompt:find_order").stdout


def test_an_unknown_name_is_looked_for_among_all_kinds(cli: CommandLine) -> None:
    cli.write("shop.py", SHOP)
    done = cli.run("show", "-t", "shop.py", "complian")
    text = "error: Unknown tool, resource or prompt: complian\nhint: did you mean 'complain'?\n"
    assert (done.exit_code, done.stderr) == (2, text)
    assert "Unknown resource: shop://x\n" in cli.run("show", "-t", "shop.py", "shop://x").stderr


def test_page_task_and_result_budget_are_shown_if_set(cli: CommandLine) -> None:
    options = 'ui="ui://chart", task="when-long", max_result_tokens=5000'
    body = '\ndef plot() -> str:\n    "Draw a chart of the sales."\n'
    cli.write("tools.py", f"from toolcrib import tool\n@tool({options}){body}")
    lines = [" ".join(line.split()) for line in cli.run("show", "tools.py:plot").stdout.splitlines()]
    assert {"Page ui://chart", "Task when-long", "Result budget 5000 tokens"} <= set(lines)
    shown = cli.json("show", "tools.py:plot", "--json")
    assert (shown["task"], shown["max_result_tokens"]) == ("when-long", 5000)
    assert shown["_meta"]["ui"]["resourceUri"] == "ui://chart"
    plain = cli.json("show", "math_add", "--samples", "--json")
    assert not {"task", "max_result_tokens"} & set(plain)
