"""`toolcrib prompt`: the messages of one prompt."""

from __future__ import annotations

import pytest

from .conftest import SHOP, CommandLine

MORE = '''
from toolcrib import Image

@server.prompt
def look() -> list:
    """Show a picture."""
    return ["Look:", Image(b"abc")]

@server.prompt
def add(numbers: list[int], flag: bool = False) -> str:
    """Add numbers."""
    return f"{sum(numbers)} {flag}"

@server.prompt
def nothing() -> list:
    """Say nothing."""
    return []
'''


@pytest.fixture
def shop(cli: CommandLine) -> CommandLine:
    cli.write("shop.py", SHOP + MORE)
    return cli


def test_a_single_message_is_printed_as_it_is(shop: CommandLine) -> None:
    done = shop.run("prompt", "-t", "shop.py", "thank", "who=Ana")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "Thank Ana.\n", "")


def test_several_messages_are_printed_below_their_roles(shop: CommandLine) -> None:
    done = shop.run("prompt", "-t", "shop.py", "complain", "order=17", "tone=firm")
    text = "user:\nWrite a firm complaint about order 17.\n\nassistant:\nDear shop,\n"
    assert (done.exit_code, done.stdout, done.stderr) == (0, text, "")
    shown = shop.run("prompt", "-t", "shop.py", "look").stdout
    assert shown == "user:\nLook:\n\nuser:\n[image, image/png] 3 bytes (use --json to print them)\n"


def test_json_is_what_mcp_sends(shop: CommandLine) -> None:
    found = shop.json("prompt", "-t", "shop.py", "complain", "order=17", "--json")
    assert found["description"] == "Complain about an order"
    assert [message["role"] for message in found["messages"]] == ["user", "assistant"]
    assert found["messages"][1]["content"] == {"type": "text", "text": "Dear shop,"}


@pytest.mark.parametrize(
    "words",
    [
        ("numbers=[1, 2]", "flag=true"),
        ("numbers:=[1, 2]", "flag:=true"),
        ("--json", '{"numbers": [1, 2], "flag": true}'),
        ("--json", '{"numbers": "[1, 2]", "flag": "true"}'),
    ],
)
def test_arguments_are_given_as_for_calls(shop: CommandLine, words: tuple[str, ...]) -> None:
    done = shop.run("prompt", "-t", "shop.py", "add", *words)
    assert "3 True" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["complian"], 2, "Unknown prompt: complian\nhint: did you mean 'complain'?"),
        (["find_order"], 2, "Unknown prompt: find_order\nhint: it is a tool: use toolcrib call find_order"),
        (["complain"], 1, "'order': required, but missing\nhint: parameters: order: string, tone?:"),
        (["complain", "order=x"], 1, "prompt 'complain': 'order': expected integer, got string 'x'"),
        (["complain", "order=1", "tone=loud"], 1, "'complain': 'tone': expected one of 'polite', 'firm'"),
        (["complain", "order=1", "x=1"], 1, "'x': not a parameter of this prompt"),
        (["thank", "Ana"], 2, "'Ana' is not KEY=VALUE"),
    ],
)
def test_mistakes_are_errors_with_a_hint(shop: CommandLine, words: list[str], code: int, text: str) -> None:
    done = shop.run("prompt", "-t", "shop.py", *words)
    assert (done.exit_code, done.stdout) == (code, "")
    assert text in done.stderr
    assert "\nhint: " in done.stderr


def test_a_prompt_is_not_a_tool(shop: CommandLine) -> None:
    done = shop.run("call", "-t", "shop.py", "thank")
    assert (done.exit_code, done.stderr) == (
        2,
        "error: Unknown tool: thank\nhint: it is a prompt: use toolcrib prompt thank\n",
    )


def test_no_prompt_bypasses_a_policy(shop: CommandLine) -> None:
    shop.write("toolcrib.toml", '[server]\ntargets = ["shop.py"]\n[[rules]]\nallow = ["prompt:thank"]\n')
    assert shop.run("prompt", "thank", "who=Ana").stdout == "Thank Ana.\n"
    done = shop.run("prompt", "complain", "order=1")
    assert (done.exit_code, "The policy does not allow you to use 'complain'" in done.stderr) == (2, True)
    assert "--as local prompt:complain`" in done.stderr
