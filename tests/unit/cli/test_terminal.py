"""Results on stdout, messages on stderr, everything escaped; and what all commands share."""

from __future__ import annotations

import io
import json
import logging
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from toolcrib import __version__
from toolcrib.cli import COMMANDS, app
from toolcrib.cli.output import Terminal, claim_stdout, shorten_paths
from toolcrib.cli.table import type_name
from toolcrib.cli.text import join, style, suggest

from .conftest import CommandLine


class FakeTTY(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "variables", "is_coloured"),
    [
        (FakeTTY, {"TERM": "xterm"}, True),
        (io.StringIO, {"TERM": "xterm"}, False),
        (FakeTTY, {"TERM": "dumb"}, False),
        (FakeTTY, {"TERM": "xterm", "NO_COLOR": "1"}, False),
    ],
)
def test_colours_are_printed_only_where_the_terminal_supports_them(
    monkeypatch: pytest.MonkeyPatch,
    stream: type[io.StringIO],
    variables: dict[str, str],
    is_coloured: bool,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    out = stream()
    Terminal(out, out, debug=False).echo(style("red", fg="red"))
    assert out.getvalue() == ("\x1b[31mred\x1b[0m\n" if is_coloured else "red\n")


def test_an_error_is_red_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    err = FakeTTY()
    Terminal(FakeTTY(), err, debug=False).message("error", "no", "try again")
    assert err.getvalue() == "\x1b[31m\x1b[1merror:\x1b[0m no\n\x1b[36m\x1b[1mhint:\x1b[0m try again\n"


def test_json_is_plain_ascii_where_stdout_is_not_utf8() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", errors="backslashreplace")
    Terminal(out, io.StringIO(), debug=False).json({"name": "ä\u009b"})
    assert json.loads(raw.getvalue()) == {"name": "ä\u009b"}


def test_every_way_to_print_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out, err = FakeTTY(), FakeTTY()
    terminal = Terminal(out, err, debug=True)
    terminal.echo("a\x1b", "b\u202e")
    terminal.write("c\x1b\n")
    terminal.json({"d": "\x1b\x7f\U000e0041"})
    terminal.json_line('"e\x9b"')
    terminal.echo_err("f\x1b", end="")
    terminal.message("g", "\x1b", "\x1b")
    terminal.status("h\x1b\n")
    terminal.status("")
    try:
        raise ValueError("i\x1b")
    except ValueError as error:
        terminal.traceback(error)
    shown = out.getvalue() + err.getvalue()
    assert not set(shown) & set("\x1b\x7f\x9b\u202e\U000e0041")
    for words in (
        "a\\x1bb\\u202e\n",
        "c\\x1b\n",
        '"e\\u009b"',
        "f\\x1b",
        "g: \\x1b\nhint: \\x1b\n",
        "i\\x1b",
    ):
        assert words in shown


def test_a_status_line_is_written_over_and_cleared() -> None:
    err = FakeTTY()
    terminal = Terminal(FakeTTY(), err, debug=False)
    terminal.status("")
    assert err.getvalue() == ""
    for text in ("longer", "less", "", ""):
        terminal.status(text)
    assert err.getvalue() == "\rlonger\rless  \r    \r"


def test_only_our_own_colours_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    out = FakeTTY()
    Terminal(out, FakeTTY(), debug=False).echo(style("ours\x1b", fg="red"), join(" ", "theirs\x1b[1m"))
    assert out.getvalue() == "\x1b[31mours\\x1b\x1b[0m theirs\\x1b[1m\n"


def test_content_is_unchanged_in_a_pipe() -> None:
    out = io.StringIO()
    Terminal(out, FakeTTY(), debug=False).write("a\x1b[1m\r\n")
    assert out.getvalue() == "a\x1b[1m\r\n"


def test_stdout_is_claimed_and_restored() -> None:
    before = sys.stdout
    with claim_stdout() as out:
        assert out is before
        assert sys.stdout is sys.stderr
    assert sys.stdout is before


def test_the_logger_is_restored(cli: CommandLine) -> None:
    logger = logging.getLogger("toolcrib")
    before = (logger.level, logger.propagate, list(logger.handlers))
    cli.run("list")
    assert (logger.level, logger.propagate, logger.handlers) == before


def test_debug_shows_the_librarys_log(cli: CommandLine) -> None:
    logged = cli.run("explain", "--samples", "--debug").stderr
    assert "info: Successfully registered 7 tools" in logged
    assert "debug: tool_registered: hello_world" in logged
    assert "Successfully" not in cli.run("explain", "--samples").stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(cli: CommandLine, command: str) -> None:
    for option in ("--help", "-h"):
        done = cli.run(command, option)
        assert done.exit_code == 0
        assert done.stdout.startswith(f"Usage: {app.name} {command}")
        assert f"  toolcrib {command}" in done.stdout.partition("Examples:")[2]
        assert max(len(line) for line in done.stdout.splitlines()) <= 80


def test_a_command_of_a_group_has_its_own_examples_only(cli: CommandLine) -> None:
    for group, name in (("keys", "create"), ("keys", "list"), ("audit", "query"), ("audit", "verify")):
        examples = cli.run(group, name, "-h").stdout.partition("Examples:")[2].strip().splitlines()
        assert examples
        assert all(f"toolcrib {group} {name}" in line for line in examples)


def test_a_narrow_terminal_shows_whole_summaries(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    help_ = cli.run("-h").stdout.partition("Examples:")[0]
    assert "..." not in help_.partition("Commands:")[2]
    assert "a toolcrib.toml" in help_


def test_version_and_help_are_printed_on_stdout(cli: CommandLine) -> None:
    assert cli.run("--version").stdout == f"toolcrib {__version__}\n"
    done = cli.run("--help")
    assert all(command in done.stdout for command in ("check", "list", "show", "call", "Examples:"))


def test_no_command_shows_the_help(cli: CommandLine) -> None:
    done = cli.run()
    assert done.exit_code == (0 if version("click").startswith("8.1.") else 2)
    assert "Usage: toolcrib" in done.stdout + done.stderr


def test_an_unexpected_exception_is_an_internal_error(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("broken inside")

    monkeypatch.setattr("toolcrib.cli.listing.print_components", fail)
    done = cli.run("list", "--samples")
    assert done.exit_code == 1
    assert "error: Internal error: RuntimeError: broken inside" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in cli.run("list", "--samples", "--debug").stderr


def test_an_interrupt_ends_quietly_with_130(cli: CommandLine) -> None:
    cli.write("stop.py", "raise KeyboardInterrupt\n")
    done = cli.run("list", "stop.py")
    assert done.exit_code == 130
    assert done.output.strip() == ""


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({}, "any"),
        (True, "any"),
        ({"type": "integer"}, "integer"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"type": "string", "format": "date"}, "string (date)"),
        ({"type": "array"}, "any[]"),
        ({"type": "array", "items": {"type": "string"}}, "string[]"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "integer | string"),
        ({"enum": list("abcdefgh")}, '"a" | "b" | "c" | "d" | "e" | "f" | ...'),
        ({"const": 1}, "1"),
        ({"$ref": "#/$defs/Issue"}, "Issue"),
        ({"$ref": "#/$defs/Colour"}, '"red" | "blue"'),
    ],
)
def test_types_are_described_in_words(schema: object, words: str) -> None:
    root = {"$defs": {"Issue": {"type": "object"}, "Colour": {"enum": ["red", "blue"]}}}
    assert type_name(schema, root) == words


