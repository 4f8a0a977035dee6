"""`toolcrib keys`: create, list and revoke."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.records.key_files import Keys
from toolcrib.policy.auth.api_keys import is_complete_key, state_of

from .conftest import CommandLine

SETTINGS = """
    [server]
    name = "shop"

    [http]
    host = "::1"
    port = 9000
    path = "/tools"

    [auth]
    keys = "secret/keys.json"
"""
NOWHERE_NAMED = """\
note: no toolcrib.toml in this folder uses toolcrib.keys.json yet
hint: to require keys, add this to toolcrib.toml:
    [auth]
    keys = "toolcrib.keys.json"
or in code: Policy(auth=Auth(keys="toolcrib.keys.json"))
"""


def create(cli: CommandLine, *words: str) -> str:
    done = cli.run("keys", "create", *words)
    assert done.exit_code == 0, done.stderr
    return done.stdout.strip()


def listed(cli: CommandLine, *words: str) -> Any:
    return cli.json("keys", "list", "--json", *words)["keys"]


# --- create ---


def test_only_the_key_goes_to_stdout(cli: CommandLine) -> None:
    done = cli.run("keys", "create", "ana", "--scope", "orders:read", "--scope", "b", "--role", "support")
    assert done.exit_code == 0
    secret = done.stdout.removesuffix("\n")
    assert is_complete_key(secret)
    [key] = Keys("toolcrib.keys.json").entries()
    assert key.expires_ms is not None
    day = time.strftime("%Y-%m-%d", time.gmtime(key.expires_ms / 1000))
    assert abs(key.expires_ms - key.created_ms - 90 * 86_400_000) < 2000
    assert done.stderr == (
        f"note: key 'ana' ({key.id}) added to toolcrib.keys.json; expires: {day} UTC\n"
        "note: scopes: orders:read, b\n"
        "note: roles: support\n"
        "note: the key is not stored and cannot be shown again: keep it in a safe place\n"
        "note: clients send it as `Authorization: Bearer KEY` or `X-API-Key: KEY`; example:\n"
        '    "toolcrib": {"type": "http", "url": "http://127.0.0.1:8000/mcp", '
        '"headers": {"Authorization": "Bearer KEY"}}\n' + NOWHERE_NAMED
    )
    assert secret not in done.stderr


def test_the_configured_key_file_is_used(cli: CommandLine) -> None:
    cli.write("toolcrib.toml", SETTINGS)
    done = cli.run("keys", "create", "ana", "--expires", "never")
    assert done.exit_code == 0
    [key] = Keys("secret/keys.json").entries()
    assert done.stderr == (
        f"note: key 'ana' ({key.id}) added to secret/keys.json; expires: never\n"
        "note: the key is not stored and cannot be shown again: keep it in a safe place\n"
        "note: clients send it as `Authorization: Bearer KEY` or `X-API-Key: KEY`; example:\n"
        '    "shop": {"type": "http", "url": "http://[::1]:9000/tools", '
        '"headers": {"Authorization": "Bearer KEY"}}\n'
    )
    assert not Path("toolcrib.keys.json").exists()


def test_a_given_file_overrides_the_configuration(cli: CommandLine) -> None:
    cli.write("toolcrib.toml", SETTINGS)
    done = cli.run("keys", "create", "ana", "--file", "other.json")
    assert [key["name"] for key in listed(cli, "--file", "other.json")] == ["ana"]
    assert "note: no toolcrib.toml in this folder uses other.json yet\n" in done.stderr
    assert not Path("secret").exists()
    done = cli.run("keys", "create", "ana", "--file", "./secret/../secret/keys.json")
    assert "names" not in done.stderr


def test_an_invalid_configuration_is_an_error(cli: CommandLine) -> None:
    cli.write("toolcrib.toml", "[auth]\nkey = 'x'\n")
    done = cli.run("keys", "create", "ana")
    assert done.exit_code == 2
    assert "toolcrib.toml" in done.stderr
    assert not Path("toolcrib.keys.json").exists()


def test_programs_get_json(cli: CommandLine) -> None:
    done = cli.run("keys", "create", "ana", "--json", "--expires", "2999-01-01")
    found = json.loads(done.stdout)
    assert is_complete_key(found["secret"])
    assert found["file"] == "toolcrib.keys.json"
    assert found["key"] == listed(cli)[0]
    assert found["key"]["expires"] == "2999-01-01T00:00:00Z"
    assert "hash" not in found["key"]
    assert done.stderr == NOWHERE_NAMED


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--expires", "soon"],
            "error: Invalid value for '--expires': 'soon': use a time such as 30d, 12h, ",
        ),
        (["--expires", "5x"], "error: Invalid value for '--expires': '5x': use"),
        (["--expires", "999999999y"], "error: Invalid value for '--expires': '999999999y': use"),
        (
            ["--expires", "2020-01-01"],
            "error: The time of --expires is in the past\nhint: use a duration or a date",
        ),
        (["--expires", "0d"], "error: The time of --expires is in the past\n"),
        (["--scope", "a b"], "error: invalid scope or role 'a b': no spaces, quotes or backslashes\n"),
    ],
)
def test_invalid_options_create_no_key(cli: CommandLine, words: list[str], said: str) -> None:
    done = cli.run("keys", "create", "ana", *words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(said)
    assert not Path("toolcrib.keys.json").exists()


def test_a_taken_name_is_refused_with_a_hint(cli: CommandLine) -> None:
    create(cli, "ana", "--file", "k k.json")
    done = cli.run("keys", "create", "ana", "--file", "k k.json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "error: an active key 'ana' exists already\n"
        "hint: choose another name, or revoke that key: toolcrib keys revoke ana --file 'k k.json'\n"
    )


def test_a_key_that_could_not_be_printed_is_revoked(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object, text: str) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("toolcrib.cli.output.Terminal.echo", fail)
    assert cli.run("keys", "create", "ana").exit_code == 1
    assert [state_of(key, 0) for key in Keys("toolcrib.keys.json").entries()] == ["revoked"]


# --- list ---


def test_keys_are_listed_with_scopes_roles_and_expiry(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    create(cli, "ana", "--scope", "read", "--scope", "write", "--role", "support", "--expires", "2999-01-01")
    create(cli, "bo", "--expires", "never")
    cli.run("keys", "revoke", "bo")
    done = cli.run("keys", "list")
    assert (done.exit_code, done.stderr) == (0, "")
    [heading, first, second] = [re.split(r"  +", line) for line in done.stdout.splitlines()]
    ana, bo = Keys("toolcrib.keys.json").entries()
    today = time.strftime("%Y-%m-%d", time.gmtime(ana.created_ms / 1000))
    assert heading == ["NAME", "ID", "KEY", "SCOPES", "ROLES", "CREATED", "EXPIRES", "STATE"]
    assert first == [
        "ana",
        ana.id,
        f"{ana.prefix}...",
        "read, write",
        "support",
        today,
        "2999-01-01",
        "active",
    ]
    assert second == ["bo", bo.id, f"{bo.prefix}...", "-", "-", today, "never", "revoked"]


def test_a_key_that_expires_soon_is_listed_with_the_time(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    create(cli, "ana", "--expires", "3h")
    [key] = Keys("toolcrib.keys.json").entries()
    assert (
        time.strftime("%Y-%m-%d %H:%M", time.gmtime((key.expires_ms or 0) / 1000))
        in cli.run("keys", "list").stdout
    )


def test_a_missing_file_is_an_error(cli: CommandLine) -> None:
    done = cli.run("keys", "list")
    assert done.exit_code == 2
    assert done.stderr == (
        "error: toolcrib.keys.json: no such file\n"
        "hint: create a key: toolcrib keys create NAME --file toolcrib.keys.json\n"
    )


def test_a_file_that_others_can_read_is_refused_with_a_fix(cli: CommandLine) -> None:
    create(cli, "ana")
    os.chmod("toolcrib.keys.json", 0o644)
    done = cli.run("keys", "list")
    assert done.exit_code == 2
    assert done.stderr.endswith("hint: chmod 600 toolcrib.keys.json\n")


# --- revoke ---


def test_a_key_is_revoked_by_its_name(cli: CommandLine) -> None:
    create(cli, "ana")
    [key] = listed(cli)
    done = cli.run("keys", "revoke", "ana")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == (f"note: revoked 'ana' ({key['id']}); running servers refuse it within a second\n")
    assert listed(cli)[0]["state"] == "revoked"
    done = cli.run("keys", "revoke", "ana")
    assert (done.exit_code, done.stderr) == (0, "note: already revoked\n")


def test_a_key_is_revoked_by_its_id_or_by_itself(cli: CommandLine) -> None:
    secret = create(cli, "ana")
    create(cli, "bo")
    found = cli.json("keys", "revoke", listed(cli)[1]["id"], "--json")
    assert [key["name"] for key in found["revoked"]] == ["bo"]
    assert found["revoked"][0]["state"] == "revoked"
    assert cli.run("keys", "revoke", secret).exit_code == 0
    assert [key["state"] for key in listed(cli)] == ["revoked", "revoked"]
    assert cli.json("keys", "revoke", "bo", "--json") == {"file": "toolcrib.keys.json", "revoked": []}


def test_a_misspelt_name_gets_a_suggestion(cli: CommandLine) -> None:
    create(cli, "ana")
    create(cli, "gone")
    cli.run("keys", "revoke", "gone")
    done = cli.run("keys", "revoke", "anna")
    assert done.exit_code == 2
    assert done.stderr == "error: Unknown key: anna\nhint: did you mean 'ana'?\n"
    assert cli.run("keys", "revoke", "zzz").stderr.endswith("hint: available: ana\n")
    cli.run("keys", "revoke", "ana")
    done = cli.run("keys", "revoke", "zzz")
    assert done.stderr.endswith("hint: toolcrib.keys.json has no active key\n")


def test_an_incomplete_key_and_an_unknown_key_have_different_errors(cli: CommandLine) -> None:
    secret = create(cli, "ana")
    other = create(cli, "ana", "--file", "other.json")
    done = cli.run("keys", "revoke", secret[:-1])
    assert done.exit_code == 2
    assert done.stderr == ("error: Incomplete or mistyped key\nhint: give its name, or the whole key\n")
    done = cli.run("keys", "revoke", other)
    assert done.exit_code == 2
    assert done.stderr == ("error: This key is not in toolcrib.keys.json\nhint: try another file: --file\n")
    assert other not in done.stderr


# --- in the database of the state ---


def test_keys_may_be_in_the_database_of_the_state(cli: CommandLine) -> None:
    cli.write("toolcrib.toml", '[auth]\nkeys = "state"\n\n[state]\nurl = "sqlite:///state.db"\n')
    secret = create(cli, "ana", "--scope", "read")
    assert is_complete_key(secret)
    taken = cli.run("keys", "create", "ana")
    assert (taken.exit_code, "an active key 'ana' exists already" in taken.stderr) == (2, True)
    [key] = listed(cli)
    assert (key["name"], key["scopes"], key["state"]) == ("ana", ["read"], "active")
    assert secret not in Path("state.db").read_bytes().decode("latin-1")
    assert "revoked 'ana'" in cli.run("keys", "revoke", secret).stderr
    assert "already revoked" in cli.run("keys", "revoke", "ana").stderr
    assert [each["state"] for each in listed(cli)] == ["revoked"]
    assert not Path("toolcrib.keys.json").exists()


@pytest.mark.parametrize("url", ["", '\n[state]\nurl = "memory:"\n'])
def test_keys_in_the_state_need_a_database(cli: CommandLine, url: str) -> None:
    cli.write("toolcrib.toml", f'[auth]\nkeys = "state"\n{url}')
    done = cli.run("keys", "list")
    assert done.exit_code == 2
    assert 'auth.keys: "state" needs a database' in done.stderr
