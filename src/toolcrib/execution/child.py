"""The program of a worker process: reads a call, runs it, writes the outcome, until its parent is gone.

Started by its path, with nothing but the standard library: the parent's import path comes with each call.
The calls come in on standard input and the outcomes leave on standard output, so both are moved away before
any code of a tool runs: what a tool prints goes to standard error, what it reads is empty. Knows pickles and
functions; refuses to know toolcrib.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import pickle  # nosec B403  # both ends are this program and its parent
import queue
import signal
import struct
import sys
import threading
from collections.abc import Iterable
from typing import IO, Any

LENGTH = struct.Struct("!Q")
TRACE_CHARS = 8192
BEGUN = b""
"""Said before a call is run: from there on it must not be repeated elsewhere."""

_stamps: dict[str, tuple[int, int]] = {}


def read_message(stream: IO[bytes]) -> bytes | None:
    """The next message, or None when the other side is gone."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    body = stream.read(length)
    return body if len(body) == length else None


def write_message(stream: IO[bytes], body: bytes) -> None:
    stream.write(LENGTH.pack(len(body)))
    stream.write(body)
    stream.flush()


def main() -> None:
    incoming = os.fdopen(os.dup(0), "rb")
    outgoing = os.fdopen(os.dup(1), "wb")
    empty = os.open(os.devnull, os.O_RDWR)
    os.dup2(empty, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # the parent has no standard error either
        os.dup2(empty, 1)
    os.close(empty)
    calls: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    # A thread of its own, so that the end of the parent is noticed while a tool runs.
    threading.Thread(target=_receive, args=(incoming, calls), daemon=True).start()
    while True:
        message = calls.get()
        write_message(outgoing, BEGUN)
        outcome = _run(message)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (AttributeError, OSError, ValueError):
                pass  # the tool has closed or replaced it
        write_message(outgoing, outcome)


def _receive(incoming: IO[bytes], calls: queue.SimpleQueue[bytes]) -> None:
    try:
        while (message := read_message(incoming)) is not None:
            calls.put(message)
    finally:
        _end()


def _end() -> None:
    """Leave at once, and take along what the tool has started."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _run(message: bytes) -> bytes:
    try:
        path, preload, main, payload = pickle.loads(message)  # nosec B301
        sys.path[:] = path
        if main:
            _load_main(main)
        for name, file in preload:
            _load_module(name, file)
        function, args, kwargs = pickle.loads(payload)  # nosec B301
        value = _complete(function(*args, **kwargs))
    except BaseException as error:
        return _pack_error(error)
    try:
        return pickle.dumps(("value", value))
    except Exception as error:
        return pickle.dumps(("unsendable", type(value).__name__, f"{type(error).__name__}: {error}"[:500]))


def _complete(value: Any) -> Any:
    """Coroutines are run, generators are read to their end: neither can travel."""
    if inspect.isawaitable(value) or inspect.isasyncgen(value):
        import asyncio

        async def wait() -> Any:
            if inspect.isasyncgen(value):
                return [item async for item in value]
            return await value

        return _complete(asyncio.run(wait()))
    return list(value) if inspect.isgenerator(value) else value


def _load_main(main: dict[str, str]) -> None:
    """Make functions of the parent's main script known, in the way of multiprocessing's spawn."""
    if "__mp_main__" not in sys.modules:
        from multiprocessing import spawn

        spawn.prepare(main)


def _load_module(name: str, file: str) -> None:
    """Load a module from its file, again if the file has changed since."""
    status = os.stat(file)
    stamp = (status.st_mtime_ns, status.st_size)
    if _stamps.get(name) == stamp and name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {name} from {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _stamps[name] = stamp


def _pack_error(error: BaseException) -> bytes:
    """The error itself if it can travel there and back, otherwise its names and its words."""
    import traceback

    try:
        trace = "".join(traceback.format_exception(error, limit=-25))[-TRACE_CHARS:]
        error.add_note(f"raised in another process:\n{trace}")
        packed = pickle.dumps(("error", error))
        pickle.loads(packed)  # nosec B301  # some errors can be written but not read
        return packed
    except Exception:
        return pickle.dumps(("foreign", _name_kinds(type(error).__mro__), _say(error)))


def _name_kinds(kinds: Iterable[type]) -> list[str]:
    return [f"{kind.__module__}.{kind.__qualname__}" for kind in kinds]


def _say(error: BaseException) -> str:
    try:
        return str(error)[:TRACE_CHARS]
    except Exception:
        return ""


if __name__ == "__main__":
    main()