def test_a_suggestion_is_a_similar_name_or_the_available_names() -> None:
    assert suggest("ehco", ["echo", "add"]) == "did you mean 'echo'?"
    assert suggest("ECHO", ["echo", "add"]) == "did you mean 'echo'?"
    assert suggest("zzz", ["echo"]) == "available: echo"
    assert suggest("zzz", []) is None
    assert suggest("zzz", [f"tool{number}" for number in range(20)]) == (
        "20 are available, for example: tool0, tool1, tool2, tool3, tool4, tool5, tool6, tool7"
    )


@pytest.mark.parametrize(
    ("given", "width"), [("120", 120), ("2", 40), ("²", 80), ("9" * 5_000, 80), ("x", 80)]
)
def test_an_invalid_width_is_ignored(monkeypatch: pytest.MonkeyPatch, given: str, width: int) -> None:
    monkeypatch.setenv("COLUMNS", given)
    assert Terminal(FakeTTY(), io.StringIO(), debug=False).width == width


def test_a_pipe_has_no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert Terminal(io.StringIO(), FakeTTY(), debug=False).width is None


def test_paths_below_the_current_folder_are_shortened_and_urls_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shorten_paths(f"{tmp_path}/shop.py at http://127.0.0.1") == "shop.py at http://127.0.0.1"
    monkeypatch.chdir("/")
    assert shorten_paths("/srv/shop.py at http://127.0.0.1") == "/srv/shop.py at http://127.0.0.1"
