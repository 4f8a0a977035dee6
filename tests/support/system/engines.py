"""PostgreSQL and Redis, started in a temporary folder from the system's packages."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.system.requires import lack

START_S = 20


class Server:
    """A server process. `folder` has its Unix socket and its files, `url` is where it answers."""

    def __init__(self, folder: Path, url: str, process: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self.url = url
        self.process = process

    def pause(self) -> None:
        """Stop it, and the processes it started."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in (self.process.pid, *map(int, children)):
            os.kill(pid, number)


def find_postgresql(name: str) -> str:
    """Return the path of a program of PostgreSQL, which Debian keeps out of the PATH."""
    found = shutil.which(name) or max(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), default="")
    if not found or find_spec("psycopg") is None:
        lack("PostgreSQL or psycopg is missing: apt-get install postgresql; pip install 'toolcrib[fleet]'")
    return found


def find_redis() -> str:
    found = os.environ.get("TOOLCRIB_REDIS_BINARY") or shutil.which("redis-server")
    if not found or find_spec("hiredis") is None:
        lack("Redis or hiredis is missing: apt-get install redis-server; pip install 'toolcrib[fleet]'")
    return found


@contextmanager
def postgresql(*options: str, is_durable: bool = False) -> Iterator[Server]:
    """Run PostgreSQL. It accepts everybody who can open its socket, as `postgres`, which root becomes: it
    refuses root."""
    initdb, program = find_postgresql("initdb"), find_postgresql("postgres")
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    with _folder() as folder:
        if user:
            shutil.chown(folder, "postgres", "postgres")
        data, socket = folder / "data", folder / ".s.PGSQL.5432"
        create = [*user, initdb, "-D", str(data), "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8"]
        subprocess.run(create, check=True, stdout=subprocess.DEVNULL)
        given = ["listen_addresses=", f"unix_socket_directories={folder}", *options]
        given += [] if is_durable else ["fsync=off"]
        command = [program, "-D", str(data), *(word for option in given for word in ("-c", option))]
        url = f"postgresql:///postgres?host={folder}&user=postgres"
        with _running(
            [*user, "--pdeathsig=QUIT", *command] if user else command, folder, signal.SIGQUIT
        ) as process:
            _wait_for(socket, process)
            yield Server(folder, url, process)


@contextmanager
def redis(*options: str, at: Path | None = None) -> Iterator[Server]:
    """Run Redis, which keeps nothing; where another one was, if `at` is its folder."""
    with _folder(at) as folder:
        socket = folder / "redis"
        command = [find_redis(), "--port", "0", "--unixsocket", str(socket), "--dir", str(folder)]
        command += ["--save", "", "--daemonize", "no", *options]
        with _running(["setpriv", "--pdeathsig=TERM", *command], folder, signal.SIGTERM) as process:
            _wait_for(socket, process)
            yield Server(folder, f"unix://{socket}", process)


@contextmanager
def _folder(at: Path | None = None) -> Iterator[Path]:
    """Make a folder whose sockets have short names, which all users can enter."""
    folder = Path(tempfile.mkdtemp(prefix="toolcrib-", dir="/tmp")) if at is None else at
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _running(command: Sequence[str], folder: Path, end: signal.Signals) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.send_signal(end)
        process.wait(START_S)


def _wait_for(socket: Path, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_S
    while not socket.exists():
        log = (socket.parent / "log").read_text(errors="replace")
        assert process.poll() is None, log
        assert time.monotonic() < until, log
        time.sleep(0.01)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Server]:
    with redis() as server:
        yield server


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Server]:
    with postgresql() as server:
        yield server
