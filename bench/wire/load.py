"""The HTTP load: `python -m bench.wire.load PARAMETERS`, PARAMETERS being a JSON object.

Keeps a number of connections busy, one request at a time on each, checks every reply, and reads the server's
CPU clock at the beginning and the end of the measured time. A process of its own, and as cheap as Python
allows: prebuilt requests, plain sockets, one poll, one comparison per reply. It stays awake a little while it
waits: on one machine, who sends pays for waking who receives, and a server on a network does not.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import select
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any

from bench.wire import watch
from bench.wire.messages import LEGACY, Era, Question, goodbye, initialize, initialized, post, question
from bench.wire.replies import END_OF_HEAD, Pattern, Reply, ReplyError, check, learn, message_of, split

QUESTIONS = 256  # per connection, asked again and again
PATIENCE_S = 60.0
AWAKE_NS = 200_000  # how long it polls before it sleeps
CHUNK = 16_384  # a larger buffer costs more to make than a reply to read
OK = b"HTTP/1.1 200"


@dataclass(frozen=True)
class Load:
    """What to do to whom."""

    port: int
    pids: list[int]
    era: Era
    connections: int
    tool: str = "add"
    warm_s: float = 0.3
    measure_s: float = 1.0
    at_least: int = 1
    """So many calls are measured, however long it takes."""
    key: str | None = None
    """What the server knows the caller by; of 2026-07-28 only, which has no handshake."""


class Connection:
    """One keep-alive connection, with a session of its own where the server makes one."""

    __slots__ = (
        "asked_at", "expected", "load", "number", "pending", "questions", "recv", "requests", "send",
        "session", "socket", "tails",
    )  # fmt: skip

    def __init__(self, load: Load, first: int) -> None:
        self.load = load
        self.socket = socket.create_connection(("127.0.0.1", load.port), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.recv, self.send = self.socket.recv, self.socket.send
        self.session = self._shake_hands() if load.era == LEGACY else None
        self.questions = [question(load.era, load.tool, first + number) for number in range(QUESTIONS)]
        self.requests = [self._post(asked) for asked in self.questions]
        self.tails: list[bytes] = []
        self.number = 0
        self.asked_at = 0
        self.pending = b""
        self.expected = b""

    def exchange(self, request: bytes) -> tuple[Reply, bytes]:
        """One request and its whole reply, waiting for it; also the raw bytes."""
        self.socket.sendall(request)
        data = b""
        while True:
            received = self.recv(CHUNK)
            data += received
            reply = split(data)
            if reply is not None:
                return reply, data
            if not received:
                raise ReplyError(f"the server closed the connection after {data[:300]!r}")

    def learn(self) -> Pattern | None:
        """Ask twice, check thoroughly, and see whether the second reply could be foretold from the first."""
        patterns = []
        for asked, request in zip(self.questions[:2], self.requests, strict=False):
            reply, raw = self.exchange(request)
            check(message_of(reply), asked)
            tail = raw[raw.index(END_OF_HEAD) :]
            patterns.append(learn(tail, asked))
        return patterns[0] if patterns[0] == patterns[1] else None

    def expect(self, pattern: Pattern | None) -> None:
        """Have the expected bytes ready; without a pattern every reply is parsed."""
        self.tails = [pattern.reply_to(asked) if pattern else b"\x00" for asked in self.questions]

    def ask(self, now: int) -> None:
        number = self.number = (self.number + 1) % QUESTIONS
        self.expected = self.tails[number]
        self.asked_at = now
        self.send(self.requests[number])

    def settle(self, data: bytes) -> bool:
        """Whether `data` is a complete reply, by parsing it. Keeps an incomplete one, refuses a wrong one."""
        if not data:
            raise ReplyError("the server closed the connection")
        reply = split(data)
        if reply is None:
            self.pending = data
            return False
        check(message_of(reply), self.questions[self.number])
        if reply.rest:
            raise ReplyError(f"more than a reply: {reply.rest[:300]!r}")
        return True

    def say_goodbye(self) -> None:
        """End the session, if there is one."""
        self.socket.setblocking(True)
        if self.session is not None:
            self.exchange(goodbye(self.load.port, self.session))

    def _shake_hands(self) -> str | None:
        reply, _ = self.exchange(post(self.load.port, initialize(), LEGACY, method="initialize"))
        if "result" not in message_of(reply):
            raise ReplyError(f"initialize was refused: {reply.body[:300]!r}")
        session = reply.headers.get("mcp-session-id")
        method = "notifications/initialized"
        reply, _ = self.exchange(post(self.load.port, initialized(), LEGACY, method=method, session=session))
        if reply.status not in (200, 202, 204):
            raise ReplyError(f"{method} was refused: {reply.status} {reply.body[:300]!r}")
        return session

    def _post(self, asked: Question) -> bytes:
        load = self.load
        return post(
            load.port,
            asked.body,
            load.era,
            method=asked.method,
            name=asked.name,
            session=self.session,
            key=load.key,
        )


def run(load: Load) -> dict[str, Any]:
    """Load the server and report what it did."""
    connections: list[Connection] = []
    poll = select.epoll()
    try:
        # One by one, so that those before one that fails are closed.
        connections.extend(Connection(load, QUESTIONS * number) for number in range(load.connections))
        pattern = connections[0].learn()
        for connection in connections:
            connection.expect(pattern)
            connection.socket.setblocking(False)
            poll.register(connection.socket, select.EPOLLIN)
        gc.collect()
        gc.disable()
        outcome = _drive(load, poll, {one.socket.fileno(): one for one in connections})
        for connection in connections:
            connection.say_goodbye()
    finally:
        gc.enable()
        poll.close()
        for connection in connections:
            connection.socket.close()
    return outcome | {"compared": pattern is not None, "session": connections[0].session is not None}


def _drive(load: Load, poll: select.epoll, by_number: dict[int, Connection]) -> dict[str, Any]:
    clock, wait = time.perf_counter_ns, poll.poll
    awake_ns = AWAKE_NS if load.connections > 1 else 0  # alone, it would only be in the server's way
    latencies: list[int] = []
    now = clock()
    warm_until = now + int(load.warm_s * 1e9)
    stop_at = begin = end = 0
    cpu_begin = client_begin = cpu_end = client_end = 0.0
    for connection in by_number.values():
        connection.ask(now)
    busy = len(by_number)
    count_begin = count_end = 0
    while busy:
        ready = wait(0)
        if not ready:
            if clock() - now < awake_ns:
                continue
            ready = wait(PATIENCE_S)
            if not ready:
                raise ReplyError(f"no reply within {PATIENCE_S:.0f} s")
        for number, _ in ready:
            connection = by_number[number]
            data = connection.recv(CHUNK)
            if connection.pending:
                data = connection.pending + data
                connection.pending = b""
            if not (data.endswith(connection.expected) and data.startswith(OK)) and not connection.settle(
                data
            ):
                continue
            now = clock()
            latencies.append(now - connection.asked_at)
            if end:
                busy -= 1
            else:
                connection.ask(now)
        if not begin:
            if now >= warm_until:
                begin, cpu_begin, client_begin = clock(), watch.cpu_s(load.pids), time.process_time()
                count_begin = len(latencies)
                stop_at = begin + int(load.measure_s * 1e9)
        elif not end and now >= stop_at and len(latencies) - count_begin >= load.at_least:
            end, cpu_end, client_end = clock(), watch.cpu_s(load.pids), time.process_time()
            count_end = len(latencies)
    measured = sorted(latencies[count_begin:count_end])
    wall_s = (end - begin) / 1e9
    return {
        "calls": len(measured),
        "wall_s": wall_s,
        "calls_per_s": len(measured) / wall_s,
        "cpu_per_call_s": (cpu_end - cpu_begin) / len(measured),
        "server_busy": (cpu_end - cpu_begin) / wall_s,
        "client_busy": (client_end - client_begin) / wall_s,
        "p50_s": measured[len(measured) // 2] / 1e9,
        "p99_s": measured[min(len(measured) - 1, len(measured) * 99 // 100)] / 1e9,
    }


def main() -> None:
    known = {field.name for field in dataclasses.fields(Load)}
    given = json.loads(sys.argv[1])
    print(json.dumps(run(Load(**{key: value for key, value in given.items() if key in known}))))


if __name__ == "__main__":
    main()
