"""Completion in the shell, and the answer to a mistyped command."""

from __future__ import annotations

import pytest
from click.shell_completion import ShellComplete

from toolcrib.cli import app

from .conftest import ADD, SHOP, CommandLine


def complete(*words: str) -> list[str]:
    """Return what could stand for the last word."""
    shell = ShellComplete(app, {}, "toolcrib", "_TOOLCRIB_COMPLETE")
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


def test_tools_of_a_target_are_completed_without_running_it(cli: CommandLine) -> None:
    cli.write("tools.py", ADD + "\nraise SystemExit('it was run')\n")
    for command in ("call", "show", "explain"):
        assert complete(command, "-t", "tools.py", "a") == ["add"]


def test_tools_of_the_configuration_are_completed(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    cli.write("toolcrib.toml", '[server]\ntargets = ["tools.py"]\n')
    assert complete("call", "") == ["add"]


def test_a_target_that_cannot_be_read_completes_to_nothing(
    cli: CommandLine, capfd: pytest.CaptureFixture[str]
) -> None:
    assert complete("call", "-t", "missing.py", "") == []
    assert capfd.readouterr() == ("", "")


def test_commands_clients_and_formats_are_completed() -> None:
    assert complete("ser") == ["serve"]
    assert complete("connect", "curs") == ["cursor"]
    assert complete("export", "--to", "anth") == ["anthropic"]


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("dev", "use toolcrib serve --reload"),
        ("agent", "use toolcrib.agents.AgentRunner in Python, as examples/agent.py does"),
        ("frobnicate", "see toolcrib --help"),
    ],
)
def test_an_unknown_command_gets_a_hint(cli: CommandLine, word: str, hint: str) -> None:
    done = cli.run(word)
    assert (done.exit_code, done.stderr) == (2, f"error: No such command '{word}'\nhint: {hint}\n")


def test_prompts_and_uris_are_completed_without_running_the_target(cli: CommandLine) -> None:
    named = SHOP.replace("@server.prompt\ndef thank", '@server.prompt("say_thanks")\ndef thank')
    cli.write("shop.py", named + "\nraise SystemExit('it was run')\n")
    assert complete("prompt", "-t", "shop.py", "") == ["complain", "say_thanks"]
    uris = ["orders://list", "orders://{number}/invoice", "shop://logo"]
    assert complete("read", "-t", "shop.py", "") == uris
    assert complete("read", "-t", "shop.py", "shop:") == ["shop://logo"]
    for command in ("show", "explain"):
        names = complete(command, "-t", "shop.py", "")
        assert sorted(names) == sorted(["find_order", *uris, "complain", "say_thanks"])
        assert complete(command, "-t", "shop.py", "prompt:s") == ["prompt:say_thanks"]
        assert complete(command, "-t", "shop.py", "resource:shop") == ["resource:shop://logo"]
    assert complete("call", "-t", "shop.py", "") == ["find_order"]
