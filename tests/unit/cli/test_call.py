"""`toolcrib call`: arguments from a shell, results for people and programs, exit codes."""

from __future__ import annotations

import pytest

from .conftest import CommandLine

KIT = '''
import asyncio, time
from typing import Any
from toolcrib import Context, Image, Link, Result, ToolError, tool

@tool
def tell(text: str, number: float = 0, flag: bool = False, items: list[str] | None = None, thing: Any = None,
         options: dict | None = None) -> str:
    """Tell back what came."""
    return repr((text, number, flag, items, thing, options))

@tool(repair=False)
def exact(number: int) -> str:
    """Take a number and nothing else."""
    return repr(number)

@tool
def records() -> list[dict]:
    """Give some records."""
    return [{"name": "ä", "size": 1}]

@tool
def nothing() -> None:
    """Do nothing at all."""

@tool
def steer() -> str:
    """Try to steer the terminal."""
    return "a\\x1b[31mred\\x9b2J\\u202eevil\\r\\nnext\\ttab"

@tool
def refuse() -> str:
    """Refuse in the author's words."""
    raise ToolError("not \\x1b[1mtoday")

@tool
def crash(x: int = 0) -> str:
    """Divide by zero."""
    return 1 / x

@tool
def slow() -> str:
    """Take a long time."""
    time.sleep(30)

@tool
def loud() -> str:
    """Print while it runs."""
    print("printed by the tool")
    return "done"

@tool
def picture() -> list[Image | Link | str]:
    """Give a picture, a link and words."""
    return [Image(b"abc"), Link("https://example.org/x", "an x"), "words"]

@tool
async def server_name(ctx: Context) -> str:
    """Tell whose tool this is."""
    return f"{ctx.server.name} {ctx.server.core_engine}"
'''


@pytest.fixture
def kit(cli: CommandLine) -> CommandLine:
    cli.write("kit.py", KIT)
    return cli


def test_a_sample_tool_is_called(cli: CommandLine) -> None:
    done = cli.run("call", "math_add", "a=10", "b=5", "--samples")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "10 + 5 = 15\n", "")


def test_json_takes_the_arguments_as_an_object_or_from_stdin(cli: CommandLine) -> None:
    text = '{"a": 1, "b": 2}'
    for arguments, stdin in ((["--json", text], None), ([f"--json={text}"], None), (["--json", "-"], text)):
        assert cli.json("call", "--samples", "math_add", *arguments, stdin=stdin)["structuredContent"] == 3
    assert (
        cli.json("call", "--samples", "--json", '{"a": 1, "b": 2}', "math_add", "b=5")["structuredContent"]
        == 6
    )


def test_values_are_converted_by_the_schema(kit: CommandLine) -> None:
    done = kit.run("call", "-t", "kit.py", "tell", "text=10", "number=2.5", "flag=true", 'items=["a", "b"]')
    assert done.stdout == "('10', 2.5, True, ['a', 'b'], None, None)\n"
    done = kit.run("call", "kit.py:tell", "text=[1]", "flag=False", "thing=10", "options={}")
    assert done.stdout == "('[1]', 0, False, None, '10', {})\n"


def test_a_colon_forces_json(kit: CommandLine) -> None:
    done = kit.run("call", "kit.py:tell", "text=a=b:=c", "thing:=[1, null]", 'items:=["x"]')
    assert done.stdout == "('a=b:=c', 0, False, ['x'], [1, None], None)\n"


def test_values_are_converted_even_for_a_tool_without_repair(kit: CommandLine) -> None:
    assert kit.run("call", "kit.py:exact", "number=7").stdout == "7\n"
    done = kit.run("call", "kit.py:exact", "--json", '{"number": "7"}')
    assert done.exit_code == 1  # JSON says itself what it is


def test_structured_results_are_printed_as_indented_json(kit: CommandLine) -> None:
    done = kit.run("call", "kit.py:records")
    assert done.stdout == '[\n  {\n    "name": "ä",\n    "size": 1\n  }\n]\n'


