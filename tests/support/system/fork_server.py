"""Start Python programs as forks of a process that has imported toolcrib already.

    process = launch("-m", "toolcrib", "serve", "--port", "0", stdout=subprocess.PIPE)
    done = run("-m", "toolcrib", "list", "tools.py")
    command = command_of("-m", "toolcrib", "serve", "--stdio")  # for a client, which starts it

Most of what a short-lived program costs is its imports: `toolcrib list` takes 0.32 s of CPU from a new
interpreter and 0.05 s from a fork, and the tests start hundreds of them. A fork is a process like any other:
its own memory, files, environment, working directory, signals and exit status. With `libraries`, mcp and
fastmcp are imported already, too, which takes a new interpreter 2 s, and their warnings are ignored. Tests of
start-up itself, of interpreter options and of the CPU time of a whole program use `subprocess`.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

ROOT = Path(__file__).resolve().parents[3]
PRELOADED = (
    *("toolcrib.cli.serve", "toolcrib.cli.load", "toolcrib.cli.catalog", "toolcrib.policy.access"),
    *("toolcrib.policy.audit", "toolcrib.policy.auth", "toolcrib.policy.quota"),
    *("toolcrib.schema.function", "toolcrib.schema.result", "toolcrib.client"),
    *("httptools", "jsonschema_rs", "msgspec.json", "uvicorn", "uvloop"),
)
"""Imported beside the modules of the commands."""
LIBRARIES = (
    *("mcp.client.client", "mcp.server.mcpserver", "mcp.server.sse", "mcp.server.stdio"),
    *("mcp.server.streamable_http_manager", "fastmcp.server.http", "fastmcp.server.server"),
)
LIBRARY_SETTINGS = {"PYTHONWARNINGS": "ignore", "FASTMCP_CHECK_FOR_UPDATES": "off"}
MESSAGE_SIZE = 1 << 18
_CAN_FORK = hasattr(os, "pidfd_open")  # Linux only
_PROGRAM = (
    f"import sys; sys.path[0] = {str(ROOT)!r}; from tests.support.system.fork_server import serve; serve()"
)
_STARTER = """
import json, os, socket, sys
channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
channel.connect("\\0" + sys.argv[1])
status, status_end = os.pipe()
request = {"words": sys.argv[2:], "cwd": os.getcwd(), "env": dict(os.environ)}
socket.send_fds(channel, [json.dumps(request).encode()], [0, 1, 2, status_end])
channel.recv(16)
for file in (0, 1, 2, status_end):
    os.close(file)
