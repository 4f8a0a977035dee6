"""Worker processes for code that must be killable: one call at a time each, used again, killed when late.

The processes are plain children that run `child.py` and are spoken to through pipes, by a thread that waits
for the answer. They are not made by multiprocessing: its children inherit standard input, load the main
script whether it is needed or not, and may print before they are silenced, while the parent speaks a protocol
there.
Calls are sent as pickles. Nothing that comes back is unpickled (`replies.py`).
Knows pickles, pipes and signals; refuses to know loops and deadlines.

Read what worker processes send: JSON, never a pickle.

The code of a tool runs in the worker and can write to its pipe, so a reply is untrusted. `child.py` says in
which form it comes.
"""

from __future__ import annotations

import importlib
import io
import logging
import operator
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

from toolcrib import errors
from toolcrib.dispatch import process_worker as child
from toolcrib.dispatch.concurrency import Raised
from toolcrib.errors import (
    APIError,
    CallError,
    InvalidResultError,
    InvalidToolError,
    ToolBusyError,
    ToolCrashedError,
)
from toolcrib.validation import codec


class Returned(NamedTuple):
    """What a function returned, as JSON data. `is_converted`: a converter made the data."""

    value: Any
    is_converted: bool


class Outcome:
    """What came of a call: a value, or an error to raise where the caller is."""

    __slots__ = ("_error", "_value")

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self._value = value
        self._error = error

    def unfold(self) -> Any:
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error from None
            finally:
                del error
        return self._value


def read_reply(reply: bytes, name: str) -> Outcome:
    """The outcome of a call of tool `name`. Raises LookupError, TypeError or ValueError where the reply is
    malformed."""
    kind, data = reply[:1], codec.decode(reply[1:])
    if kind in (child.PLAIN, child.CONVERTED):
        return Outcome(Returned(data, kind == child.CONVERTED))
    if kind == child.UNSENDABLE:
        text = f"Tool '{name}' returned a {data}, which cannot be sent between processes."
        return Outcome(error=InvalidResultError(text))
    if kind == child.ERROR:
        return Outcome(error=Raised(_make_error(data)))
    raise ValueError("unknown kind of reply")


_CALL_ERRORS = {
    f"{kind.__module__}.{kind.__qualname__}": kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, CallError)
}


def _make_error(told: Any) -> BaseException:
    """An error like the one that was raised in a process: of the same class where that is one of ours for
    callers, else of a class that only has its name."""
    kinds, text, trace = told["kinds"], str(told["text"]), str(told["trace"])
    kind = next((_CALL_ERRORS[name] for name in kinds if name in _CALL_ERRORS), None)
    error: BaseException
    if kind is APIError:
        facts = {name: told[name] for name in ("status", "body", "reached") if name in told}
        error = APIError(text, **facts)
    elif kind is not None:
        error = kind(text, details=told.get("details"))
    else:
        name = str(kinds[0]).rpartition(".")[2]
        error = type(name if name.isidentifier() else "Exception", (Exception,), {})(text)
    error.add_note(f"raised in another process:\n{trace}")
    return error


logger = logging.getLogger("toolcrib")

PROGRAM = Path(__file__).with_name("process_worker.py")
ATTEMPTS = 3
MAX_REPLY_BYTES = 64 * 1024 * 1024
"""A reply that is longer ends its process: results and errors of any use are far shorter."""

Converter = Callable[[Any], bytes]
"""Makes JSON of a value, in the process that has the value. Sent there, so it has to be picklable."""