def test_an_empty_result_is_noted(kit: CommandLine) -> None:
    done = kit.run("call", "kit.py:nothing")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "note: the tool returned nothing\n")


def test_media_are_named_and_links_shown(kit: CommandLine) -> None:
    assert kit.run("call", "kit.py:picture").stdout.splitlines() == [
        "[image, image/png] 3 bytes (use --json to print them)",
        "[link] an x: https://example.org/x",
        "words",
    ]


def test_results_are_unchanged_in_a_pipe_and_escaped_in_json(kit: CommandLine) -> None:
    done = kit.run("call", "kit.py:steer")
    assert done.stdout_bytes.decode() == "a\x1b[31mred\x9b2J\u202eevil\r\nnext\ttab\n"
    raw = kit.run("call", "kit.py:steer", "--json").stdout
    assert not set(raw) & set("\x1b\x9b\u202e")
    assert kit.json("call", "kit.py:steer", "--json")["content"][0]["text"].startswith(
        "a\x1b[31mred\x9b2J\u202e"
    )


def test_a_tool_error_goes_to_stderr_and_exits_with_1(kit: CommandLine) -> None:
    done = kit.run("call", "kit.py:refuse")
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", "error: not \\x1b[1mtoday\n")
    done = kit.run("call", "kit.py:refuse", "--json")
    assert done.exit_code == 1
    assert '"isError": true' in done.stdout


def test_the_cause_of_a_crash_is_a_line_of_its_author_and_not_of_a_library(kit: CommandLine) -> None:
    code = "import json\nfrom toolcrib import tool\n\ndef read(text):\n    return json.loads(text)\n\n"
    kit.write("loads.py", f"{code}@tool\ndef load(text: str) -> dict:\n    return read(text)\n")
    done = kit.run("call", "-t", "loads.py", "load", "text=x")
    assert done.exit_code == 1
    assert done.stderr.splitlines()[0].endswith(", at loads.py:5")


def test_a_crash_shows_the_local_user_what_was_raised(kit: CommandLine) -> None:
    done = kit.run("call", "kit.py:crash")
    assert done.exit_code == 1
    lines = done.stderr.splitlines()
    assert lines[0].startswith("error: tool 'crash' raised ZeroDivisionError: division by zero (call ")
    line = next(number for number, text in enumerate(KIT.splitlines(), start=1) if "return 1 / x" in text)
    assert lines[0].endswith(f"), at kit.py:{line}")
    assert lines[1] == "hint: --debug shows the traceback"
    assert lines[2].startswith("error: Tool 'crash' failed unexpectedly (reference ")
    assert len(lines) == 3
    traced = kit.run("call", "kit.py:crash", "--debug").stderr
    assert "return 1 / x" in traced
    assert "hint:" not in traced
    assert "ZeroDivisionError" not in kit.run("call", "kit.py:crash", "--json").stdout


def test_a_slow_tool_times_out(kit: CommandLine) -> None:
    done = kit.run("call", "kit.py:slow", "--timeout", "0.2")
    assert done.exit_code == 1
    assert "0.2" in done.stderr


def test_anything_that_a_tool_prints_goes_to_stderr(kit: CommandLine) -> None:
    done = kit.run("call", "kit.py:loud", "--json")
    assert done.stdout.startswith("{")
    assert "printed by the tool" in done.stderr


def test_invalid_arguments_get_a_hint_with_the_parameters_or_an_example(kit: CommandLine) -> None:
    done = kit.run("call", "kit.py:tell", "text=x", "number=one")
    assert done.exit_code == 1
    assert "hint: parameters: text: string, number?: number," in done.stderr
    for key, example in (("items", '["a", "b"]'), ("options", '{"key": "value"}')):
        done = kit.run("call", "kit.py:tell", "text=x", f"{key}=one")
        assert f"hint: give it as JSON: {key}:='{example}'\n" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "stdin", "words"),
    [
        (
            ["nope", "--samples"],
            None,
            "hint: available: hello_world, echo, get_time",
        ),
        (["hello", "--samples"], None, "did you mean 'hello_world'?"),
        (["math_add", "10"], None, "'10' is not KEY=VALUE"),
        (["math_add", "=10"], None, "is not KEY=VALUE"),
        (["math_add", "a=1", "a=2"], None, "'a' is given twice"),
        (["math_add", "a:=x"], None, "is not valid JSON"),
        (["math_add", "--json", "{"], None, "after --json are not JSON"),
        (["math_add", "--json", "[1]"], None, "--json takes a JSON object"),
        (["math_add", "--json", "-"], "[1]", "on stdin must be a JSON object"),
        (["math_add", "--json", "-"], "", "on stdin are not JSON"),
        (["math_add", "--timeout", "0"], None, "'--timeout'"),
        (["math_add", "--timeout", "soon"], None, "'--timeout'"),
        (["math_add", "--a", "10"], None, "without dashes: a=VALUE"),
        (["kit.py"], None, "kit.py is a file, not a tool\nhint: use it as a target: -t kit.py"),
        (["kit.py", "add", "a=1"], None, "kit.py is a file, not a tool"),
        (["math_add", '{"a": 1}'], None, "--json '{...}'"),
    ],
)
def test_wrong_usage_exits_with_2(
    kit: CommandLine, arguments: list[str], stdin: str | None, words: str
) -> None:
    done = kit.run("call", *arguments, stdin=stdin)
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stdout == ""


