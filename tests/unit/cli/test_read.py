"""`toolcrib read`: the content of one resource, for people, programs and files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.system.pseudo_terminal import run_on_terminal

from .conftest import SHOP, CommandLine

LOGO = b"\x89PNG\x00\xff"
MORE = '''
from toolcrib import Result

@server.resource("shop://several")
def several() -> list[File]:
    """Two files."""
    return [File("one", uri="shop://a"), File(b"\\x00\\x01", uri="shop://b")]

@server.resource("shop://nothing")
def nothing() -> Result:
    """No file at all."""
    return Result([])

@server.resource("shop://steer")
def steer() -> str:
    """Try to steer the terminal."""
    return "a\\x1b[31mred"

@server.resource("shop://slow")
async def slow(ctx: Context) -> str:
    """Tell how far it is."""
    import asyncio
    await ctx.progress(1, 2, "half")
    await asyncio.sleep(30)
    return "done"
'''


@pytest.fixture
def shop(cli: CommandLine) -> CommandLine:
    cli.write("shop.py", SHOP + MORE)
    return cli


def test_text_is_printed_as_it_is(shop: CommandLine) -> None:
    done = shop.run("read", "-t", "shop.py", "orders://17/invoice")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "# Invoice 17", "")
    assert shop.run("read", "-t", "shop.py", "orders://list").stdout == "[17,18]"


def test_bytes_go_to_a_pipe_or_a_file(shop: CommandLine) -> None:
    words = [sys.executable, "-m", "toolcrib", "read", "-t", "shop.py", "shop://logo"]
    done = subprocess.run(words, cwd=shop.folder, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (LOGO, b"")
    saved = shop.run("read", "-t", "shop.py", "shop://logo", "-o", "logo.png")
    assert (saved.exit_code, saved.stdout, saved.stderr) == (0, "", "note: 6 bytes written to logo.png\n")
    assert (shop.folder / "logo.png").read_bytes() == LOGO
    assert shop.run("read", "-t", "shop.py", "orders://17/invoice", "-o", "17.md").exit_code == 0
    assert (shop.folder / "17.md").read_text() == "# Invoice 17"


def test_json_is_what_mcp_sends(shop: CommandLine) -> None:
    found = shop.json("read", "-t", "shop.py", "shop://logo", "--json")
    assert found == {"contents": [{"uri": "shop://logo", "mimeType": "image/png", "blob": "iVBORwD/"}]}


def test_several_contents_are_named_on_stderr(shop: CommandLine) -> None:
    done = shop.run("read", "-t", "shop.py", "shop://several")
    assert done.stdout_bytes == b"one\n\x00\x01"
    assert done.stderr.splitlines() == [
        "note: shop://a, text/plain, 3 bytes",
        "note: shop://b, application/octet-stream, 2 bytes",
    ]
    assert len(shop.json("read", "-t", "shop.py", "shop://several", "--json")["contents"]) == 2
    done = shop.run("read", "-t", "shop.py", "shop://several", "-o", "x")
    assert (done.exit_code, "shop://several has 2 contents" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("uri", "code", "words"),
    [
        ("shop://lgo", 2, "Unknown resource: shop://lgo\nhint: did you mean 'shop://logo'?"),
        ("x://y", 2, "Unknown resource: x://y\nhint: available: orders://list, orders://{number}/invoice,"),
        ("find_order", 2, "Unknown resource: find_order\nhint: it is a tool: use toolcrib call find_order"),
        ("orders://{number}/invoice", 2, "invoice is a template\nhint: give a URI with values in place"),
        ("ORDERS://LIST", 2, "Unknown resource: ORDERS://LIST\nhint: did you mean 'orders://list'?"),
        ("orders://x/invoice", 1, "expected integer, got string 'x'\nhint: parameters: number: integer"),
        ("orders://101/invoice", 1, "failed unexpectedly"),
    ],
)
def test_anything_that_cannot_be_read_is_an_error_with_a_hint(
    shop: CommandLine, uri: str, code: int, words: str
) -> None:
    done = shop.run("read", "-t", "shop.py", uri)
    assert (done.exit_code, done.stdout) == (code, "")
    assert words in done.stderr
    assert "error: " in done.stderr


def test_a_uri_may_have_its_kind_before_it(shop: CommandLine) -> None:
    assert shop.run("read", "-t", "shop.py", "resource:orders://list").stdout == "[17,18]"


def test_a_file_in_place_of_a_uri_is_wrong_usage(shop: CommandLine) -> None:
    done = shop.run("read", "shop.py")
    text = "error: shop.py is a file, not a resource\nhint: use it as a target: -t shop.py\n"
    assert (done.exit_code, done.stderr) == (2, text)


def test_no_read_bypasses_a_policy(shop: CommandLine) -> None:
    shop.write("toolcrib.toml", '[server]\ntargets = ["shop.py"]\n[[rules]]\nallow = ["orders://list"]\n')
    assert shop.run("read", "orders://list").exit_code == 0
    done = shop.run("read", "shop://logo")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "error: The policy does not allow you to read 'shop://logo'\n"
        "hint: `toolcrib explain --as local resource:shop://logo` shows which rule decides\n"
    )


def test_the_time_limit_is_the_one_of_the_command_line(shop: CommandLine) -> None:
    done = shop.run("read", "-t", "shop.py", "shop://slow", "--timeout", "0.2")
    assert (done.exit_code, "0.2 s" in done.stderr) == (1, True)


def test_output_and_json_exclude_each_other(shop: CommandLine) -> None:
    done = shop.run("read", "-t", "shop.py", "shop://logo", "-o", "x", "--json")
    assert (done.exit_code, done.stderr) == (
        2,
        "error: --output cannot be combined with --json\nhint: drop one of them\n",
    )


def test_on_a_terminal_text_is_escaped_and_bytes_are_not_shown(shop: CommandLine) -> None:
    def read(uri: str, folder: Path = shop.folder) -> str:
        return run_on_terminal("read", "-t", "shop.py", uri, cwd=folder)

    assert read("shop://steer") == "a\\x1b[31mred\n"
    assert "not shown: shop://logo, image/png, 6 bytes" in read("shop://logo")
