"""Completion in the shell, and the answer to a mistyped command."""

from __future__ import annotations

import pytest
from click.shell_completion import ShellComplete

from toolcrib.cli import app

from .conftest import CommandLine


def complete(*words: str) -> list[str]:
    """Return what could stand for the last word."""
    shell = ShellComplete(app, {}, "toolcrib", "_TOOLCRIB_COMPLETE")
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


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
