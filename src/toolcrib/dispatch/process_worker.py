"""The program of a worker process: read a call, run it, write the reply, until the parent is gone.

It is started by its path and imports only the standard library: the parent's import path comes with each
call. Calls arrive on standard input and replies leave on standard output, so both are moved away before any
code of a tool runs: a tool prints to standard error and reads nothing.

Calls are pickles, because this process trusts its parent. Replies are JSON, because the parent must not
trust what runs here: the mark of the call, one byte for the kind (`VALUE`, `ERROR`), then data.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import pickle  # only what the parent sends is read
import queue
import signal
import struct
import sys
import threading
from collections.abc import Callable
from typing import IO, Any

LENGTH = struct.Struct("!Q")
TRACE_CHARS = 8192
MARK_BYTES = 16
"""A call starts with this many random bytes, which begin its reply too. Output that an earlier call left in
the pipe does not start with them."""

VALUE, ERROR = b"v", b"e"
ATTRIBUTES = ("details", "status", "body", "reached")
"""Attributes of errors that are sent if JSON can represent them."""

_stamps: dict[str, tuple[int, int]] = {}
_converters: dict[bytes, Callable[[Any], bytes]] = {}


def read_message(stream: IO[bytes], max_bytes: int | None = None) -> bytes | None:
    """Return the next message; None when the other side is gone, or sends more than `max_bytes`."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    if max_bytes is not None and length > max_bytes:
        return None
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
    # On a thread of its own, so that the end of the parent is noticed while a tool runs.
    threading.Thread(target=_receive, args=(incoming, calls), daemon=True).start()
    while True:
        message = calls.get()
        outcome = _run(message[MARK_BYTES:])
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (AttributeError, OSError, ValueError):
                pass  # the tool has closed or replaced it
        write_message(outgoing, message[:MARK_BYTES] + outcome)


def _receive(incoming: IO[bytes], calls: queue.SimpleQueue[bytes]) -> None:
    try:
        while (message := read_message(incoming)) is not None:
            calls.put(message)
    finally:
        _end()


def _end() -> None:
    """Exit at once, with everything that the tool has started."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _run(message: bytes) -> bytes:
    try:
        path, preload, main, payload, converter = pickle.loads(message)  # noqa: S301
        sys.path[:] = path
        if main:
            _load_main(main)
        for name, file in preload:
            _load_module(name, file)
        function, args, kwargs = pickle.loads(payload)  # noqa: S301
        convert = _write_json if converter is None else _find_converter(converter)
        return VALUE + convert(_complete(function(*args, **kwargs)))
    except BaseException as error:
        return ERROR + _pack_error(error)


def _find_converter(payload: bytes) -> Callable[[Any], bytes]:
    """Return the converter of results; cached, because making one reads type hints."""
    converter = _converters.get(payload)
    if converter is None:
        converter = _converters[payload] = pickle.loads(payload)  # noqa: S301
    return converter


def _write_json(value: Any) -> bytes:
    """Return the JSON of a value, with lone surrogates replaced."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def _complete(value: Any) -> Any:
    """Run coroutines and exhaust generators: neither can be sent."""
    if inspect.isawaitable(value) or inspect.isasyncgen(value):
        import asyncio

        async def wait() -> Any:
            if inspect.isasyncgen(value):
                return [item async for item in value]
            return await value

        return _complete(asyncio.run(wait()))
    return list(value) if inspect.isgenerator(value) else value


def _load_main(main: dict[str, str]) -> None:
    """Load the parent's main script, as multiprocessing's spawn does."""
    if "__mp_main__" not in sys.modules:
        from multiprocessing import spawn

        spawn.prepare(main)


def _load_module(name: str, file: str) -> None:
    """Load a module from its file, and again if the file has changed."""
    status = os.stat(file)
    stamp = (status.st_mtime_ns, status.st_size)
    if _stamps.get(name) == stamp and name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {name} from {file}")
    module = importlib.util.module_from_spec(spec)
    _converters.clear()  # they may refer to its classes
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _stamps[name] = stamp


def _pack_error(error: BaseException) -> bytes:
    """Return an error as JSON: the names of its classes, its text, its traceback and plain attributes."""
    import traceback

    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # a task group wraps the one error there was
    try:
        trace = "".join(traceback.format_exception(error, limit=-25))[-TRACE_CHARS:]
    except Exception:
        trace = ""
    kinds = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
    sent: dict[str, Any] = {"kinds": kinds, "text": _text(error), "trace": trace}
    for name in ATTRIBUTES:
        try:
            value = getattr(error, name, None)
            _write_json(value)
        except Exception:  # noqa: S112 # not plain data
            continue
        sent[name] = value
    return _write_json(sent)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""


if __name__ == "__main__":
    main()
