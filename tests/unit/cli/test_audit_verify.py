"""`toolcrib audit verify`: verdicts, problems and notes."""

from __future__ import annotations

import io
import json
import os
import sqlite3
from pathlib import Path

import pytest

from tests.support.records.audit_logs import read_lines, replace_lines, restamp
from tests.support.records.recorded_calls import CALLS, record
from toolcrib.cli import audit as module
from toolcrib.cli.output import Terminal
from toolcrib.config.settings import Audit
from toolcrib.policy.audit import Verdict
from toolcrib.policy.audit.record import read_head

from .conftest import CommandLine


@pytest.fixture
def log(cli: CommandLine) -> str:
    """A log that the settings name: `opened`, five calls, `closed`."""
    name = "audit.db"
    record(name, CALLS)
    cli.write("toolcrib.toml", f'[audit]\nfile = "{name}"\n')
    return name


def test_a_complete_log_is_valid(cli: CommandLine, log: str) -> None:
    done = cli.run("audit", "verify")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"{log}: valid: 7 records, 1 to 7; 2 checkpoints compared\n"


def test_programs_get_the_verdict_as_json(cli: CommandLine, log: str) -> None:
    found = cli.json("audit", "verify", "--json")
    assert len(found.pop("head")) == 64
    assert len(found.pop("proven_at")) == 24
    assert found == {
        "file": str(Path(log).resolve()),
        "is_sound": True,
        "records": 7,
        "first_seq": 1,
        "last_seq": 7,
        "checkpoints_checked": 2,
        "problems": [],
        "pruned_before": None,
        "is_keyed": True,
        "proven_through": 7,
    }


def flip(log: str, seq: int, old: str, new: str) -> None:
    """Change a word of one record."""
    with sqlite3.connect(log) as database:
        database.execute("UPDATE record SET line = replace(line, ?, ?) WHERE seq = ?", (old, new, seq))
    database.close()


def test_a_changed_record_is_reported(cli: CommandLine, log: str) -> None:
    flip(log, 4, "refund", "refuse")
    done = cli.run("audit", "verify")
    assert (done.exit_code, done.stderr) == (1, "")
    assert done.stdout == (
        f"{log}: NOT valid: 7 records, 1 to 7; 2 checkpoints compared\n"
        "  edited: record 4 does not match the one before it: one of them was changed\n"
    )
    found = cli.run("audit", "verify", "--json")
    assert found.exit_code == 1
    [problem] = json.loads(found.stdout)["problems"]
    assert (problem["seq"], problem["kind"]) == (4, "edited")


def test_a_deleted_log_is_not_valid(cli: CommandLine, log: str) -> None:
    Path(log).unlink()
    done = cli.run("audit", "verify")
    assert (done.exit_code, done.stderr) == (1, "")
    assert done.stdout == (
        f"{log}: NOT valid: no records; 0 checkpoints compared\n"
        "  truncated: records 1 to 7 are missing at the end\n"
    )
    Path(f"{log}.checkpoints").unlink()
    assert "No audit log:" in cli.run("audit", "verify").stderr


def test_without_the_key_only_the_chain_is_verified(cli: CommandLine, log: str) -> None:
    os.rename(f"{log}.key", "elsewhere.key")
    done = cli.run("audit", "verify")
    assert (done.exit_code, done.stdout.split(": ")[1]) == (
        0,
        "valid as far as can be verified without the key",
    )
    assert done.stderr == (
        "note: without the key, only the chain of records is verified, not who wrote them\n"
        "hint: use --key-file PATH if the key is kept elsewhere\n"
    )
    assert cli.run("audit", "verify", "--key-file", "elsewhere.key").stderr == ""
    done = cli.run("audit", "verify", "--key-file", "nowhere.key")
    assert (done.exit_code, "nowhere.key" in done.stderr) == (2, True)


def test_a_log_is_valid_up_to_its_last_checkpoint(cli: CommandLine, log: str) -> None:
    seals = Path(f"{log}.checkpoints")
    early = seals.read_bytes()
    at = json.loads(early.splitlines()[-1])["at"].replace("T", " ").removesuffix("Z")
    record(log, CALLS)
    late = seals.read_bytes()
    seals.write_bytes(early)
    done = cli.run("audit", "verify")
    assert done.exit_code == 0
    state = f"valid up to the last checkpoint (record 7, {at})"
    assert done.stdout == f"{log}: {state}: 14 records, 1 to 14; 2 checkpoints compared\n"
    not_sealed = "not signed yet: someone who can write the file could have made them"
    assert done.stderr == f"note: 7 records after the last checkpoint {not_sealed}\n"
    seals.write_bytes(early.splitlines(keepends=True)[0])  # of the empty log
    done = cli.run("audit", "verify")
    assert done.stdout == f"{log}: not signed yet: 14 records, 1 to 14; 0 checkpoints compared\n"
    assert done.stderr == f"note: 14 records {not_sealed}\n"
    Path("copy").write_bytes(late)
    done = cli.run("audit", "verify", "--checkpoints", "copy")
    assert (done.stderr, done.stdout.split(": ")[1]) == ("", "valid")
    assert cli.run("audit", "verify", "--checkpoints", "nowhere").exit_code == 2


def test_a_copy_of_the_checkpoints_reveals_truncation(cli: CommandLine, log: str) -> None:
    seals, path = Path(f"{log}.checkpoints"), Path(log)
    early = seals.read_bytes()
    record(log, CALLS)
    Path("copy").write_bytes(seals.read_bytes())
    seals.write_bytes(early)
    lines = read_lines(path)
    head = read_head(lines[6])
    assert head is not None
    replace_lines(
        path, [*lines[:7], *restamp([line.replace(b"refund", b"refuse") for line in lines[7:]], head.hash)]
    )
    assert cli.run("audit", "verify").stdout.split(": ")[1].startswith("valid up to the last checkpoint")
    done = cli.run("audit", "verify", "--checkpoints", "copy")
    assert done.exit_code == 1
    assert "  restamped: record 14 does not match its checkpoint\n" in done.stdout


def test_key_file_and_checkpoints_of_the_configuration_are_used(cli: CommandLine) -> None:
    options = {"key_file": "safe/key", "checkpoints": "safe/seals"}
    record("audit.db", CALLS, **options)
    cli.write(
        "toolcrib.toml", '[audit]\nfile = "audit.db"\nkey_file = "safe/key"\ncheckpoints = "safe/seals"\n'
    )
    for words in ([], ["--file", "./audit.db"]):
        found = cli.json("audit", "verify", "--json", *words)
        assert (found["is_keyed"], found["proven_through"]) == (True, 7)
    os.rename("audit.db", "copy.db")
    assert cli.json("audit", "verify", "--json", "--file", "copy.db")["is_keyed"] is False


def test_records_deleted_by_retention_are_noted() -> None:
    out, err = io.StringIO(), io.StringIO()
    verdict = Verdict(True, 900, 101, 1000, "0" * 64, 2, [], 101, True, 1000)
    module._print_verdict(Audit("audit.db"), verdict, Terminal(out, err, debug=False))
    assert out.getvalue() == "audit.db: valid: 900 records, 101 to 1000; 2 checkpoints compared\n"
    assert err.getvalue() == "note: records before 101 were deleted because of their age\n"


def test_an_empty_log_is_valid(cli: CommandLine) -> None:
    unproven = "valid as far as can be verified without the key"
    cli.write("audit.jsonl", "")
    done = cli.run("audit", "verify", "--file", "audit.jsonl")
    assert (done.exit_code, done.stdout) == (
        0,
        f"audit.jsonl: {unproven}: no records; 0 checkpoints compared\n",
    )
