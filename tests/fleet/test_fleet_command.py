"""`toolcrib serve` and `toolcrib fleet` with the settings of a fleet, on real engines."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from tests.support.servers.serve_process import Serving, wait_until
from tests.support.system import fork_server
from tests.support.system.engines import Server

TOOLS = '''
from toolcrib import Context, tool

@tool
async def greet(name: str, ctx: Context) -> str:
    """Greet somebody, after asking how."""
    answer = await ctx.ask("how", "How?", {"type": "object", "properties": {"how": {"type": "string"}}})
    return f"{answer['how']} {name}"

@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''


class Site:
    """A folder with the settings of a fleet."""

    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        self.folder = folder
        self.variables = variables

    def run(self, *words: str) -> Any:
        return fork_server.run("-m", "toolcrib", "fleet", *words, cwd=self.folder, env=self.variables)

    def json(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def site(postgresql_server: Server, redis_server: Server, tmp_path: Path) -> Site:
    name = f"t{token_hex(4)}"
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "fleet.key").write_text("k" * 43)
    (tmp_path / "fleet.key").chmod(0o600)
    (tmp_path / "toolcrib.toml").write_text(
        f'[server]\ntargets = ["tools.py"]\n\n[fleet]\npostgres = "env:SHOP_POSTGRES"\n'
        f'redis = "env:SHOP_REDIS"\nkey_file = "fleet.key"\nname = "{name}"\nschema = "{name}"\n'
    )
    urls = {"SHOP_POSTGRES": postgresql_server.url, "SHOP_REDIS": redis_server.url}
    return Site(tmp_path, {**os.environ, **urls})


@pytest.fixture
def replicas(site: Site) -> Iterator[list[Serving]]:
    """Two replicas."""
    assert site.json("migrate")["applied"]
    with ExitStack() as stack:
        yield [stack.enter_context(Serving(cwd=site.folder, **site.variables)) for _ in range(2)]


def send(served: Serving, message: dict[str, Any], session: str | None = None) -> tuple[str | None, Any]:
    """Return the session id and the message of an answer."""
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    headers |= {} if session is None else {"mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    with urllib.request.urlopen(urllib.request.Request(served.address, body, headers), timeout=20) as answer:
        data = answer.read()
        return answer.headers.get("mcp-session-id"), json.loads(data) if data[:1] == b"{" else data


def open_session(served: Serving) -> str:
    params = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {}}
    params["clientInfo"] = {"name": "test", "version": "1"}
    session, answer = send(served, {"id": 0, "method": "initialize", "params": params})
    assert "result" in answer
    assert session is not None
    send(served, {"method": "notifications/initialized"}, session)
    return session


def test_a_session_is_served_by_any_replica(replicas: list[Serving]) -> None:
    session = open_session(replicas[0])
    for served in replicas:
        call = {"id": 1, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}}
        assert send(served, call, session)[1]["result"]["structuredContent"] == {"result": 3}


def test_an_answer_reaches_the_replica_that_asked(replicas: list[Serving]) -> None:
    session = open_session(replicas[0])
    params = {"name": "greet", "arguments": {"name": "Ana"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}).encode()
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-session-id": session,
        "mcp-protocol-version": "2025-11-25",
    }
    request = urllib.request.Request(replicas[1].address, body, headers)
    with urllib.request.urlopen(request, timeout=20) as stream:
        messages = (json.loads(line[6:]) for line in stream if line.startswith(b"data: {"))
        asked = next(messages)
        assert asked["method"] == "elicitation/create"
        answer = {"action": "accept", "content": {"how": "Hello"}}
        send(replicas[0], {"id": asked["id"], "result": answer}, session)
        assert next(messages)["result"]["content"][0]["text"] == "Hello Ana"


def test_the_status_names_every_replica_and_how_it_works(site: Site, replicas: list[Serving]) -> None:
    found = site.json("status")["replicas"]
    assert {each["pid"] for each in found} == {served.process.pid for served in replicas}
    assert {each["state"] for each in found} == {"live"}
    assert found[0]["modes"] == {"redis": "shared", "postgres": "shared"}
    assert 0 <= found[0]["seen_ms_ago"] < 10_000
    shown = site.run("status")
    assert len(re.findall(rb"  [0-9-]{10} [0-9]{2}:[0-9]{2}  [0-9.]+ s ago  ", shown.stdout)) == 2
    assert shown.stdout.count(b"redis shared, postgres shared") == 2
    assert b"2 live replicas" in shown.stderr
    url = replicas[1].address.replace("/mcp", "/ready")
    with urllib.request.urlopen(url, timeout=20) as answer:
        assert json.load(answer) == {"status": "ready", "modes": found[0]["modes"], "live": 2}


def test_a_replica_that_is_drained_ends(site: Site, replicas: list[Serving]) -> None:
    pid = replicas[0].process.pid
    (drained,) = [each["replica"] for each in site.json("status")["replicas"] if each["pid"] == pid]
    assert site.json("drain", drained[:6]) == {"draining": drained}
    wait_until(lambda: replicas[0].process.poll() is not None, lambda: replicas[0].errors)
    assert replicas[0].process.returncode == 0
    assert [each["pid"] for each in site.json("status")["replicas"]] == [replicas[1].process.pid]
    assert b"Unknown: nobody" in site.run("drain", "nobody").stderr


def test_migrating_again_changes_nothing(site: Site) -> None:
    assert site.run("migrate").returncode == 0
    done = site.run("migrate")
    assert b"are up to date" in done.stderr


def test_before_the_migration_a_replica_does_not_start(site: Site) -> None:
    done = fork_server.run("-m", "toolcrib", "serve", "--port", "0", cwd=site.folder, env=site.variables)
    assert done.returncode == 2
    assert b"PostgreSQL has no tables of toolcrib" in done.stderr
    assert b"toolcrib fleet migrate" in done.stderr
    assert b"toolcrib fleet migrate" in site.run("status").stderr


def test_without_a_fleet_the_command_says_what_to_write(tmp_path: Path) -> None:
    done = fork_server.run("-m", "toolcrib", "fleet", "status", cwd=tmp_path)
    assert done.returncode == 2
    assert b"No fleet configured" in done.stderr
    assert b"[fleet]" in done.stderr


def test_a_server_that_is_away_is_an_error_without_a_traceback(site: Site) -> None:
    variables = {**site.variables, "SHOP_POSTGRES": "postgresql:///x?host=/nowhere"}
    done = fork_server.run("-m", "toolcrib", "fleet", "status", cwd=site.folder, env=variables)
    assert done.returncode != 0
    assert b"PostgreSQL" in done.stderr
    assert b"Traceback" not in done.stderr


# --- keys and the audit log ---------------------------------------------------------------------------


@pytest.fixture
def guarded(site: Site) -> Iterator[list[Serving]]:
    """Two replicas that require keys and keep a log."""
    settings = site.folder / "toolcrib.toml"
    settings.write_text(
        settings.read_text()
        + '[auth]\nkeys = "state"\nmax_failures = "1000/s"\n\n[audit]\nfile = "audit.db"\n'
    )
    assert site.json("migrate")["applied"]
    with ExitStack() as stack:
        yield [stack.enter_context(Serving(cwd=site.folder, **site.variables)) for _ in range(2)]


def command(site: Site, *words: str) -> Any:
    return fork_server.run("-m", "toolcrib", *words, cwd=site.folder, env=site.variables)


def add(served: Serving, key: str) -> int:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    message["params"] = {"name": "add", "arguments": {"a": 1, "b": 2}}
    return served.post(message, authorization=f"Bearer {key}")[0]


def test_a_key_is_accepted_everywhere_until_the_command_that_revokes_it_returns(
    site: Site, guarded: list[Serving]
) -> None:
    made = json.loads(command(site, "keys", "create", "ana", "--json").stdout)
    key = made["secret"]
    for served in guarded:
        wait_until(lambda served=served: add(served, key) == 200, lambda served=served: served.errors)
    shown = command(site, "keys", "list").stdout
    assert b"ana" in shown
    done = command(site, "keys", "revoke", "ana")
    assert (done.returncode, b"every replica refuses it" in done.stderr) == (0, True)
    assert [add(served, key) for served in guarded] == [401, 401]


def test_the_records_of_all_replicas_are_one_log(site: Site, guarded: list[Serving]) -> None:
    key = json.loads(command(site, "keys", "create", "ana", "--json").stdout)["secret"]
    for served in guarded:
        wait_until(lambda served=served: add(served, key) == 200, lambda served=served: served.errors)
    lines = command(site, "audit", "query", "--as", "key:ana", "--json").stdout.splitlines()
    records = [json.loads(line) for line in lines]
    assert {record["tool"] for record in records} == {"add"}
    assert len({record["stream"] for record in records}) == 2
    done = command(site, "audit", "verify", "--json")
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert (verdict["is_sound"], verdict["streams"] >= 2) == (True, True)
    assert not (site.folder / "audit.db").exists()


def test_every_machine_keeps_the_log_with_checkpoints_of_its_own(
    site: Site, guarded: list[Serving], tmp_path_factory: pytest.TempPathFactory, postgresql_server: Server
) -> None:
    import psycopg

    other = Site(tmp_path_factory.mktemp("other"), site.variables)
    for name in ("tools.py", "toolcrib.toml", "fleet.key", "audit.db.key"):
        (other.folder / name).write_bytes((site.folder / name).read_bytes())
        (other.folder / name).chmod(0o600)
    key = json.loads(command(site, "keys", "create", "ana", "--json").stdout)["secret"]
    with Serving(cwd=other.folder, **other.variables) as third:
        for served in (*guarded, third):
            wait_until(lambda served=served: add(served, key) == 200, lambda served=served: served.errors)
    with psycopg.connect(postgresql_server.url) as database:
        (schema,) = (
            line for line in (site.folder / "toolcrib.toml").read_text().splitlines() if "schema" in line
        )
        table = f'"{schema.partition(" = ")[2].strip(chr(34))}".audit_record'
        for each in (site, other):
            assert command(each, "audit", "verify").returncode == 0
        database.execute(f"DELETE FROM {table} WHERE seq = 1")
        database.commit()
    for each in (site, other):
        done = command(each, "audit", "verify")
        assert (done.returncode, b"NOT valid" in done.stdout) == (1, True)
        settings = each.folder / "toolcrib.toml"
        settings.write_text(settings.read_text() + "keep_days = 90\n")  # so a replica may have removed it
        done = command(each, "audit", "verify")
        assert done.returncode == 0, done.stdout
    with Serving(cwd=other.folder, **other.variables) as third:
        wait_until(lambda: add(third, key) == 200, lambda: third.errors)
    (other.folder / "audit.db.checkpoints").write_text("not sealed\n")
    refused = command(other, "serve", "--port", "0")
    assert refused.returncode == 2
    assert b"run `toolcrib audit verify` to see what was changed; to go on, move the" in refused.stderr


def test_a_record_that_was_changed_in_the_database_is_found(
    site: Site, guarded: list[Serving], postgresql_server: Server
) -> None:
    import psycopg

    key = json.loads(command(site, "keys", "create", "ana", "--json").stdout)["secret"]
    wait_until(lambda: add(guarded[0], key) == 200, lambda: guarded[0].errors)
    schema = next(
        line for line in (site.folder / "toolcrib.toml").read_text().splitlines() if "schema" in line
    )
    with psycopg.connect(postgresql_server.url) as database:
        name = schema.partition(" = ")[2].strip('"')
        changed = f"""UPDATE "{name}".audit_record SET line = replace(convert_from(line, 'UTF8'), 'key:ana',
            'key:ben')::bytea WHERE convert_from(line, 'UTF8') LIKE '%key:ana%'"""
        assert database.execute(changed).rowcount > 0
    done = command(site, "audit", "verify")
    assert done.returncode == 1
    assert b"NOT valid" in done.stdout


@pytest.mark.parametrize("words", [["fleet", "status"], ["keys", "list"], ["serve", "--port", "0"]])
def test_without_the_extra_it_is_named(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "toolcrib.toml").write_text(
        '[server]\ntargets = ["toolcrib.samples"]\n[fleet]\npostgres = "env:HOME"\nredis = "env:HOME"\n'
        'key_file = "x"\n[auth]\nkeys = "state"\n'
    )
    blocked = "import sys; sys.modules.update(psycopg=None, cryptography=None); from toolcrib.cli import main"
    command = [sys.executable, "-c", f"{blocked}; main()", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60)
    assert done.returncode != 0
    assert b"a fleet needs" in done.stderr
    assert b"pip install 'toolcrib[fleet]'" in done.stderr


def test_the_help_needs_no_extra(tmp_path: Path) -> None:
    blocked = "import sys; sys.modules.update(psycopg=None, cryptography=None); from toolcrib.cli import main"
    for words in (["--help"], ["fleet", "--help"]):
        command = [sys.executable, "-c", f"{blocked}; main()", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60)
        assert (done.returncode, b"fleet" in done.stdout) == (0, True), done.stderr
