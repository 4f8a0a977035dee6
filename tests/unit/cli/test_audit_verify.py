"""`toolcrib audit verify`: verdicts, problems and notes."""

from __future__ import annotations

import io
import json
import os
import sqlite3
from pathlib import Path

import pytest

from tests.support.records.audit_logs import read_streams, replace_lines
from tests.support.records.recorded_calls import CALLS, record
from toolcrib.cli import audit as module
from toolcrib.cli.output import Terminal
from toolcrib.config.settings import Audit
from toolcrib.policy.audit import Verdict

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
    assert done.stdout == f"{log}: valid: 7 records in 1 stream; 2 checkpoints compared\n"


def test_programs_get_the_verdict_as_json(cli: CommandLine, log: str) -> None:
    found = cli.json("audit", "verify", "--json")
    assert len(found.pop("proven_at")) == 24
    assert found == {
        "file": str(Path(log).resolve()),
        "is_sound": True,
        "records": 7,
        "streams": 1,
        "removed": 0,
        "checkpoints_checked": 2,
        "problems": [],
        "is_keyed": True,
        "unsealed": 0,
    }


def flip(log: str, seq: int, old: str, new: str) -> None:
    """Change a word of one record."""
    with sqlite3.connect(log) as database:
        change = "UPDATE record SET line = replace(line, ?, ?) WHERE key & 255 = ?"
        database.execute(change, (old, new, seq))
    database.close()


def test_a_changed_record_is_reported(cli: CommandLine, log: str) -> None:
    flip(log, 4, "refund", "refuse")
    [stream] = read_streams(Path(log))
    done = cli.run("audit", "verify")
    assert (done.exit_code, done.stderr) == (1, "")
    assert done.stdout == (
        f"{log}: NOT valid: 7 records in 1 stream; 2 checkpoints compared\n"
        f"  edited: record 4 of stream {stream} does not match the one before it: one of them was changed\n"
    )
    found = cli.run("audit", "verify", "--json")
    assert found.exit_code == 1
    [problem] = json.loads(found.stdout)["problems"]
    assert (problem["stream"], problem["seq"], problem["kind"]) == (stream, 4, "edited")


def test_a_deleted_log_is_not_valid(cli: CommandLine, log: str) -> None:
    [stream] = read_streams(Path(log))
    Path(log).unlink()
    done = cli.run("audit", "verify")
    assert (done.exit_code, done.stderr) == (1, "")
    assert done.stdout == (
        f"{log}: NOT valid: no records; 0 checkpoints compared\n"
        f"  truncated: records 1 to 7 of stream {stream} are missing at the end\n"
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
    state = f"valid up to the last checkpoint ({at})"
    assert done.stdout == f"{log}: {state}: 14 records in 2 streams; 2 checkpoints compared\n"
    not_sealed = "not signed yet: someone who can write the file could have made them"
    assert done.stderr == f"note: 7 records after the last checkpoint {not_sealed}\n"
    seals.write_bytes(early.splitlines(keepends=True)[0])  # of the empty log
    done = cli.run("audit", "verify")
    assert done.stdout == f"{log}: not signed yet: 14 records in 2 streams; 0 checkpoints compared\n"
    assert done.stderr == f"note: 14 records {not_sealed}\n"
    seals.write_bytes(late)
    Path("copy").write_bytes(late.splitlines(keepends=True)[-1])
    done = cli.run("audit", "verify", "--checkpoints", "copy")
    assert (done.stderr, done.stdout.split(": ")[1]) == ("", "valid")
    assert cli.run("audit", "verify", "--checkpoints", "nowhere").exit_code == 2


def test_a_copy_of_the_checkpoints_reveals_truncation(cli: CommandLine, log: str) -> None:
    seals, path = Path(f"{log}.checkpoints"), Path(log)
    early = seals.read_bytes()
    record(log, CALLS)
    Path("copy").write_bytes(seals.read_bytes())
    seals.write_bytes(early)
    replace_lines(path, [], 2)
    assert cli.run("audit", "verify").stdout.split(": ")[1] == "valid"
    done = cli.run("audit", "verify", "--checkpoints", "copy")
    assert done.exit_code == 1
    assert "  forged: checkpoint 4, which the copy has, is missing\n" in done.stdout
    assert f"  truncated: records 1 to 7 of stream {read_streams(path)[1]} are missing" in done.stdout


def test_key_file_and_checkpoints_of_the_configuration_are_used(cli: CommandLine) -> None:
    options = {"key_file": "safe/key", "checkpoints": "safe/seals"}
    record("audit.db", CALLS, **options)
    cli.write(
        "toolcrib.toml", '[audit]\nfile = "audit.db"\nkey_file = "safe/key"\ncheckpoints = "safe/seals"\n'
    )
    for words in ([], ["--file", "./audit.db"]):
        found = cli.json("audit", "verify", "--json", *words)
        assert (found["is_keyed"], found["unsealed"]) == (True, 0)
    os.rename("audit.db", "copy.db")
    assert cli.json("audit", "verify", "--json", "--file", "copy.db")["is_keyed"] is False


def test_records_deleted_by_retention_are_noted() -> None:
    out, err = io.StringIO(), io.StringIO()
    verdict = Verdict(True, 900, 1, 100, 2, [], True, 0, "2026-05-04T10:00:00.000Z")
    module._print_verdict(Audit("audit.db"), verdict, Terminal(out, err, debug=False))
    assert out.getvalue() == "audit.db: valid: 900 records in 1 stream; 2 checkpoints compared\n"
    assert err.getvalue() == "note: 100 records were removed because of their age\n"


def test_an_empty_log_is_valid(cli: CommandLine) -> None:
    cli.write("audit.db", "")
    done = cli.run("audit", "verify", "--file", "audit.db")
    state = "valid as far as can be verified without the key"
    assert (done.exit_code, done.stdout) == (0, f"audit.db: {state}: no records; 0 checkpoints compared\n")
