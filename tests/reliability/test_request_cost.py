"""No request costs the server a hundred times what it costs its client. A sample every day, all of it in
the soak.

Measured is processor time, of the server and of a client that sends prebuilt bytes; the best of a few tries
counts, since whatever else runs on the machine makes the server look slower.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients import minimal_client as sender
from tests.support.hostile.costly_requests import CORPUS, call, post
from tests.support.servers.http_servers import HTTP_STACKS
from tests.support.servers.stdio_program import Program

pytestmark = pytest.mark.row("F8")

IS_LONG = bool(os.environ.get("TOOLCRIB_SOAK"))
LIMIT = 100.0
TRIES = 6
LARGE = 100_000


class Scales:
    """A server and a client, and what each has used."""

    def __init__(self, http_stack: str) -> None:
        self._program = Program(http_stack, "tests.support.servers.cost_server")
        command = [sys.executable, sender.__file__, str(self._program.port)]
        self._client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._tasks = Path(f"/proc/{self._program._process.pid}/task")

    def weigh(self, request: bytes, count: int) -> tuple[float, dict[str, int]]:
        """How many times its client's time a request costs the server, and the statuses that came."""
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        before = self._used_s()
        self._client.stdin.write(b"%d %d\n" % (count, len(request)))
        self._client.stdin.write(request)
        self._client.stdin.flush()
        said: dict[str, Any] = json.loads(self._client.stdout.readline())
        return (self._used_s() - before) / said["cpu_s"], said["seen"]

    def _used_s(self) -> float:
        """Seconds of processor time of all threads; exact where the system counts nanoseconds."""
        total = 0
        for task in self._tasks.iterdir():
            try:
                total += int((task / "schedstat").read_text().split()[0])
            except (OSError, IndexError):
                pass  # the thread has ended
        return total / 1e9

    def ask(self, request: bytes) -> bytes:
        """The answer to a request, on a connection of its own."""
        with sender.connect(self._program.port) as connection:
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    def close(self) -> None:
        for stream in (self._client.stdin, self._client.stdout):
            if stream is not None:
                stream.close()
        self._client.wait(10)
        errors = self._program.errors
        self._program.end()
        assert "Traceback" not in errors


@pytest.fixture(scope="module", params=HTTP_STACKS)
def scales(request: Any) -> Iterator[Scales]:
    if not Path("/proc/self/task").exists() or not Path("/proc/self/schedstat").exists():
        pytest.skip("this system does not tell how much processor time a thread has used")
    scales = Scales(request.param)
    yield scales
    scales.close()


def cases(group: str) -> list[tuple[str, bytes]]:
    """All of a group; every day, a few of those that are not small."""
    found = list(CORPUS[group]())
    if IS_LONG or group in ("ordinary", "failing", "heads"):
        return found
    return found[2::7] if group == "converted" else found[3::8]


def weigh_down(scales: Scales, name: str, request: bytes) -> str | None:
    """What is wrong with what a request costs, or None."""
    count = 4 if len(request) > LARGE else 40
    best = float("inf")
    scales.weigh(request, 2)
    for _ in range(TRIES):
        ratio, seen = scales.weigh(request, count)
        best = min(best, ratio)
        if "none" in seen or any(status >= "500" for status in seen):
            return f"{name}: {seen}"
        if best < LIMIT:
            return None
    return f"{name}: {best:.0f} times"


@pytest.mark.parametrize("group", CORPUS)
def test_no_request_costs_a_hundred_times_what_its_client_pays(scales: Scales, group: str) -> None:
    wrong = [words for name, request in cases(group) if (words := weigh_down(scales, name, request))]
    assert not wrong, "\n".join(wrong)


def test_ten_thousand_small_models_are_taken(scales: Scales) -> None:
    fields = {"value": [{"x": 1, "y": 2}] * 10_000}
    body = scales.ask(post(call("points", fields), "points", Connection="close"))
    assert b'"isError":true' not in body
    assert b"10000" in body


def test_anything_that_is_refused_says_what_to_do(scales: Scales) -> None:
    fields = {"value": [{"x": 1, "y": 2}] * 30_000}
    body = scales.ask(post(call("points", fields), "points", Connection="close"))
    assert b"too many to convert in one call" in body
    assert b"send less at a time" in body
