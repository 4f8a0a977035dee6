"""Worker processes for code that must be killable: one call at a time each, reused, killed when late.

A worker is a plain child process that runs `process_worker.py`. A thread sends it a call through its pipes
and waits for the reply. multiprocessing is not used: its children inherit standard input, load the main
script whether it is needed or not, and may print before they are silenced, while the parent speaks a
protocol there.

Calls are sent as pickles. The code of a tool runs in the worker and can write to its pipe, so replies are
untrusted: they are JSON, and nothing that comes back is unpickled.
"""

from __future__ import annotations

import logging
import os
import pickle  # for sending only, never for reading
import subprocess  # no shell is used
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolcrib import errors
from toolcrib.dispatch import process_worker
from toolcrib.dispatch.failures import Raised
from toolcrib.errors import (
    APIError,
    CallError,
    InvalidResultError,
    InvalidToolError,
    ToolBusyError,
    ToolCrashedError,
)
from toolcrib.processes import HAS_GROUPS, KILL, signal_group
from toolcrib.validation import codec

logger = logging.getLogger("toolcrib")

PROGRAM = Path(__file__).with_name("process_worker.py")
MAX_REPLY_BYTES = 64 * 1024 * 1024
"""A longer reply ends the worker: useful results and errors are far shorter."""

Converter = Callable[[Any], bytes]
"""Makes JSON of a value in the worker. It is sent there, so it has to be picklable."""


def read_reply(reply: bytes) -> Any:
    """Return the value of a reply, or raise the error that the tool has raised, as `Raised`. Raises
    LookupError, TypeError or ValueError where the reply is malformed."""
    kind, data = reply[:1], codec.decode(reply[1:])
    if kind == process_worker.VALUE:
        return data
    if kind == process_worker.ERROR:
        raise Raised(_rebuild_error(data))
    raise ValueError("unknown kind of reply")


_CALL_ERRORS = {
    f"{kind.__module__}.{kind.__qualname__}": kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, CallError)
}


def _rebuild_error(sent: Any) -> BaseException:
    """Return an error like the one raised in a worker: of the same class where that is a CallError, else of a
    class that only has its name."""
    kinds, text, trace = sent["kinds"], str(sent["text"]), str(sent["trace"])
    kind = next((_CALL_ERRORS[name] for name in kinds if name in _CALL_ERRORS), None)
    error: BaseException
    if kind is APIError:
        attributes = {name: sent[name] for name in ("status", "body", "reached") if name in sent}
        error = APIError(text, **attributes)
    elif kind is not None:
        error = kind(text, details=sent.get("details"))
    else:
        name = str(kinds[0]).rpartition(".")[2]
        error = type(name if name.isidentifier() else "Exception", (Exception,), {})(text)
    error.add_note(f"raised in another process:\n{trace}")
    return error


class ProcessPool:
    """The worker processes of one runner, at most `limit`."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit or max(4, os.cpu_count() or 1)
        self._changed = threading.Condition()
        self._workers: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self.is_closed = False

    def take(self, call: ProcessCall) -> _Worker | None:
        """Return an idle worker or a new one; None when the call was given up while it waited for one."""
        with self._changed:
            while not (self._idle or len(self._workers) < self._limit or call.is_killed or self.is_closed):
                self._changed.wait()
            if self.is_closed:
                raise ToolBusyError(f"Tool '{call.name}' cannot run: the server is closing.")
            if call.is_killed:
                return None
            worker = self._idle.pop() if self._idle else _Worker()
            self._workers.add(worker)
            return worker

    def give_back(self, worker: _Worker) -> None:
        if self.is_closed:
            worker.kill()
        worker.clean_up()  # not under the lock: it may wait for the end of a process
        with self._changed:
            self._idle.append(worker)
            self._changed.notify_all()

    def wake(self) -> None:
        """A call that may wait for a worker was given up."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self.is_closed = True
            for worker in self._workers:
                worker.kill()
            for worker in self._idle:
                worker.clean_up()  # the others are cleaned up by the threads that wait for them
            self._changed.notify_all()


