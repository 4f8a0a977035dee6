"""Tools of a worker process that try to run code in the server."""

from __future__ import annotations

import os
import pickle
import stat
import struct

from toolcrib import ToolError


class Bomb:
    """Unpickling it creates a file named after the process that did."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        code = (
            f"open(__import__('os').path.join({self.folder!r}, str(__import__('os').getpid())), 'w').close()"
        )
        return eval, (code,)


class BombError(Exception):
    def __init__(self, folder):
        super().__init__("bomb")
        self.folder = folder

    __reduce__ = Bomb.__reduce__


def give(folder: str):
    return Bomb(folder)


def give_inside(folder: str):
    return {"a": [1, Bomb(folder)]}


def fail(folder: str):
    raise BombError(folder)


def fail_with_details(folder: str):
    raise ToolError("the words", details=Bomb(folder))


def write_to_the_pipe(folder: str):
    body = pickle.dumps(("value", Bomb(folder)))
    for number in range(3, 64):
        try:
            if stat.S_ISFIFO(os.fstat(number).st_mode):
                os.write(number, struct.pack("!Q", len(body)) + body)
        except OSError:
            pass  # not open, or not for writing
    return "written"


def add(a: int, b: int) -> int:
    return a + b