class Processes:
    """The worker processes of one runner, `limit` at most."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit or max(4, os.cpu_count() or 1)
        self._changed = threading.Condition()
        self._idle: list[_Worker] = []
        self._alive: set[_Worker] = set()
        self._starting = 0
        self._is_closed = False

    def prepare(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        preload: Sequence[tuple[str, str]],
        converter: Converter | None = None,
        plain_bytes: int | None = None,
    ) -> Call:
        return Call(self, name, function, args, kwargs, preload, converter, plain_bytes)

    def take(self, call: Call) -> _Worker | None:
        """An idle worker or a new one; None when the call was given up before there was one."""
        with self._changed:
            while not (self._idle or len(self._alive) + self._starting < self._limit):
                if call.is_killed or self._is_closed:
                    break
                self._changed.wait()
            if self._is_closed:
                raise ToolBusyError(f"Tool '{call.name}' cannot run: the server is closing.")
            if call.is_killed:
                return None
            while self._idle:
                worker = self._idle.pop()
                if worker.is_alive:
                    return worker
                self._alive.discard(worker)
                worker.bury()
            self._starting += 1
        return self._start(call.name)

    def give_back(self, worker: _Worker) -> None:
        with self._changed:
            is_kept = worker.is_alive and not worker.is_outdated and not self._is_closed
            if is_kept:
                self._idle.append(worker)
            else:
                self._alive.discard(worker)
            self._changed.notify_all()
        if not is_kept:
            # Not under the lock: a loop that gives up a call must not wait for the end of a process.
            worker.kill()
            worker.bury()

    def wake(self) -> None:
        """A call that may wait for a worker was given up."""
        with self._changed:
            self._changed.notify_all()

    def renew(self) -> None:
        """End what is idle now, and what is busy once it is done."""
        with self._changed:
            idle, self._idle = self._idle, []
            self._alive.difference_update(idle)
            for worker in self._alive:
                worker.is_outdated = True
            self._changed.notify_all()
        for worker in idle:
            worker.kill()
            worker.bury()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            alive, idle = list(self._alive), list(self._idle)
            self._alive.difference_update(idle)
            self._idle.clear()
            self._changed.notify_all()
        for worker in alive:
            worker.kill()
        for worker in idle:
            worker.bury()  # the others are buried by the threads that wait for them

    def _start(self, name: str) -> _Worker:
        worker = None
        try:
            worker = _Worker()
            return worker
        except OSError:
            raise ToolBusyError(
                f"Tool '{name}' is busy: no process can be started. Try again later."
            ) from None
        finally:
            with self._changed:
                self._starting -= 1
                if worker is not None:
                    self._alive.add(worker)
                    if self._is_closed:
                        worker.kill()
                self._changed.notify_all()


class Call:
    """One call of a function in a process. `run` belongs on a thread, `kill` may come from any."""

    def __init__(
        self,
        processes: Processes,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        preload: Sequence[tuple[str, str]],
        converter: Converter | None,
        plain_bytes: int | None,
    ) -> None:
        self.name = name
        self.is_killed = False
        self._processes = processes
        self._function = function
        self._args = args
        self._kwargs = kwargs
        self._preload = preload
        self._converter = converter
        self._plain_bytes = plain_bytes
        self._lock = threading.Lock()
        self._worker: _Worker | None = None

    def run(self) -> Outcome:
        try:
            return self._converse(self._pack())
        except (InvalidToolError, ToolBusyError, ToolCrashedError) as error:
            return Outcome(error=error)

    def kill(self) -> None:
        """Nobody waits any more: whatever stage the call is in, end it now."""
        with self._lock:
            self.is_killed = True
            if self._worker is not None:
                self._worker.kill()
        self._processes.wake()

    def _pack(self) -> bytes:
        try:
            _write(self._function)
        except Exception as error:
            raise InvalidToolError(
                f"Tool '{self.name}' cannot run in a process: its function cannot be sent there. "
                f"Define it at module level. ({_cut(error)})",
                tool=self.name,
                hint="define it at module level, or run it on a thread",
            ) from None
        try:
            payload = _write((self._function, self._args, dict(self._kwargs)))
        except Exception as error:
            raise InvalidToolError(
                f"Tool '{self.name}' cannot run in a process: an argument cannot be sent there. "
                f"Take plain values. ({_cut(error)})",
                tool=self.name,
                hint="take plain values, or run it on a thread",
            ) from None
        main = self._find_main() if b"__main__" in payload else {}
        converter = None if self._converter is None else _write(self._converter)
        return pickle.dumps(
            (list(sys.path), list(self._preload), main, payload, converter, self._plain_bytes)
        )

    def _find_main(self) -> dict[str, str]:
        """How the child finds the parent's main script, in the words of multiprocessing's spawn."""
        main = sys.modules["__main__"]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        if spec is None and file is None and getattr(self._function, "__module__", None) == "__main__":
            raise InvalidToolError(
                f"Tool '{self.name}' cannot run in a process: its function has no file to be found in.",
                tool=self.name,
            )
        if spec is not None:
            return {"init_main_from_name": spec.name}
        return {} if file is None else {"init_main_from_path": os.path.abspath(file)}

    def _converse(self, message: bytes) -> Outcome:
        exit_code = None
        for _ in range(ATTEMPTS):
            worker = self._processes.take(self)
            if worker is None:
                break
            has_begun, outcome = self._ask(worker, message)
            if outcome is not None:
                return outcome
            exit_code = worker.exit_code
            if has_begun:
                break
            # It ended while it was idle, and nobody could know: the call has not begun, another may take it.
        if not self.is_killed:
            logger.warning(
                "the process of tool '%s' ended during a call, exit code %s",
                self.name,
                exit_code,
                extra={"tool_name": self.name, "exit_code": exit_code},
            )
        raise ToolCrashedError(f"Tool '{self.name}' failed: its process ended before it answered.")

    def _ask(self, worker: _Worker, message: bytes) -> tuple[bool, Outcome | None]:
        with self._lock:
            self._worker = worker
            if self.is_killed:
                worker.kill()
        try:
            has_begun, reply = worker.ask(message)
            try:
                return has_begun, None if reply is None else read_reply(reply, self.name)
            except (LookupError, TypeError, ValueError) as error:
                worker.kill()  # nothing that it says can be relied on
                text = f"Tool '{self.name}' returned something that cannot be read here. ({_cut(error)})"
                return has_begun, Outcome(error=InvalidResultError(text))
        finally:
            # From here on `kill` must not reach the worker: it may be another call's.
            with self._lock:
                self._worker = None
                if self.is_killed:
                    worker.kill()
            self._processes.give_back(worker)


class _ByName(pickle.Pickler):
    """Writes functions by name also where their module was put aside, because its file is loaded again."""

    def reducer_override(self, thing: Any) -> Any:
        if not isinstance(thing, FunctionType) or "__toolcrib_past__" not in thing.__globals__:
            return NotImplemented
        return operator.call, (operator.attrgetter(thing.__qualname__), _Module(thing.__module__))


class _Module:
    """Stands for a module, and is one where it is read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return importlib.import_module, (self._name,)