class ProcessCall:
    """One call of a function in a worker. `run` blocks a thread; `kill` may be called from any."""

    def __init__(
        self,
        pool: ProcessPool,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        preload: Sequence[tuple[str, str]] = (),
        converter: Converter | None = None,
    ) -> None:
        self.name = name
        self.is_killed = False
        self._pool = pool
        self._function = function
        self._args = args
        self._kwargs = kwargs
        self._preload = preload
        self._converter = converter
        self._lock = threading.Lock()
        self._worker: _Worker | None = None

    def run(self) -> Any:
        """Return what the function returns, as JSON data. An exception of the function is raised as
        `Raised`."""
        message = self._pack()
        worker = self._pool.take(self)
        if worker is not None:
            try:
                self._start(worker)
                reply = worker.ask(message)
                if reply is not None:
                    return self._read(worker, reply)
                exit_code = worker.exit_code
            finally:
                # From here on `kill` must not reach the worker: it may serve another call.
                with self._lock:
                    self._worker = None
                    if self.is_killed:
                        worker.kill()
                self._pool.give_back(worker)
            if not self.is_killed:
                logger.warning(
                    "the process of tool '%s' ended during a call, exit code %s",
                    self.name,
                    exit_code,
                    extra={"tool_name": self.name, "exit_code": exit_code},
                )
        raise ToolCrashedError(f"Tool '{self.name}' failed: its process ended before it answered.")

    def kill(self) -> None:
        """End the call now, whatever stage it is in: it was given up."""
        with self._lock:
            self.is_killed = True
            if self._worker is not None:
                self._worker.kill()
        self._pool.wake()

    def _start(self, worker: _Worker) -> None:
        try:
            worker.start()
        except OSError:
            text = f"Tool '{self.name}' is busy: no process can be started. Try again later."
            raise ToolBusyError(text) from None
        with self._lock:
            self._worker = worker
            if self.is_killed or self._pool.is_closed:
                worker.kill()

    def _read(self, worker: _Worker, reply: bytes) -> Any:
        try:
            return read_reply(reply)
        except (LookupError, TypeError, ValueError) as error:
            worker.kill()  # it cannot be trusted any more
            text = f"Tool '{self.name}' returned something that cannot be read. ({_describe(error)})"
            raise InvalidResultError(text) from None

    def _pack(self) -> bytes:
        self._pickle(self._function, "its function", "Define it at module level")
        payload = self._pickle(
            (self._function, self._args, dict(self._kwargs)), "an argument", "Take plain values"
        )
        main = self._find_main() if b"__main__" in payload else {}
        converter = None if self._converter is None else pickle.dumps(self._converter)
        return pickle.dumps((list(sys.path), list(self._preload), main, payload, converter))

    def _pickle(self, value: Any, what: str, advice: str) -> bytes:
        try:
            return pickle.dumps(value)
        except Exception as error:
            raise InvalidToolError(
                f"Tool '{self.name}' cannot run in a process: {what} cannot be sent there. {advice}. "
                f"({_describe(error)})",
                tool=self.name,
                hint=f"{advice[0].lower()}{advice[1:]}, or run it on a thread",
            ) from None

    def _find_main(self) -> dict[str, str]:
        """Return how the worker finds the parent's main script, in the form of multiprocessing's spawn."""
        main = sys.modules["__main__"]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        if spec is None and file is None and getattr(self._function, "__module__", None) == "__main__":
            raise InvalidToolError(
                f"Tool '{self.name}' cannot run in a process: its function is not defined in a file.",
                tool=self.name,
            )
        if spec is not None:
            return {"init_main_from_name": spec.name}
        return {} if file is None else {"init_main_from_path": os.path.abspath(file)}


class _Worker:
    """A worker process and the pipes to it. It is started again after it has ended. `start`, `ask` and
    `clean_up` are called by one thread at a time, `kill` by any."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_killed = False

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.returncode

    def start(self) -> None:
        """Start the process, unless it runs already. One that was killed may need a moment to end."""
        if self._process is not None and not self._is_killed and self._process.poll() is None:
            return
        self.clean_up()
        # -P: modules of ours beside the program must not hide others of the same name.
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        self._is_killed = False
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, *flags, "-P", str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=HAS_GROUPS,
        )

    def ask(self, message: bytes) -> bytes | None:
        """Send a call and return the reply; None where the process has ended, or sends something else."""
        process = self._process
        assert process is not None  # `start` was called  # noqa: S101
        assert process.stdin is not None  # both are pipes  # noqa: S101
        assert process.stdout is not None  # noqa: S101
        mark = os.urandom(process_worker.MARK_BYTES)
        reply = None
        try:
            process_worker.write_message(process.stdin, mark + message)
            reply = process_worker.read_message(process.stdout, MAX_REPLY_BYTES)
        except (OSError, ValueError):
            pass
        if reply is not None and reply.startswith(mark):
            return reply.removeprefix(mark)
        self.kill()
        process.wait()
        return None

    def kill(self) -> None:
        """End the process and what it has started, without waiting for its end."""
        process = self._process
        if process is None or process.returncode is not None:
            return  # its id may be another's by now
        self._is_killed = True
        signal_group(process.pid, KILL)
        process.kill()  # for a child that has no group of its own yet

    def clean_up(self) -> None:
        """Close the pipes of a process that was killed or has ended."""
        process = self._process
        if process is None or not (self._is_killed or process.poll() is not None):
            return
        process.wait()
        for pipe in (process.stdin, process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:
                pass  # there was still something to write


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]
