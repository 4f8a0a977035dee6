"""Files with secrets: private from the first moment, and neither read nor written where others have a say."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tests.support.servers.serve_process import SOURCES, start
from tests.support.system import fork_server
from tests.support.system.requires import lack

NO_CHANNEL = 65534
WATCHED = """\
import os, stat, sys
from pathlib import Path

folder, group = Path(sys.argv[1]), int(sys.argv[2])
is_looking = False

def look(event, arguments):
    # Every call of the os module passes here before it is made: also one that narrows the mode of a draft.
    global is_looking
    if is_looking or not event.startswith("os."):
        return
    is_looking = True
    for entry in os.scandir(folder):
        facts = entry.stat(follow_symlinks=False)
        mode = stat.S_IMODE(facts.st_mode)
        if mode & 0o007 or mode & 0o070 and facts.st_gid != group:
            print(f"{entry.name} had mode {mode:o}, group {facts.st_gid}, at {event}")
    is_looking = False

os.umask(0)  # so that everybody gets what no mode forbids
sys.addaudithook(look)
"""
WRITERS = {
    "the keys file": """\
from toolcrib.policy.auth.api_keys import KeyFile, create_key
from toolcrib.state.base import run_now
run_now(create_key(KeyFile(folder / "keys.json"), "ana"))
run_now(KeyFile(folder / "keys.json").revoke("ana"))
""",
    "the key of an audit log": """\
from toolcrib.policy.audit.checkpoints import create_key
create_key(folder / "audit.db", None)
""",
    "an audit log": """\
from toolcrib.policy.audit.writer import RecordWriter
from toolcrib.policy import Audit
import time
writer = RecordWriter(Audit(folder / "audit.db"), server="shop", wall=time.time, now=time.monotonic)
writer.write(())
writer.close()
""",
    "a client's configuration": """\
from toolcrib.cli.connect import edit as store
path = folder / "config.json"
store.write(store.read(path), "{}", 0o600)
store.write(store.read(path), "[]", 0o600)
""",
    "a configuration for a group": """\
from toolcrib.cli.connect import edit as store
path = folder / "config.json"
os.close(os.open(path, os.O_CREAT, 0o600))
os.chown(path, -1, group)
os.chmod(path, 0o640)
store.write(store.read(path), "[]", 0o600)
""",
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_with_secrets_is_at_no_moment_open_to_others(tmp_path: Path, name: str) -> None:
    """Whoever opens a draft while its mode is too wide keeps a descriptor of the final file."""
    if "group" in name and os.geteuid() != 0:
        lack("only root can give a file to any group")
    done = fork_server.run(
        *("-c", f"{WATCHED}\n{WRITERS[name]}", str(tmp_path), str(NO_CHANNEL)),
        env={**os.environ, "PYTHONPATH": SOURCES, "PYTHONUTF8": "1"},
        text=True,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    assert any(tmp_path.iterdir())


# --- files that belong to somebody else ---


def keys(folder: Path, *arguments: str) -> tuple[int, str]:
    """The exit code of `toolcrib keys`, and everything it said."""
    process = start("keys", *arguments, cwd=folder)
    said = "".join(process.communicate())
    return process.returncode, said


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder whose keys file holds one key."""
    (tmp_path / "toolcrib.toml").write_text(
        '[server]\ntargets = ["tools.py:hello"]\n[auth]\nkeys = "keys.json"\n'
    )
    (tmp_path / "tools.py").write_text('def hello() -> str:\n    """Greet."""\n    return "hello"\n')
    code, said = keys(tmp_path, "create", "ana")
    assert code == 0, said
    return tmp_path


def give_away(path: Path) -> None:
    if os.geteuid() != 0:
        lack("only root can give a file to another user")
    os.chown(path, NO_CHANNEL, NO_CHANNEL)


@pytest.mark.parametrize("command", [["list"], ["create", "bo"], ["revoke", "ana"]], ids=lambda each: each[0])
def test_a_keys_file_of_another_user_is_refused_by_the_command_line(shop: Path, command: list[str]) -> None:
    path = shop / "keys.json"
    give_away(path)
    before = path.read_bytes()
    code, said = keys(shop, *command)
    assert code != 0
    assert "belongs to another user (nobody, uid 65534)" in said
    assert "chown root keys.json" in said
    assert (path.read_bytes(), path.stat().st_uid) == (before, NO_CHANNEL)


def test_a_keys_file_of_another_user_keeps_a_server_from_starting(shop: Path) -> None:
    give_away(shop / "keys.json")
    process = start("serve", "--port", "0", cwd=shop)
    said = "".join(process.communicate(timeout=60))
    assert process.returncode not in (0, None)
    assert "belongs to another user (nobody, uid 65534)" in said


# --- the lock beside it ---


@pytest.mark.parametrize("is_there", [False, True], ids=["to nothing", "to a file"])
def test_a_planted_link_in_place_of_the_lock_is_refused(shop: Path, tmp_path: Path, is_there: bool) -> None:
    lock, target = shop / ".keys.json.lock", tmp_path / "target"
    lock.unlink()
    lock.symlink_to(target)
    if is_there:
        target.write_text("precious")
    for command in (["create", "bo"], ["revoke", "ana"]):
        code, said = keys(shop, *command)
        assert code != 0
        assert "its lock .keys.json.lock is a symbolic link" in said
    assert target.exists() == is_there
    assert not is_there or target.read_text() == "precious"
    assert [each["name"] for each in json.loads(keys(shop, "list", "--json")[1])["keys"]] == ["ana"]


def test_a_lock_of_another_user_is_refused(shop: Path) -> None:
    give_away(shop / ".keys.json.lock")
    code, said = keys(shop, "create", "bo")
    assert code != 0
    assert "its lock .keys.json.lock belongs to another user (nobody, uid 65534)" in said


def test_the_lock_is_a_plain_file(shop: Path) -> None:
    lock = shop / ".keys.json.lock"
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    lock.unlink()
    os.mkfifo(lock, 0o600)
    code, said = keys(shop, "create", "bo")
    assert code != 0
    assert "its lock .keys.json.lock is not a regular file" in said
