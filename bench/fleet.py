"""What a replica of a fleet pays for a call: limits that Redis counts, records that PostgreSQL keeps.

`python -m bench.fleet VARIANT IN_FLIGHT SECONDS` measures one variant against engines in a temporary folder.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

from bench.lab import Lab, Outcome, last_json, median, run_python
from bench.lines import OURS, AtMost, Line
from tests.support.system.engines import MissingServerError, postgresql, redis
from toolcrib import MCPServer
from toolcrib.policy import Fleet, Limit, Policy
from toolcrib.state.base import Record

VARIANTS = ("bare", "counted", "recorded")
FLIGHTS = (1, 16, 64)
LINE = b'{"seq":1,' + b"x" * 370 + b'"}'


def fleet(lab: Lab) -> list[Line]:
    """The CPU of the replica for one call, over one without limits, and how long a lone call takes."""
    seconds, rounds = ("0.3", 2) if lab.quick else ("1.5", 7)
    jobs = {
        f"{variant} {flight}": lambda variant=variant, flight=flight: last_json(
            run_python(["-m", "bench.fleet", variant, str(flight), seconds])
        )
        for variant in VARIANTS
        for flight in FLIGHTS
    }
    outcomes = lab.rounds("fleet", rounds, jobs)

    def extra(variant: str, flight: int) -> float | None:
        ours, bare = (median(outcomes[f"{each} {flight}"], "cpu_s") for each in (variant, "bare"))
        return None if ours is None or bare is None else ours - bare

    lines = []
    for flight in FLIGHTS:
        counted, recorded = extra("counted", flight), extra("recorded", flight)
        lines.append(Line("fleet", f"{flight} in flight, counted in Redis", "time", {OURS: counted}))
        lines.append(Line("fleet", f"{flight} in flight, record in PostgreSQL", "time", {OURS: recorded}))
        if counted is not None and recorded is not None and flight > 1:
            goal = (AtMost({16: 50e-6, 64: 28e-6}[flight]),)
            lines.append(Line("fleet", f"{flight} in flight, both", "time", {OURS: counted + recorded}, goal))
    alone = {variant: median(outcomes[f"{variant} 1"], "p50_s") for variant in VARIANTS}
    lines += [Line("fleet", f"a lone call, {name}", "time", {OURS: p50_s}) for name, p50_s in alone.items()]
    return lines


class Records:
    """Records of calls that commit together: one COPY at a time, which takes all that came meanwhile."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._waiting: list[tuple[Record, asyncio.Future[None]]] = []
        self._numbers = itertools.count(1)
        self._writing: asyncio.Task[None] | None = None

    async def add(self) -> None:
        number, done = next(self._numbers), asyncio.get_running_loop().create_future()
        self._waiting.append((Record(number, number, f"c{number}", "key:ana", "add", "ok", LINE), done))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        await done

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            await self._store.append("bench", [record for record, _ in batch])
            for _, done in batch:
                done.set_result(None)
        self._writing = None


async def measure(variant: str, flight: int, seconds: float, stack: ExitStack) -> Outcome:
    """Call a tool for some seconds, with so many calls in flight."""
    from toolcrib.state.postgresql.database import migrate

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    key_file = folder / "fleet.key"
    key_file.touch(mode=0o600)
    key_file.write_text(secrets.token_urlsafe(32))
    database, counts = stack.enter_context(postgresql(is_durable=True)), stack.enter_context(redis())
    for name, engine in (("postgres", database), ("redis", counts)):
        (folder / name).write_text(engine.url)
    migrate(database.url)
    limits = [Limit(rate="1000000/s", daily=10**9, concurrency=1_000, per="principal")]
    server = MCPServer(
        "bench",
        policy=Policy(limits=limits if variant == "counted" else []),
        fleet=Fleet(postgres=f"file:{folder}/postgres", redis=f"file:{folder}/redis", key_file=key_file),
    )

    @server.tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    async with AsyncExitStack() as running:
        await running.enter_async_context(server)
        state: Any = server.storage.engine
        records = Records(state.audit)
        times: list[float] = []

        async def work(until: float) -> None:
            while (start := time.perf_counter()) < until:
                await server.call("add", a=1, b=2)
                if variant == "recorded":
                    await records.add()
                times.append(time.perf_counter() - start)

        for span_s in (0.2, seconds):  # the first is to warm up
            times.clear()
            cpu_s, start = time.process_time(), time.perf_counter()
            await asyncio.gather(*(work(start + span_s) for _ in range(flight)))
            cpu_s = time.process_time() - cpu_s
    return {"cpu_s": cpu_s / len(times), "p50_s": statistics.median(times), "calls": len(times)}


def main() -> None:
    variant, flight, seconds = sys.argv[1:]
    try:
        with ExitStack() as stack:
            import uvloop

            print(json.dumps(uvloop.run(measure(variant, int(flight), float(seconds), stack))))
    except MissingServerError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
