"""The list of many resources in process: `python -m bench.wire.many_resources COUNT`."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time

from bench.wire.messages import MODERN, request
from toolcrib import MCPServer

ROUNDS = 50


async def measure(count: int) -> dict[str, float]:
    server = MCPServer("bench")
    began = time.process_time()
    for number in range(count):
        server.add_resource(f"notes://{number}", f"Note {number}", description=f"The note of number {number}")
    added_s = time.process_time() - began
    async with server:
        received: list[bytes] = []
        pipe = server.transports.connect(received.append)
        pipe.feed(request(MODERN, "resources/list", 1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if len(json.loads(received[-1])["result"]["resources"]) != count:
            raise SystemExit("not all resources are listed")
        costs = []
        for _ in range(ROUNDS):
            began = time.process_time()
            pipe.feed(request(MODERN, "resources/list", 1))
            await asyncio.sleep(0)
            costs.append(time.process_time() - began)
    return {"cpu_s": statistics.median(costs), "added_s": added_s}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(int(sys.argv[1])))))
