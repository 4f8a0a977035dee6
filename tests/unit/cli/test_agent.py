"""`toolcrib agent`: a question on the command line, with a real program for a model."""

from __future__ import annotations

import json
import shlex
import sys

from tests.support.agents import LINE_MODEL
from tests.unit.cli.conftest import ADD, CommandLine

GEMINI = ["agent", "--provider", "gemini_cli"]


def program(manner: str) -> list[str]:
    return [
        *GEMINI,
        "-t",
        "tools.py",
        "--program",
        shlex.join([sys.executable, "-S", str(LINE_MODEL), manner]),
    ]


def test_the_answer_goes_to_stdout_and_tool_calls_to_stderr(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    done = cli.run(*program("adds"), "What is 2 and 3?")
    assert (done.exit_code, done.stdout) == (0, "Let me see.\nThe sum is 5.\n")
    assert done.stderr == 'call: add {"a":2,"b":3}\nresult: add: 5\n'


def test_every_event_is_a_line_of_json(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    done = cli.run(*program("adds_and_exits"), "--json", stdin="What is 2 and 3?")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["type"] for event in events] == ["tool_call", "tool_result", "token", "final"]
    assert events[-1]["text"] == "The sum is 5."


def test_a_program_that_reads_all_its_input_first_works_as_transcript(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    done = cli.run(*program("writes_a_reading"), "--way", "transcript", "What is 2 and 3?")
    assert (done.exit_code, done.stdout) == (0, "I need a tool.\nThe sum is 5.\n")


def test_an_answer_without_tokens_is_printed(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    done = cli.run(*program("repeats_once"), "--instructions", "Be brief.", "Who are you?")
    assert json.loads(done.stdout)["message"] == "Who are you?"


def test_failures_exit_with_1_and_a_message(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    done = cli.run(*program("dies"), "Hello?")
    assert (done.exit_code, done.stdout) == (1, "I was about to\n")
    assert "out of memory" in done.stderr
    done = cli.run(*program("stalls"), "--timeout", "2", "Hello?")  # the program has to start in that time
    assert (done.exit_code, done.stdout) == (1, "Hm\n")
    assert "its turn has taken 2 s" in done.stderr


def test_wrong_usage_exits_with_2_and_a_hint(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    done = cli.run("agent", "--samples", "--provider", "opnai", "Hello?")
    assert (done.exit_code, "did you mean 'openai'?" in done.stderr) == (2, True)
    done = cli.run("agent", "--samples", "--provider", "openai", "Hello?")
    assert (done.exit_code, "openai needs a model" in done.stderr) == (2, True)
    done = cli.run("agent", "--samples", "--provider", "openai", "--program", "cat", "Hello?")
    assert (done.exit_code, "hint: openai takes: model, base_url" in done.stderr) == (2, True)
    done = cli.run(*GEMINI, "--samples", stdin="")
    assert (done.exit_code, done.stderr) == (2, "error: The question is empty\n")
    done = cli.run(*GEMINI, "--samples", "--program", "'", "Hello?")
    assert (done.exit_code, "Cannot parse --program" in done.stderr) == (2, True)


def test_nothing_is_called_without_a_policy_that_is_invalid(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    cli.write("policy.toml", '[[rules]]\ndeny = ["add"]\nwhen = { a = { wrong = 1 } }\n')
    done = cli.run(*program("adds"), "-t", "policy.toml", "What is 2 and 3?")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "error: policy.toml:3: rules[1].when" in done.stderr


def test_an_empty_answer_is_noted(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    done = cli.run(*program("ends_without_a_word"), "Hello?")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "note: the answer is empty\n")


def test_the_help_fits_a_terminal_and_names_a_model_wherever_one_is_needed(cli: CommandLine) -> None:
    text = cli.run("agent", "--help").stdout
    assert max(map(len, text.splitlines())) <= 80
    examples = text.partition("Examples:")[2].replace("\\\n", "").splitlines()
    hosted = [line for line in examples if "--provider openai" in line]
    assert len(hosted) == 2
    assert all("--model " in line for line in hosted)