os._exit(int(os.read(status, 16)) % 256)
"""


class Process:
    """A forked program, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, args: list[str], status: int, streams: Mapping[str, IO[Any] | None]) -> None:
        self.pid = pid
        self.args = args
        self.returncode: int | None = None
        self.stdin, self.stdout, self.stderr = (streams[name] for name in ("stdin", "stdout", "stderr"))
        self._status = status
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdout, self.stderr, self.stdin):
            if stream is not None:
                stream.close()
        self.wait()

    def __del__(self) -> None:
        if self._status >= 0:
            os.close(self._status)

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        with self._lock:
            if self.returncode is None:
                with selectors.DefaultSelector() as selector:
                    selector.register(self._status, selectors.EVENT_READ)
                    if not selector.select(timeout):
                        raise subprocess.TimeoutExpired(self.args, timeout or 0)
                self.returncode = int(os.read(self._status, 16))
                os.close(self._status)
                self._status = -1
            return self.returncode

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        """Send the input, read both streams to their ends, and wait for the end of the program."""
        read: dict[str, Any] = {}

        def drain(name: str, stream: IO[Any]) -> None:
            read[name] = stream.read()

        streams = {"stdout": self.stdout, "stderr": self.stderr}
        pairs = [pair for pair in streams.items() if pair[1] is not None]
        readers = [threading.Thread(target=drain, args=pair, daemon=True) for pair in pairs]
        for reader in readers:
            reader.start()
        if self.stdin is not None:
            try:
                if input:
                    self.stdin.write(input)
                self.stdin.close()
            except BrokenPipeError:
                pass  # it ended without reading
        self.wait(timeout)
        for reader in readers:
            reader.join()
        for _, stream in pairs:
            stream.close()
        return read.get("stdout"), read.get("stderr")

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass  # it has ended, and was waited for, in the meantime

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(
    *words: str, timeout: float | None = 120, input: Any = None, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a program to its end; the result has what it wrote on both streams."""
    stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
    process = launch(*words, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    try:
        out, errors = process.communicate(input, timeout)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.wait(), out, errors)


def launch(
    *words: str,
    stdin: int | IO[Any] | None = None,
    stdout: int | IO[Any] | None = None,
    stderr: int | IO[Any] | None = None,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    text: bool = False,
    libraries: bool = False,
) -> Any:
    """Start `python WORDS...`, where WORDS begin with `-m module`, `-c code` or a file."""
    args = [sys.executable, *words]
    environment = dict(os.environ if env is None else env)
    if libraries:
        environment.update(LIBRARY_SETTINGS)
    if not _CAN_FORK:
        return subprocess.Popen(
            args, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=environment, text=text
        )
    pipes = {
        "stdin": _Pipe.make(stdin, 0, text),
        "stdout": _Pipe.make(stdout, 1, text),
        "stderr": _Pipe.make(stderr, 2, text),
    }
    status, status_end = os.pipe()
    request = {"words": words, "cwd": str(cwd or os.getcwd()), "env": environment}
    given = [*(pipe.given for pipe in pipes.values()), status_end]
    pid = _find_server(environment, libraries).fork(request, given)
    os.close(status_end)
    for pipe in pipes.values():
        if pipe.is_closed_here:
            os.close(pipe.given)
    return Process(pid, args, status, {name: pipe.kept for name, pipe in pipes.items()})


def command_of(*words: str, libraries: bool = False) -> list[str]:
    """Return a command line that starts `python WORDS...`, for programs that start one themselves.

    It is a small program without imports of its own, which hands its streams to a fork and ends with it.
    """
    if not _CAN_FORK:
        return [sys.executable, *words]
    environment = {**os.environ, **LIBRARY_SETTINGS} if libraries else dict(os.environ)
    server = _find_server(environment, libraries)
    return [sys.executable, "-I", "-S", "-c", _STARTER, server.name, *words]


class _Pipe(NamedTuple):
    """One standard stream: the descriptor for the program, and the file that this process keeps."""

    given: int
    kept: IO[Any] | None
    is_closed_here: bool

    @classmethod
    def make(cls, wanted: int | IO[Any] | None, number: int, text: bool) -> _Pipe:
        if wanted == subprocess.PIPE:
            ours, theirs = os.pipe() if number else os.pipe()[::-1]
            mode = ("r" if number else "w") + ("" if text else "b")
            return cls(theirs, open(ours, mode, encoding="utf-8" if text else None), True)
        if wanted == subprocess.DEVNULL:
            return cls(os.open(os.devnull, os.O_RDWR), None, True)
        if wanted is None:
            return cls(number, None, False)
        return cls(wanted if isinstance(wanted, int) else wanted.fileno(), None, False)


class _Server:
    """The process that forks. It ends when this process does."""

    def __init__(self, environment: Mapping[str, str], modules: tuple[str, ...]) -> None:
        self.name = f"toolcrib-fork-server-{os.urandom(8).hex()}"  # of an abstract socket
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind("\0" + self.name)
        listener.listen()
        with theirs, listener:
            passed = [theirs.fileno(), listener.fileno()]
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *map(str, passed), *modules],
                pass_fds=passed,
                env={name: value for name, value in environment.items() if name != "PYTHONPATH"},
                stdin=subprocess.DEVNULL,
            )
        atexit.register(self.end)

    def end(self) -> None:
        self._channel.close()
        self._process.wait()

    def fork(self, request: Mapping[str, Any], files: list[int]) -> int:
        with self._lock:
            socket.send_fds(self._channel, [json.dumps(request).encode()], files)
            return int(self._channel.recv(16))


_servers: dict[tuple[frozenset[tuple[str, str]], bool], _Server] = {}
_servers_lock = threading.Lock()


def _find_server(environment: Mapping[str, str], libraries: bool) -> _Server:
    """Return the server with these variables of the interpreter, which are read once, at its start.

    Only the folders of PYTHONPATH are left to the fork.
    """
    pairs = environment.items()
    read = frozenset(pair for pair in pairs if pair[0].startswith("PYTHON") and pair[0] != "PYTHONPATH")
    key = read, libraries
    with _servers_lock:
        if key not in _servers:
            _servers[key] = _Server(environment, PRELOADED + LIBRARIES if libraries else PRELOADED)
        return _servers[key]


# --- in the process that forks -------------------------------------------------------------------------


class _Fork(NamedTuple):
    """A program that runs, the pipe for its exit status, and the connection of its starter, if it has one."""

    pid: int
    status: int
    starter: socket.socket | None


def serve() -> None:
    """Fork for every request, and report the exit status of every fork; return only in a fork."""
    channel, listener = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    places = dict(importlib.import_module("toolcrib.cli").COMMANDS)
    for name in (*sys.argv[3:], *(place.partition(":")[0] for place in places.values())):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    gc.unfreeze = lambda: None  # a fork would look at all of this when it ends, for three times as long
    selector = selectors.DefaultSelector()
    selector.register(channel, selectors.EVENT_READ)
    selector.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.data is not None:
                _end(key, selector)
                continue
            starter = listener.accept()[0] if key.fileobj is listener else None
            data, files, _, _ = socket.recv_fds(starter or channel, MESSAGE_SIZE, 4)
            if not data:
                if starter is None:
                    os._exit(0)
                continue  # it was killed before it asked
            pid = os.fork()
            if pid == 0:
                os.environ.clear()
                _become(json.loads(data), files)
                return
            fork = _Fork(pid, files[3], starter)
            selector.register(os.pidfd_open(pid), selectors.EVENT_READ, fork)
            if starter is not None:
                selector.register(starter.fileno(), selectors.EVENT_READ, fork)
            for file in files[:3]:
                os.close(file)
            (starter or channel).send(str(pid).encode())


def _end(key: selectors.SelectorKey, selector: selectors.BaseSelector) -> None:
    """Report the end of a program, or end the one whose starter was killed."""
    if selector.get_map().get(key.fd) is not key:
        return  # both ended at the same time
    fork: _Fork = key.data
    selector.unregister(key.fd)
    if fork.starter is not None and key.fd == fork.starter.fileno():
        os.kill(fork.pid, signal.SIGKILL)
        return
    os.close(key.fd)
    if fork.starter is not None:
        if fork.starter.fileno() in selector.get_map():
            selector.unregister(fork.starter.fileno())
        fork.starter.close()
    _report(fork.pid, fork.status)


def _report(pid: int, status: int) -> None:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        os.write(status, str(code).encode())
    except BrokenPipeError:
        pass  # nobody asks any more
    os.close(status)


def _become(request: dict[str, Any], files: list[int]) -> None:
    """Be the program that was asked for, as a new interpreter would."""
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    os.closerange(3, 1024)
    os.chdir(request["cwd"])
    os.environ.update(request["env"])
    sys.stdin, sys.stdout, sys.stderr = (_open_stream(number) for number in range(3))
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    folders = request["env"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [os.path.abspath(folder) for folder in folders if folder]
    kind, *words = request["words"]
    if kind == "-m":
        sys.argv, sys.path[0] = words, request["cwd"]
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv, sys.path[0] = ["-c", *words[1:]], ""
        exec(compile(words[0], "<string>", "exec"), vars(sys.modules["__main__"]))
    else:
        sys.argv, sys.path[0] = [kind, *words], str(Path(kind).parent)
        runpy.run_path(kind, run_name="__main__")


def _open_stream(number: int) -> io.TextIOWrapper:
    old = (sys.stdin, sys.stdout, sys.stderr)[number]
    buffering = 0 if isinstance(old.buffer, io.RawIOBase) else -1  # 0 by PYTHONUNBUFFERED
    return io.TextIOWrapper(
        open(number, "wb" if number else "rb", buffering, closefd=False),
        old.encoding,
        old.errors,
        line_buffering=not old.write_through and (number == 2 or os.isatty(number)),
        write_through=old.write_through,
    )
