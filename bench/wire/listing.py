"""The list of all tools, over HTTP, until it is complete: `python -m bench.wire.listing PARAMETERS`.

Follows the cursors where a server sends pages. The first list is read in full; later ones must have the same
bytes in the same number.
"""

from __future__ import annotations

import json
import socket
import statistics
import sys
import time
from typing import Any

from bench.wire import watch
from bench.wire.messages import MODERN, post, request
from bench.wire.replies import END_OF_CHUNKS, END_OF_HEAD, ReplyError, message_of, split

PATIENCE_S = 240.0
CHUNK = 1 << 20
METHOD = "tools/list"


def whole_reply(connection: socket.socket) -> bytes:
    """One HTTP reply of any length."""
    data = bytearray()
    while END_OF_HEAD not in data:
        data += _received(connection)
    head, _, _ = bytes(data).partition(END_OF_HEAD)
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    if lengths:
        size = len(head) + len(END_OF_HEAD) + int(lengths[0].split(b":")[1])
        while len(data) < size:
            data += _received(connection)
    else:
        while not data.endswith(END_OF_CHUNKS):
            data += _received(connection)
    return bytes(data)


def _received(connection: socket.socket) -> bytes:
    data = connection.recv(CHUNK)
    if not data:
        raise ReplyError("the server closed the connection")
    return data


def read_pages(connection: socket.socket, port: int) -> tuple[list[bytes], list[int], list[str]]:
    """The requests that fetch the whole list, the lengths of their replies, and the names of the tools."""
    requests: list[bytes] = []
    lengths: list[int] = []
    names: list[str] = []
    parameters: dict[str, Any] = {}
    while True:
        body = request(MODERN, METHOD, len(requests), parameters)
        requests.append(post(port, body, MODERN, method=METHOD))
        connection.sendall(requests[-1])
        raw = whole_reply(connection)
        reply = split(raw)
        if reply is None:
            raise ReplyError("an incomplete reply")
        result = message_of(reply)["result"]
        lengths.append(len(raw))
        names += [tool["name"] for tool in result["tools"]]
        if "nextCursor" not in result:
            return requests, lengths, names
        parameters = {"cursor": result["nextCursor"]}


def run(given: dict[str, Any]) -> dict[str, Any]:
    port, pids = given["port"], given["pids"]
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        requests, lengths, names = read_pages(connection, port)
        if len(set(names)) != given["count"]:
            raise ReplyError(f"{len(set(names))} of {given['count']} tools are listed")
        walls: list[float] = []
        cpus: list[float] = []
        until = time.perf_counter() + given["measure_s"]
        while not walls or time.perf_counter() < until:
            begin, cpu = time.perf_counter(), watch.cpu_s(pids)
            for one, length in zip(requests, lengths, strict=True):
                connection.sendall(one)
                if len(whole_reply(connection)) != length:
                    raise ReplyError("a list that differs from the first")
            walls.append(time.perf_counter() - begin)
            cpus.append(watch.cpu_s(pids) - cpu)
    return {
        "wall_s": statistics.median(walls),
        "cpu_s": statistics.median(cpus),
        "lists": len(walls),
        "pages": len(requests),
        "bytes": sum(lengths),
    }


def main() -> None:
    print(json.dumps(run(json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
