"""The stdio load: `python -m bench.wire.pipe MEASURE PARAMETERS`, PARAMETERS being a JSON object.

Starts a server as its child, as clients do, and talks to it line by line. `calls` keeps a number of requests
in flight and checks every reply; `start` times a fresh process until its first answer, and may go on to
see what the process weighs after many calls.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.wire import watch
from bench.wire.messages import LEGACY, Era, Question, initialize, initialized, question
from bench.wire.replies import Pattern, ReplyError, check_line, learn

CHUNK = 65_536
QUESTIONS = 2048
PATIENCE_S = 240


class Pipe:
    """A server behind a pair of pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdin is None or process.stdout is None:
            raise ReplyError("the server has no pipes")
        self.pid = process.pid
        self._in, self._out = process.stdin.fileno(), process.stdout.fileno()
        self._rest = b""

    def write(self, data: bytes) -> None:
        sent = os.write(self._in, data)
        while sent < len(data):
            sent += os.write(self._in, data[sent:])

    def lines(self) -> list[bytes]:
        """The next complete lines, at least one."""
        while True:
            data = os.read(self._out, CHUNK)
            if not data:
                raise ReplyError(f"the server closed its output after {self._rest[:300]!r}")
            *complete, self._rest = (self._rest + data).split(b"\n")
            if complete:
                return [line.rstrip(b"\r") for line in complete]

    def answer(self, request: bytes) -> bytes:
        """The one line that answers this one; notifications before it are passed over."""
        self.write(request + b"\n")
        while True:
            for line in self.lines():
                if b'"id"' in line:
                    return line


@contextmanager
def started(command: list[str]) -> Iterator[Pipe]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    try:
        yield Pipe(process)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def shake_hands(pipe: Pipe) -> None:
    reply = json.loads(pipe.answer(initialize()))
    if "result" not in reply:
        raise ReplyError(f"initialize was refused: {reply}")
    pipe.write(initialized() + b"\n")


def calls(given: dict[str, Any]) -> dict[str, Any]:
    """Round trips per second, one after the other and with several in flight."""
    era: Era = given["era"]
    asked = [question(era, "add", number) for number in range(QUESTIONS)]
    with started(given["command"]) as pipe:
        if era == LEGACY:
            shake_hands(pipe)
        pattern = _learn(pipe, asked[:2])
        for number in range(given["warm_calls"]):
            one = asked[number % QUESTIONS]
            check_line(pipe.answer(one.body), one)
        windows = [_Window(pipe, asked, pattern, size) for size in given["in_flight"]]
        return {
            str(window.size): window.measure(given["warm_s"], given["measure_s"]) for window in windows
        } | {"compared": pattern is not None}


def _learn(pipe: Pipe, asked: list[Question]) -> Pattern | None:
    patterns = []
    for one in asked:
        line = pipe.answer(one.body)
        check_line(line, one)
        patterns.append(learn(line, one))
    return patterns[0] if patterns[0] == patterns[1] else None


class _Window:
    """A number of requests in flight; replies may come in any order."""

    def __init__(self, pipe: Pipe, asked: list[Question], pattern: Pattern | None, size: int) -> None:
        self.size = size
        self._pipe = pipe
        self._asked = asked
        self._lines = [one.body + b"\n" for one in asked]
        self._numbers = {b"%d" % one.id: number for number, one in enumerate(asked)}
        self._expected = [pattern.reply_to(one) if pattern else b"\x00" for one in asked]
        self._id_at = pattern.id_at if pattern else 0

    def measure(self, warm_s: float, measure_s: float) -> dict[str, float]:
        pipe, lines, count = self._pipe, self._lines, len(self._lines)
        pids = watch.family(pipe.pid)
        clock = time.perf_counter
        gc.collect()
        gc.disable()
        next_ = self.size
        open_ = set(range(self.size))
        pipe.write(b"".join(lines[:next_]))
        warm_until = clock() + warm_s
        begin = stop_at = cpu_begin = 0.0
        done = 0
        while True:
            replies = pipe.lines()
            for reply in replies:
                open_.remove(self._number_of(reply))
            done += len(replies)
            now = clock()
            if not begin and now >= warm_until:
                begin, cpu_begin, done = now, watch.cpu_s(pids), 0
                stop_at = begin + measure_s
            elif begin and now >= stop_at:
                cpu_s = watch.cpu_s(pids) - cpu_begin
                break
            wanted = [(next_ + step) % count for step in range(len(replies))]
            next_ += len(replies)
            open_.update(wanted)
            pipe.write(b"".join([lines[number] for number in wanted]))
        while open_:
            for reply in pipe.lines():
                open_.remove(self._number_of(reply))
        gc.enable()
        return {"calls_per_s": done / (now - begin), "cpu_per_call_s": cpu_s / done, "calls": done}

    def _number_of(self, reply: bytes) -> int:
        """Which question this is the right answer to."""
        number = self._numbers.get(reply[self._id_at : self._id_at + 6], 0)
        if reply != self._expected[number]:
            number = self._numbers[b"%d" % json.loads(reply)["id"]]
            check_line(reply, self._asked[number])
        return number


def start(given: dict[str, Any]) -> dict[str, Any]:
    """From the start of the process to its first answer; then, where asked, many calls."""
    era: Era = given["era"]
    first = question(era, "add", 0)
    begin = time.perf_counter()
    with started(given["command"]) as pipe:
        line = pipe.answer(initialize() if era == LEGACY else first.body)
        wall_s = time.perf_counter() - begin
        pids = watch.family(pipe.pid)
        outcome = {"wall_s": wall_s, "cpu_s": watch.cpu_s(pids), "rss_bytes": watch.rss_bytes(pids)}
        if era != LEGACY:
            check_line(line, first)
        elif "result" not in json.loads(line):
            raise ReplyError(f"initialize was refused: {line[:300]!r}")
        if not given.get("calls"):
            return outcome
        if era == LEGACY:
            pipe.write(initialized() + b"\n")
        for number in range(1, given["calls"] + 1):
            one = question(era, "add", number)
            check_line(pipe.answer(one.body), one)
        return outcome | {"rss_later_bytes": watch.rss_bytes(watch.family(pipe.pid))}


def _give_up(*_: Any) -> None:
    raise ReplyError(f"no end within {PATIENCE_S} s")


MEASURES = {"calls": calls, "start": start}


def main() -> None:
    # Reading from a pipe has no time-out of its own.
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(PATIENCE_S)
    print(json.dumps(MEASURES[sys.argv[1]](json.loads(sys.argv[2]))))


if __name__ == "__main__":
    main()
