"""Worker processes for code that must be killable: one call at a time each, reused, killed when late.

A worker is a plain child process that runs `process_worker.py`. A thread sends it a call through its pipes
and waits for the reply. multiprocessing is not used: its children inherit standard input, load the main
script whether it is needed or not, and may print before they are silenced, while the parent speaks a
protocol there.

Calls are sent as pickles. The code of a tool runs in the worker and can write to its pipe, so replies are
untrusted: they are JSON, and nothing that comes back is unpickled.
"""

from __future__ import annotations

import importlib
import io
import logging
import operator
import os
import pickle  # nosec B403  # for sending only, never for reading
import subprocess  # nosec B404  # no shell is used
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

from toolcrib import errors
from toolcrib.dispatch import process_worker
from toolcrib.dispatch.child_process import BlockingChild
from toolcrib.dispatch.concurrency import Raised
from toolcrib.errors import (
    APIError,
    CallError,
    InvalidResultError,
    InvalidToolError,
    ToolBusyError,
    ToolCrashedError,
)
from toolcrib.sources.loading import OLD_MODULES
from toolcrib.validation import codec

logger = logging.getLogger("toolcrib")

PROGRAM = Path(__file__).with_name("process_worker.py")
MAX_WORKERS_TRIED = 3
MAX_REPLY_BYTES = 64 * 1024 * 1024
"""A longer reply ends the worker: useful results and errors are far shorter."""

Converter = Callable[[Any], bytes]
"""Makes JSON of a value in the worker. It is sent there, so it has to be picklable."""


class Returned(NamedTuple):
    """The return value of a function as JSON data. `is_converted`: a converter made the data."""

    value: Any
    is_converted: bool


Outcome = Returned | BaseException
"""The outcome of a call: a value, or an error to raise where the caller is."""


def read_reply(reply: bytes, name: str) -> Outcome:
    """Return the outcome of a call of tool `name`. Raises LookupError, TypeError or ValueError where the
    reply is malformed."""
    kind, data = reply[:1], codec.decode(reply[1:])
    if kind in (process_worker.PLAIN, process_worker.CONVERTED):
        return Returned(data, kind == process_worker.CONVERTED)
    if kind == process_worker.UNSENDABLE:
        return InvalidResultError(f"Tool '{name}' returned a {data}, which cannot be sent between processes.")
    if kind == process_worker.ERROR:
        return Raised(_rebuild_error(data))
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
        self._idle: list[_Worker] = []
        self._alive: set[_Worker] = set()
        self._starting = 0
        self._is_closed = False

    def take(self, call: ProcessCall) -> _Worker | None:
        """Return an idle worker or a new one; None when the call was given up while it waited for one."""
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
                worker.close()
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
            worker.close()

    def wake(self) -> None:
        """A call that may wait for a worker was given up."""
        with self._changed:
            self._changed.notify_all()

    def renew(self) -> None:
        """End idle workers now, and busy ones after their call: the code of tools has changed."""
        with self._changed:
            idle, self._idle = self._idle, []
            self._alive.difference_update(idle)
            for worker in self._alive:
                worker.is_outdated = True
            self._changed.notify_all()
        for worker in idle:
            worker.kill()
            worker.close()

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
            worker.close()  # the others are closed by the threads that wait for them

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
        plain_bytes: int | None = None,
    ) -> None:
        self.name = name
        self.is_killed = False
        self._pool = pool
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
            return self._send(self._pack())
        except (InvalidToolError, ToolBusyError, ToolCrashedError) as error:
            return error

    def kill(self) -> None:
        """End the call now, whatever stage it is in: it was given up."""
        with self._lock:
            self.is_killed = True
            if self._worker is not None:
                self._worker.kill()
        self._pool.wake()

    def _pack(self) -> bytes:
        self._pickle(
            self._function,
            "its function",
            "Define it at module level",
        )
        payload = self._pickle(
            (self._function, self._args, dict(self._kwargs)),
            "an argument",
            "Take plain values",
        )
        main = self._find_main() if b"__main__" in payload else {}
        converter = None if self._converter is None else _pickle(self._converter)
        return pickle.dumps(
            (list(sys.path), list(self._preload), main, payload, converter, self._plain_bytes)
        )

    def _pickle(self, value: Any, what: str, advice: str) -> bytes:
        try:
            return _pickle(value)
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

    def _send(self, message: bytes) -> Outcome:
        exit_code = None
        for _ in range(MAX_WORKERS_TRIED):
            worker = self._pool.take(self)
            if worker is None:
                break
            has_begun, outcome = self._ask(worker, message)
            if outcome is not None:
                return outcome
            exit_code = worker.exit_code
            if has_begun:
                break
            # The worker had ended unnoticed while it was idle. The call has not begun: another may take it.
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
                worker.kill()  # it cannot be trusted any more
                text = f"Tool '{self.name}' returned something that cannot be read. ({_describe(error)})"
                return has_begun, InvalidResultError(text)
        finally:
            # From here on `kill` must not reach the worker: it may serve another call.
            with self._lock:
                self._worker = None
                if self.is_killed:
                    worker.kill()
            self._pool.give_back(worker)


class _Worker(BlockingChild):
    """A worker process and the pipes to it."""

    def __init__(self) -> None:
        # -P: modules of ours beside the program must not hide others of the same name.
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        super().__init__([sys.executable, *flags, "-P", str(PROGRAM)])
        self.is_outdated = False

    def ask(self, message: bytes) -> tuple[bool, bytes | None]:
        """Send a call and wait. Return whether it was begun, and the reply if there is one."""
        has_begun, reply = False, None
        mark = os.urandom(process_worker.MARK_BYTES)
        try:
            process_worker.write_message(self.stdin, mark + message)
            has_begun = process_worker.read_message(self.stdout, len(mark)) == mark
            if has_begun:
                reply = process_worker.read_message(self.stdout, MAX_REPLY_BYTES)
        except (OSError, ValueError):
            pass
        if reply is None:
            self.kill()
            self.close()
        return has_begun, reply


class _Pickler(pickle.Pickler):
    """Pickles functions by name even where their module was replaced, because its file was loaded again."""

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, FunctionType) or OLD_MODULES not in value.__globals__:
            return NotImplemented
        return operator.call, (operator.attrgetter(value.__qualname__), _ModuleReference(value.__module__))


class _ModuleReference:
    """Becomes the module of this name where it is unpickled."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return importlib.import_module, (self._name,)


def _pickle(value: Any) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream).dump(value)
    return stream.getvalue()


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]
