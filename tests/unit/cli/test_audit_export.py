"""`toolcrib audit export`: complete files, or none."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
from pathlib import Path

import pytest

from tests.support.recorded_calls import CALLS, record
from toolcrib.cli.audit import COLUMNS
from toolcrib.policy.audit import open_log

from .conftest import CommandLine


@pytest.fixture
def log(cli: CommandLine) -> str:
    record(
        "audit.db", [*CALLS, {"principal": "key:ä", "tool": "=1+1", "outcome": "ok", "values": {"x": "é"}}]
    )
    cli.write("toolcrib.toml", '[audit]\nfile = "audit.db"\n')
    return "audit.db"


def test_an_export_to_json_lines_can_be_verified(cli: CommandLine, log: str) -> None:
    done = cli.run("audit", "export", "--to", "jsonl", "-o", "out.jsonl")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "note: 8 records written to out.jsonl\n"
    assert Path("out.jsonl").stat().st_mode & 0o777 == 0o600
    verdict = open_log("out.jsonl", "audit.db.key", "audit.db.checkpoints").verify()
    assert verdict.is_sound
    assert verdict.proven_through == 8
    assert sorted(path.name for path in Path().iterdir() if path.name.startswith(".")) == []


def test_without_a_file_records_go_to_standard_output(cli: CommandLine, log: str) -> None:
    done = cli.run("audit", "export", "--to", "jsonl")
    assert done.stderr == ""
    cli.run("audit", "export", "--to", "jsonl", "-o", "out.jsonl")
    assert done.stdout == Path("out.jsonl").read_text()


def test_filters_apply_to_exports(cli: CommandLine, log: str) -> None:
    done = cli.run("audit", "export", "--to", "jsonl", "--tool", "refund", "--outcome", "cancelled")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ["c2"]


def test_csv_has_all_fields_and_no_formulas(cli: CommandLine, log: str) -> None:
    cli.run("audit", "export", "--to", "csv", "-o", "out.csv")
    rows = list(csv.DictReader(io.StringIO(Path("out.csv").read_text(), newline="")))
    assert list(rows[0]) == list(COLUMNS)
    assert [row["seq"] for row in rows] == ["1", "2", "3", "4", "5", "6", "7", "8"]
    assert json.loads(rows[0]["more"])["server"] == "shop"
    assert rows[0]["tool"] == ""
    assert (rows[1]["principal"], rows[1]["duration_ms"], rows[1]["more"]) == ("local", "1.25", "")
    assert rows[5]["values"] == '{"amount": 5}'
    assert (rows[6]["principal"], rows[6]["tool"], rows[6]["values"]) == ("key:ä", "'=1+1", '{"x": "é"}')


@pytest.mark.parametrize("text", ["=a", "+a", "-a", "@a", "\ta"])
def test_texts_that_look_like_formulas_are_quoted(cli: CommandLine, text: str) -> None:
    record("audit.db", [{"principal": text, "tool": "add", "outcome": "ok"}])
    done = cli.run("audit", "export", "--to", "csv", "--file", "audit.db", "--tool", "add")
    [_, row] = csv.reader(io.StringIO(done.stdout, newline=""))
    assert row[COLUMNS.index("principal")] == f"'{text}"


def test_json_output_says_what_was_written(cli: CommandLine, log: str) -> None:
    found = cli.json("audit", "export", "--to", "csv", "-o", "out.csv", "--json")
    expected = {"file": str(Path(log).resolve()), "output": "out.csv", "form": "csv", "records": 8}
    assert found == expected
    done = cli.run("audit", "export", "--to", "csv", "--json")
    assert done.exit_code == 2
    assert done.stderr == ("error: --json requires --output\nhint: --json prints what was written\n")


def test_a_format_is_required(cli: CommandLine, log: str) -> None:
    assert cli.run("audit", "export").exit_code == 2
    assert cli.run("audit", "export", "--to", "xml").exit_code == 2


def test_the_log_cannot_be_overwritten(cli: CommandLine, log: str) -> None:
    before = Path(log).read_bytes()
    done = cli.run("audit", "export", "--to", "csv", "-o", f"./{log}")
    assert done.exit_code == 2
    assert done.stderr == "error: Cannot overwrite the audit log\nhint: choose another name for --output\n"
    assert Path(log).read_bytes() == before


def test_an_existing_file_is_replaced(cli: CommandLine, log: str) -> None:
    cli.write("out.csv", "old")
    cli.run("audit", "export", "--to", "csv", "-o", "out.csv")
    assert Path("out.csv").read_text().startswith("seq,at,")


def test_a_device_is_not_replaced(cli: CommandLine, log: str) -> None:
    done = cli.run("audit", "export", "--to", "csv", "-o", "/dev/null")
    assert done.exit_code == 2
    assert done.stderr == "error: /dev/null is not a file\nhint: omit --output for stdout\n"
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize(
    ("name", "words"), [("nodir/x", "No such file or directory"), ("audit.db/x", "Not a directory")]
)
def test_an_unwritable_path_is_an_error(cli: CommandLine, log: str, name: str, words: str) -> None:
    done = cli.run("audit", "export", "--to", "csv", "-o", name)
    assert done.exit_code == 2
    assert done.stderr == f"error: Cannot write {name}: {words}\n"


def test_a_full_disk_leaves_the_old_file(cli: CommandLine, log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.write("out.csv", "old")

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    done = cli.run("audit", "export", "--to", "csv", "-o", "out.csv")
    assert done.exit_code == 2
    assert done.stderr == "error: Cannot write out.csv: No space left on device\n"
    assert Path("out.csv").read_text() == "old"
