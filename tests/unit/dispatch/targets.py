"""Functions for worker processes, which can only be sent there from a module.

Every process imports it, and none needs toolcrib. What takes long to import is imported where it is used.
"""

from __future__ import annotations

import json
import os
import stat
import struct
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

LENGTH = struct.Struct("!Q")  # of process_worker


def add(a: int, b: int) -> int:
    return a + b


def get_pid() -> int:
    return os.getpid()


async def add_later(a: int, b: int) -> int:
    import asyncio

    await asyncio.sleep(0)
    return a + b


def count(number: int) -> Iterator[int]:
    yield from range(number)


async def count_later(number: int) -> AsyncIterator[int]:
    import asyncio

    for item in range(number):
        await asyncio.sleep(0)
        yield item


def fail(text: str) -> None:
    raise ValueError(text)


def leave(code: int) -> None:
    os._exit(code)


def leave_a_line(file: str) -> None:
    with open(file, "a") as stream:
        stream.write("ran\n")
    os._exit(3)


def crash() -> None:
    import ctypes

    ctypes.string_at(0)


def return_odd(name: str) -> Any:
    cycle: list[Any] = []
    cycle.append(cycle)
    return {"lock": threading.Lock(), "nan": float("nan"), "cycle": cycle, "keys": {1: 2}}[name]


class Converter:
    def __init__(self, form: str) -> None:
        self.form = form

    def __call__(self, value: Any) -> bytes:
        return json.dumps(self.form % (value,)).encode()


def write_reply(*replies: bytes) -> str:
    """What a hostile function can do: find the pipe to the parent, and answer for itself."""
    for reply in replies:
        write_to_pipes(LENGTH.pack(len(reply)) + reply)
    return "written"


def claim_length(length: int) -> None:
    write_to_pipes(LENGTH.pack(length))
    time.sleep(60)


def write_to_pipes(data: bytes) -> None:
    for number in range(3, 64):
        try:
            if stat.S_ISFIFO(os.fstat(number).st_mode):
                os.write(number, data)
        except OSError:
            pass  # not open, or not for writing


def print_much(text: str) -> str:
    print(text)
    os.write(1, text.encode())
    return sys.stdin.read()


def hang(sign: str) -> None:
    Path(sign).write_text(str(os.getpid()))
    while True:
        time.sleep(60)


def hang_with_a_child(sign: str) -> None:
    import subprocess

    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    Path(sign).write_text(str(child.pid))
    child.wait()


def measure(data: bytes) -> int:
    return len(data)