def _write(thing: Any) -> bytes:
    stream = io.BytesIO()
    _ByName(stream).dump(thing)
    return stream.getvalue()


class _Worker:
    """One process and the pipes to it."""

    def __init__(self) -> None:
        # -P: the folder of the program holds modules of ours that must not hide others of the same name.
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        self.is_outdated = False
        self._is_doomed = False
        self._process = subprocess.Popen(  # nosec B603  # a fixed command, no shell
            [sys.executable, *flags, "-P", str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # A session of its own: Ctrl-C is for the parent, and one signal reaches all that a tool started.
            start_new_session=True,
        )

    @property
    def is_alive(self) -> bool:
        return not self._is_doomed and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode

    def ask(self, message: bytes) -> tuple[bool, bytes | None]:
        """Send a call and wait. Returns whether it was begun, and its outcome if there is one."""
        has_begun, reply = False, None
        mark = os.urandom(child.MARK_BYTES)
        try:
            child.write_message(self._process.stdin, mark + message)  # type: ignore[arg-type]  # both are pipes
            has_begun = child.read_message(self._process.stdout, len(mark)) == mark  # type: ignore[arg-type]
            if has_begun:
                reply = child.read_message(self._process.stdout, MAX_REPLY_BYTES)  # type: ignore[arg-type]
        except (OSError, ValueError):
            pass
        if reply is None:
            self.kill()
            self.bury()
        return has_begun, reply

    def kill(self) -> None:
        """End the process and what it has started. Returns at once."""
        self._is_doomed = True
        if self._process.returncode is not None:
            return  # its number may be another's by now
        if hasattr(os, "killpg"):
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass  # too early for a group of its own, or gone: the next line knows
        self._process.kill()

    def bury(self) -> None:
        """After `kill`: wait for its end, which is near, and close the pipes."""
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:
                pass  # what was still to be written has nobody to read it


def _cut(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]
