"""`toolcrib audit query`: which log is read, filters, new records and escaping."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.records.recorded_calls import CALLS, START_S, record
from toolcrib.cli import audit as module

from .conftest import CommandLine

STAMP = "2027-01-15 08:00:00.000"


@pytest.fixture
def log(cli: CommandLine) -> str:
    """A log that the settings name: `opened`, five calls, `closed`."""
    name = "audit.db"
    record(name, CALLS)
    cli.write("toolcrib.toml", f'[audit]\nfile = "{name}"\n')
    return name


def ids(cli: CommandLine, *words: str) -> list[str]:
    done = cli.run("audit", "query", "--json", *words)
    assert done.exit_code == 0, done.stderr
    return [item["id"] for line in done.stdout.splitlines() if "id" in (item := json.loads(line))]


# --- output ---


def test_the_last_records_are_printed_one_per_line(cli: CommandLine, log: str) -> None:
    done = cli.run("audit", "query")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"      1  {STAMP}  [opened]  server shop, process ")
    assert lines[1:6] == [
        f"      2  {STAMP}  ok             local            add                  1.2 ms",
        "      3  2027-01-15 08:00:01.000  denied         key:ana          refund              "
        " denied by rules[1]",
        "      4  2027-01-15 08:00:02.000  cancelled      key:ana          refund@2             20.0 ms",
        "      5  2027-01-15 08:00:03.000  disconnected   oauth:bo         report               3000.0 ms",
        "      6  2027-01-15 08:00:04.000  error          key:ana          refund               tool-error"
        ' {"amount": 5}',
    ]
    assert lines[6].startswith("      7  2027-01-15 08:00:04.000  [closed]  process ")
    assert len(lines) == 7


def test_follow_prints_only_what_matches(cli: CommandLine, log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = []

    def pause() -> None:
        waits.append(1)
        if len(waits) == 2:
            raise KeyboardInterrupt
        calls = [{"principal": "key:new", "tool": name, "outcome": "ok"} for name in ("add", "refund")]
        record(log, calls)

    monkeypatch.setattr(module, "pause", pause)
    done = cli.run("audit", "query", "--tool", "refund", "--follow", "--limit", "1", "--json")
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(item["tool"], item["principal"]) for item in shown] == [
        ("refund", "key:ana"),
        ("refund", "key:new"),
    ]


# --- which log ---


def test_a_log_must_be_configured_or_given(cli: CommandLine) -> None:
    for settings in (None, "[server]\nname = 'shop'\n", "[policy]\ndefault = 'allow'\n"):
        if settings is not None:
            cli.write("toolcrib.toml", settings)
        done = cli.run("audit", "query")
        assert done.exit_code == 2
        assert done.stderr == (
            "error: No audit log configured\n"
            "hint: use --file PATH, or add to toolcrib.toml:\n"
            '    [audit]\n    file = "audit.db"\n'
        )


@pytest.mark.parametrize("command", ["query", "query --follow", "verify"])
def test_a_missing_log_is_an_error(cli: CommandLine, command: str) -> None:
    cli.write("toolcrib.toml", '[audit]\nfile = "audit.db"\n')
    done = cli.run("audit", *command.split())
    assert done.exit_code == 2
    assert done.stderr == "error: No audit log: audit.db\nhint: a server creates it when it starts\n"
    assert not Path("audit.db").exists()


@pytest.mark.parametrize("command", ["query", "verify"])
def test_a_file_that_is_not_a_log_is_an_error(cli: CommandLine, command: str) -> None:
    cli.write(
        "notes.db", "nothing of the kind, but long enough to be looked at by anyone who reads files\n" * 9
    )
    done = cli.run("audit", command, "--file", "notes.db")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: notes.db: ")
    assert "not an audit log" in done.stderr


def test_an_os_error_is_reported_with_the_file(
    cli: CommandLine, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied", log)

    monkeypatch.setattr("toolcrib.policy.audit.reader.SQLiteAudit.find", fail)
    done = cli.run("audit", "query")
    assert done.exit_code == 2
    assert done.stderr == f"error: {log}: Permission denied\n"


def test_a_broken_pipe_is_not_reported(cli: CommandLine, log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object, text: str) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("toolcrib.cli.output.Terminal.echo", fail)
    done = cli.run("audit", "query")
    assert (done.exit_code, done.stderr) == (1, "")


def test_reading_needs_no_key(cli: CommandLine, log: str) -> None:
    os.chmod(f"{log}.key", 0o666)  # a key that nobody should trust
    assert cli.run("audit", "query").exit_code == 0
    assert cli.run("audit", "verify").exit_code == 2


# --- query ---


def test_records_are_filtered_by_caller_tool_and_outcome(cli: CommandLine, log: str) -> None:
    assert ids(cli) == ["c0", "c1", "c2", "c3", "c4"]
    assert ids(cli, "--as", "key:*") == ["c1", "c2", "c4"]
    assert ids(cli, "--as", "local") == ["c0"]
    assert ids(cli, "--tool", "re*") == ["c1", "c2", "c3", "c4"]
    assert ids(cli, "--tool", "re*", "--as", "oauth:*") == ["c3"]
    assert ids(cli, "--outcome", "denied") == ["c1"]
    assert ids(cli, "--outcome", "denied, ok") == ["c0", "c1"]
    assert ids(cli, "--outcome", "denied", "--outcome", "error") == ["c1", "c4"]
    assert ids(cli, "--code", "tool-error") == ["c4"]
    assert ids(cli, "--id", "c2") == ["c2"]


def test_cancelled_includes_disconnected(cli: CommandLine, log: str) -> None:
    assert ids(cli, "--outcome", "cancelled") == ["c2", "c3"]
    assert ids(cli, "--outcome", "disconnected") == ["c3"]


def test_records_are_filtered_by_time(cli: CommandLine, log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ids(cli, "--since", "2027-01-15T08:00:02") == ["c2", "c3", "c4"]
    assert ids(cli, "--until", "2027-01-15T08:00:02") == ["c0", "c1"]
    assert ids(cli, "--since", "2027-01-15T10:00:01+02:00", "--until", "2027-01-15T08:00:03Z") == [
        "c1",
        "c2",
    ]
    assert ids(cli, "--since", "2027-01-15") == ["c0", "c1", "c2", "c3", "c4"]
    assert ids(cli, "--until", "2027-01-15") == []
    monkeypatch.setattr("toolcrib.cli.options.time.time", lambda: START_S + 3602)
    assert ids(cli, "--since", "1h") == ["c2", "c3", "c4"]
    assert ids(cli, "--until", "60min") == ["c0", "c1"]


def test_limit_shows_the_newest_and_notes_that_there_are_more(cli: CommandLine, log: str) -> None:
    done = cli.run("audit", "query", "--limit", "2", "--as", "key:*")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["4", "6"]
    assert done.stderr == "note: only the newest 2 are shown\nhint: --limit 0 shows all\n"
    for limit in ("3", "0"):
        done = cli.run("audit", "query", "--limit", limit, "--as", "key:*")
        assert [line.split()[0] for line in done.stdout.splitlines()] == ["3", "4", "6"]
        assert done.stderr == ""


def test_no_match_is_noted(cli: CommandLine, log: str) -> None:
    done = cli.run("audit", "query", "--tool", "nothing")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == f"note: no matching records in {log}\n"


def test_a_misspelt_outcome_gets_a_suggestion(cli: CommandLine, log: str) -> None:
    done = cli.run("audit", "query", "--outcome", "ok,canceled")
    assert done.exit_code == 2
    assert done.stderr == "error: Unknown outcome: canceled\nhint: did you mean 'cancelled'?\n"


# --- what callers could have chosen ---


HOSTILE = [
    "\x1b[31mred",
    "two\nlines",
    "nul\x00",
    "bidi\u202e",
    "c1\x9b",
    "del\x7f",
    "\u2028line",
    "tab\there",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_values_chosen_by_callers_are_escaped(cli: CommandLine, text: str) -> None:
    call = {"principal": text, "tool": text, "outcome": "error", "code": text, "rule": text, "decision": text,
            "version": text, "values": {text: text}}  # fmt: skip
    record("audit.db", [call, {"kind": text, text: text}])
    for words in (["query"], ["query", "--json"]):
        done = cli.run("audit", *words, "--file", "audit.db")
        assert len(done.stdout.splitlines()) == 4
        assert done.stdout.replace("\n", "").isprintable()
