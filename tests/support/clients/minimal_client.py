"""A client with as little overhead as possible: sends prebuilt bytes and finds the end of the answer.

    python tests/support/clients/minimal_client.py PORT

reads a line `COUNT SIZE` and SIZE bytes from standard input, sends them COUNT times, prints the CPU time and
the statuses as a line of JSON, and reads the next line. It imports nothing of this project, so that it starts
at once.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections import Counter


def main(port: int) -> None:
    while line := sys.stdin.buffer.readline():
        count, size = map(int, line.split())
        request = sys.stdin.buffer.read(size)
        print(json.dumps(send(port, request, count)), flush=True)


def send(port: int, request: bytes, count: int) -> dict[str, object]:
    seen: Counter[str] = Counter()
    buffer = bytearray(1 << 20)
    connection = None
    began = time.process_time()
    for _ in range(count):
        if connection is None:
            connection = connect(port)
        status, keeps = ask(connection, request, buffer)
        seen[status] += 1
        if not keeps:
            connection.close()
            connection = None
    took = time.process_time() - began
    if connection is not None:
        connection.close()
    return {"cpu_s": took, "seen": seen}


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), 60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def ask(connection: socket.socket, request: bytes, buffer: bytearray) -> tuple[str, bool]:
    """The status of the answer, and whether the connection can be used again."""
    try:
        connection.sendall(request)
    except OSError:
        pass  # the server does not take all of it, but may have answered
    try:
        size = connection.recv_into(buffer)
    except OSError:
        size = 0
    if not size:
        return "none", False
    head = bytes(buffer[:4096]).partition(b"\r\n\r\n")[0].lower()
    status, place = head[9:12].decode("latin-1"), head.find(b"content-length: ")
    if place < 0 or b"connection: close" in head:
        return status, False
    whole = len(head) + 4 + int(head[place + 16 :].split(b"\r", 1)[0])
    while size < whole:
        more = connection.recv_into(buffer)
        if not more:
            return status, False
        size += more
    return status, True


if __name__ == "__main__":
    main(int(sys.argv[1]))
