"""Paths in [audit] that cannot hold a log: the error names setting, place and fix."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from .conftest import ADD, CommandLine

HEAD = '[server]\ntargets = ["tools.py"]\n\n[audit]\n'
MADE = "hint: name a file that does not exist yet: it is created\n"
MAY = "hint: the user that runs the server must be able to write there\n"
WRONG = {
    'file = "junk.db"\n': ("5: audit.file: junk.db: not an audit log: it is not a SQLite file", MADE),
    'file = "junk.jsonl"\n': (
        "5: audit.file: junk.jsonl: the audit log is a SQLite file, not JSON Lines",
        'hint: use "junk.db"; for JSON Lines, run `toolcrib audit query --limit 0 --json`, with --follow '
        "for new records\n",
    ),
    'file = "other.db"\n': (
        "5: audit.file: other.db: not an audit log: it holds other tables, and no records",
        MADE,
    ),
    'file = "folder"\n': (
        "5: audit.file: folder: cannot write the audit log: Is a directory",
        'hint: name a file in it: "folder/audit.db"\n',
    ),
    'file = "junk.db/audit.db"\n': (
        "5: audit.file: junk.db/audit.db: cannot write the audit log: Not a directory: junk.db/audit.db.key",
        MAY,
    ),
    'file = "audit.db"\nkey_file = "junk.db/key"\n': (
        "6: audit.key_file: junk.db/key: cannot write the audit key: Not a directory",
        MAY,
    ),
    'file = "audit.db"\nkey_file = "folder"\n': (
        "6: audit.key_file: folder: cannot read the audit key: Is a directory",
        "",
    ),
    'file = "audit.db"\ncheckpoints = "folder"\n': (
        "6: audit.checkpoints: folder: cannot write the audit checkpoints: Is a directory",
        'hint: name a file in it: "folder/audit.checkpoints"\n',
    ),
}


@pytest.mark.parametrize("text", WRONG)
def test_an_unusable_path_is_reported_with_its_setting(cli: CommandLine, text: str) -> None:
    cli.write("tools.py", ADD)
    cli.write("junk.db", "Dear diary, this is not a database.")
    cli.write("junk.jsonl", "Dear diary.")
    make_other(cli.folder / "other.db")
    (cli.folder / "folder").mkdir()
    before = {path: path.is_file() and path.read_bytes() for path in cli.folder.iterdir()}
    (cli.folder / "toolcrib.toml").write_text(HEAD + text)
    words, hint = WRONG[text]
    for command in (("serve", "--stdio"), ("call", "add", "a=1", "b=2")):
        done = cli.run(*command, stdin="")
        assert done.stderr == f"error: toolcrib.toml:{words}\n{hint}"
        assert (done.exit_code, done.stdout) == (2, "")
    (cli.folder / "toolcrib.toml").unlink()
    if "checkpoints" not in text:  # a key and a log are made before it is looked at
        after = {path: path.is_file() and path.read_bytes() for path in cli.folder.iterdir()}
        assert {path: after[path] for path in after if path.name != "__pycache__"} == before


def test_a_file_that_is_not_a_log_is_refused_with_a_key_from_the_environment(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCRIB_AUDIT_KEY", "k" * 40)
    cli.write("tools.py", ADD)
    cli.write("junk.db", "Dear diary, this is not a database.")
    (cli.folder / "toolcrib.toml").write_text(HEAD + 'file = "junk.db"\n')
    done = cli.run("serve", "--stdio", stdin="")
    assert "audit.file: junk.db: not an audit log: it is not a SQLite file" in done.stderr


def make_other(path: Path, table: str = "pet") -> None:
    """A database of somebody else's, that keeps a journal of its own."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute(f"CREATE TABLE {table} (name TEXT)")


@pytest.mark.parametrize("table", ["pet", "record"])
def test_a_database_of_another_program_is_not_changed(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    monkeypatch.setenv("TOOLCRIB_AUDIT_KEY", "k" * 40)
    cli.write("tools.py", ADD)
    make_other(cli.folder / "other.db", table)
    before = (cli.folder / "other.db").read_bytes()
    (cli.folder / "toolcrib.toml").write_text(HEAD + 'file = "other.db"\n')
    done = cli.run("serve", "--stdio", stdin="")
    assert "audit.file: other.db: not an audit log: it holds other tables, and no records" in done.stderr
    assert done.exit_code == 2
    assert (cli.folder / "other.db").read_bytes() == before
    assert not list(cli.folder.glob("other.db?*"))


def test_a_missing_folder_is_created(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    (cli.folder / "toolcrib.toml").write_text(HEAD + 'file = "deep/down/audit.db"\n')
    cli.run("serve", "--stdio", stdin="")
    assert (cli.folder / "deep/down/audit.db").is_file()
