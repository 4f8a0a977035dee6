"""The program of a worker process: reads a call, runs it, writes the outcome, until its parent is gone.

Started by its path, with nothing but the standard library: the parent's import path comes with each call.
The calls come in on standard input and the outcomes leave on standard output, so both are moved away before
any code of a tool runs: what a tool prints goes to standard error, what it reads is empty. Knows pickles and
functions; refuses to know toolcrib.

Calls are pickles, because this process trusts its parent. Outcomes are JSON, because the parent must not
trust what runs here: one byte that says what it is (`PLAIN`, `CONVERTED`, `UNSENDABLE`, `ERROR`), then data.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import pickle  # nosec B403  # only what the parent sends is read
import queue
import signal
import struct
import sys
import threading
from collections.abc import Callable, Iterable
from typing import IO, Any

LENGTH = struct.Struct("!Q")
TRACE_CHARS = 8192
MARK_BYTES = 16
"""A call begins with so many random bytes, which are sent back before it is run: from there on it must not be
repeated elsewhere. What code of an earlier call has left in the pipe does not begin with them."""

PLAIN, CONVERTED, UNSENDABLE, ERROR = b"p", b"c", b"u", b"e"
FACTS = ("details", "status", "body", "reached")
"""Attributes of errors that are sent where they are plain."""

_SCALARS = frozenset({bool, float, int, str, type(None)})
_PLAIN_TYPES = _SCALARS | {dict, list, tuple}
_MAX_CONVERTERS = 256

_stamps: dict[str, tuple[int, int]] = {}
_converters: dict[bytes, Callable[[Any], bytes]] = {}


def read_message(stream: IO[bytes], max_bytes: int | None = None) -> bytes | None:
    """The next message, or None when the other side is gone, or sends more than `max_bytes`."""
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
    # A thread of its own, so that the end of the parent is noticed while a tool runs.
    threading.Thread(target=_receive, args=(incoming, calls), daemon=True).start()
    while True:
        message = calls.get()
        write_message(outgoing, message[:MARK_BYTES])
        outcome = _run(message[MARK_BYTES:])
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
        path, preload, main, payload, converter, plain_bytes = pickle.loads(message)  # nosec B301
        sys.path[:] = path
        if main:
            _load_main(main)
        for name, file in preload:
            _load_module(name, file)
        function, args, kwargs = pickle.loads(payload)  # nosec B301
        value = _complete(function(*args, **kwargs))
        data = None if plain_bytes == 0 else _write_plain(value)
        if data is not None and (plain_bytes is None or len(data) <= plain_bytes):
            return PLAIN + data
        if converter is None:
            return UNSENDABLE + _write_clean(type(value).__name__)
        return CONVERTED + _find_converter(converter)(value)
    except BaseException as error:
        return ERROR + _pack_error(error)


def _find_converter(payload: bytes) -> Callable[[Any], bytes]:
    """What makes data of results; kept, because making one reads hints."""
    converter = _converters.get(payload)
    if converter is None:
        if len(_converters) >= _MAX_CONVERTERS:
            _converters.clear()
        converter = _converters[payload] = pickle.loads(payload)  # nosec B301
    return converter


def _write_plain(value: Any) -> bytes | None:
    """JSON of what is nothing but plain data; None for all else."""
    if not _is_plain(value):
        return None
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (ValueError, RecursionError):  # NaN, a number of too many digits, half a character
        return None


def _is_plain(value: Any) -> bool:
    """Whether all of it is of the very types that JSON has, and nothing is in it twice."""
    if type(value) in _SCALARS:
        return True
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if type(item) not in _PLAIN_TYPES or id(item) in seen:
            return False
        seen.add(id(item))
        if type(item) is dict:
            if not set(map(type, item)) <= {str}:
                return False
            item = item.values()
        kinds = set(map(type, item))
        if not kinds <= _PLAIN_TYPES:
            return False
        if not kinds <= _SCALARS:
            waiting += [part for part in item if type(part) not in _SCALARS]
    return True


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
    _converters.clear()  # they may be made of its classes
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _stamps[name] = stamp


def _pack_error(error: BaseException) -> bytes:
    """An error as data: the names of its classes, its words, where it was raised, and plain attributes."""
    import traceback

    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # a task group wraps the one error there was
    try:
        trace = "".join(traceback.format_exception(error, limit=-25))[-TRACE_CHARS:]
    except Exception:
        trace = ""
    told = {"kinds": _name_kinds(type(error).__mro__), "text": _say(error), "trace": trace}
    parts = [b'"%s":%s' % (name.encode(), _write_clean(text)) for name, text in told.items()]
    for name in FACTS:
        data = _write_plain(getattr(error, name, None))
        if data is not None:
            parts.append(b'"%s":%s' % (name.encode(), data))
    return b"{" + b",".join(parts) + b"}"


def _write_clean(value: Any) -> bytes:
    """JSON of text, or a list of texts, with half characters replaced."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def _name_kinds(kinds: Iterable[type]) -> list[str]:
    return [f"{kind.__module__}.{kind.__qualname__}" for kind in kinds]


def _say(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""


if __name__ == "__main__":
    main()
