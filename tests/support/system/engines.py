"""PostgreSQL and Redis, started in a temporary folder from the system's packages.

`python dev.py fleet` and the benchmark use this too, so it needs no test library.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

START_S = 20


class MissingServerError(RuntimeError):
    """A server or its driver is not installed."""


class Server:
    """A server process. `folder` has its files and its Unix socket, `url` is where it answers."""

    def __init__(
        self, folder: Path, url: str, socket: Path, command: Sequence[str], end: signal.Signals
    ) -> None:
        self.folder = folder
        self.url = url
        self._socket = socket
        self._command = command
        self._end = end
        self.start()

    def start(self) -> None:
        """Start it; after a kill, where it was."""
        for left in (self._socket, self._socket.with_name(f"{self._socket.name}.lock")):
            left.unlink(missing_ok=True)
        log = self.folder / "log"
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                self._command, stdout=output, stderr=output, start_new_session=True
            )
        until = time.monotonic() + START_S
        while "ready to accept" not in log.read_text(errors="replace"):
            assert self.process.poll() is None, log.read_text(errors="replace")
            assert time.monotonic() < until, log.read_text(errors="replace")
            time.sleep(0.01)

    def stop(self) -> None:
        self.resume()
        self.process.send_signal(self._end)
        self.process.wait(START_S)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self.process.wait(START_S)

    def pause(self) -> None:
        """Stop it, and the processes it started."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.process.poll() is not None:
            return
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in (self.process.pid, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def find_postgresql(name: str) -> str:
    """Return the path of a program of PostgreSQL, which Debian keeps out of the PATH."""
    found = shutil.which(name) or max(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), default="")
    if not found or find_spec("psycopg") is None:
        raise MissingServerError(
            "PostgreSQL or psycopg is missing: apt-get install postgresql; pip install 'toolcrib[fleet]'"
        )
    return found


def find_redis() -> str:
    found = os.environ.get("TOOLCRIB_REDIS_BINARY") or shutil.which("redis-server")
    if not found or find_spec("hiredis") is None:
        raise MissingServerError(
            "Redis or hiredis is missing: apt-get install redis-server; pip install 'toolcrib[fleet]'"
        )
    return found


@contextmanager
def postgresql(*options: str, is_durable: bool = False, standby_of: Server | None = None) -> Iterator[Server]:
    """Run PostgreSQL, which accepts everybody. Root becomes `postgres`, as it refuses root."""
    program = find_postgresql("postgres")
    user = as_postgres()
    with _folder() as folder:
        if user:
            shutil.chown(folder, "postgres", "postgres")
        data = str(folder / "data")
        if standby_of is None:
            create = [find_postgresql("initdb"), "-D", data, "-A", "trust", "-U", "postgres", "--no-sync"]
            create += ["-E", "UTF8"]
        else:
            create = [find_postgresql("pg_basebackup"), "-D", data, "-h", str(standby_of.folder)]
            create += ["-U", "postgres", "--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
        subprocess.run([*user, *create], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        given = ["listen_addresses=", f"unix_socket_directories={folder}", *options]
        given += [] if is_durable else ["fsync=off"]
        command = [*(user or ["setpriv"]), "--pdeathsig=QUIT", program, "-D", data]
        command += [word for option in given for word in ("-c", option)]
        url = f"postgresql:///postgres?host={folder}&user=postgres"
        server = Server(folder, url, folder / ".s.PGSQL.5432", command, signal.SIGQUIT)
        try:
            yield server
        finally:
            server.stop()


def as_postgres() -> list[str]:
    """Return what a command begins with that runs as `postgres`, where this process is root."""
    identity = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    return identity if os.geteuid() == 0 else []


@contextmanager
def redis(*options: str) -> Iterator[Server]:
    """Run Redis, which keeps nothing."""
    with _folder() as folder:
        socket = folder / "redis"
        command = ["setpriv", "--pdeathsig=TERM", find_redis(), "--port", "0", "--unixsocket", str(socket)]
        command += ["--dir", str(folder), "--save", "", "--daemonize", "no", *options]
        server = Server(folder, f"unix://{socket}", socket, command, signal.SIGTERM)
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def _folder() -> Iterator[Path]:
    """Make a folder whose sockets have short names, which all users can enter."""
    folder = Path(tempfile.mkdtemp(prefix="toolcrib-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