def test_nothing_after_two_dashes_is_an_option(kit: CommandLine) -> None:
    done = kit.run("call", "kit.py:tell", "--", "text=--json")
    assert done.stdout.startswith("('--json',")


def test_a_tool_runs_with_the_name_and_the_engine_of_its_own_server(cli: CommandLine) -> None:
    cli.write(
        "engine_owner.py",
        KIT.replace(
            "@tool\nasync def", "server = MCPServer('mine', core_engine='E')\n\n@server.tool\nasync def"
        ).replace("import Context", "import MCPServer, Context"),
    )
    for target in ("engine_owner.py", "engine_owner.py:server", "engine_owner"):
        done = cli.run("call", "-t", target, "server_name")
        assert done.stdout == "mine E\n", (target, done.stderr)


def test_an_application_is_opened_and_closed_around_the_call(cli: CommandLine) -> None:
    text = """
    import sys
    from toolcrib import Application
    class Shop(Application):
        name = "shop"
        def list_tools(self): return [self.buy]
        def open(self): {open}
        def close(self): print("closed")
        def buy(self, what: str) -> str:
            "Buy something for me."
            return "bought " + what
    """
    cli.write("shop.py", text.format(open="print('opened')"))
    done = cli.run("call", "-t", "shop.py", "buy", "what=tea")
    assert done.stdout == "bought tea\n"
    assert done.stderr == "opened\nclosed\n"
    cli.write("shut.py", text.format(open="raise OSError('no key')"))
    done = cli.run("call", "-t", "shut.py", "buy", "what=tea")
    assert done.exit_code == 1
    assert "OSError: no key" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_tool_works_when_its_group_is_switched_on(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.write("notes.txt", "some words\n")
    assert cli.run("call", "read_file", "path=notes.txt", "--samples").exit_code == 2
    monkeypatch.setenv("TOOLCRIB_ENABLE_FILE_TOOLS", "1")
    assert cli.run("call", "read_file", "path=notes.txt", "--samples").stdout == "some words\n"


def test_the_lifespan_of_the_server_surrounds_the_call(cli: CommandLine) -> None:
    cli.write(
        "desk.py",
        """
        from toolcrib import Context, MCPServer

        async def lifespan(server):
            yield "open"
            print("closed")

        server = MCPServer("desk", lifespan=lifespan)

        @server.tool
        def look(ctx: Context) -> str:
            return ctx.state
        """,
    )
    done = cli.run("call", "-t", "desk.py", "look")
    assert done.stdout.split() == ["open"]
    assert done.exit_code == 0
    assert "closed" in done.stderr
