"""One measurement of one library, in a process of its own: `python -m bench.probe LIBRARY MEASURE [OPTIONS]`.

Prints one JSON object as its last line. Times are CPU seconds of the whole process, worker threads
included, because wall time on a shared machine measures the neighbours.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench import functions, subjects, words
from bench.subjects import Subject

Call = Callable[[str, dict[str, Any]], Awaitable[Any]]
Requests = list[tuple[str, dict[str, Any]]]

WARM_UP_S = 0.05
BATCHES = 9
PICKS = 10


def version(subject: Subject, options: argparse.Namespace) -> dict[str, Any]:  # noqa: ARG001
    return {"version": subject.version()}


def register(subject: Subject, options: argparse.Namespace) -> dict[str, Any]:
    """Register made functions one by one, then build every definition."""
    made = functions.load_module(options.folder, options.count)
    server = subject.new_server()
    add = subject.adder(server)
    begin = time.process_time()
    add(made[0])
    first = time.process_time()
    for function in made[1:]:
        add(function)
    registered = time.process_time()
    if not options.define:
        return {"first_s": first - begin, "register_s": registered - begin}
    between = time.process_time()
    listed = asyncio.run(subject.definitions(server))
    defined = time.process_time()
    if len(listed) != options.count:
        raise RuntimeError(f"{len(listed)} of {options.count} tools are listed")
    register_s = registered - begin
    return {"first_s": first - begin, "register_s": register_s, "define_s": register_s + defined - between}


def call(subject: Subject, options: argparse.Namespace) -> dict[str, Any]:
    """Call the trivial function in process, again and again."""

    async def add_async(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    def add_sync(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    if options.one_core:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    chosen = add_async if options.kind == "async" else add_sync
    server = subject.new_server()
    subject.adder(server)(chosen)
    requests: Requests = [(chosen.__name__, {"a": 1, "b": 2})]
    return asyncio.run(_time_calls(subject, server, requests, options.batch_s, expected=3))


def scale(subject: Subject, options: argparse.Namespace) -> dict[str, Any]:
    """Call ten tools in turn among many, after a client has listed them all."""
    made = functions.load_module(options.folder, options.count)
    server = subject.new_server()
    add = subject.adder(server)
    for function in made:
        add(function)
    picks = functions.spread(options.count, PICKS)
    requests: Requests = [(made[pick].__name__, functions.arguments_for(pick)) for pick in picks]

    async def listed_then_called() -> dict[str, Any]:
        await subject.definitions(server)
        return await _time_calls(subject, server, requests, options.batch_s)

    return asyncio.run(listed_then_called())


def growth(subject: Subject, options: argparse.Namespace) -> dict[str, Any]:
    """A call among many tools against a call among few: both servers in one process, their batches in turn.

    Two processes on a shared machine differ by more than what is to be measured.
    """
    made = functions.load_module(options.folder, options.count)

    async def compare() -> dict[str, Any]:
        jobs: list[tuple[Call, Requests]] = []
        for chosen in (made[:PICKS], made):
            server = subject.new_server()
            add = subject.adder(server)
            for function in chosen:
                add(function)
            await subject.definitions(server)
            picks = functions.spread(len(chosen), PICKS)
            requests = [(made[pick].__name__, functions.arguments_for(pick)) for pick in picks]
            jobs.append((subject.caller(server), requests))
        repeats = 200
        quotients = []
        for _ in range(BATCHES * 2):
            few, many = [await _run(call, requests, repeats) for call, requests in jobs]
            quotients.append(many / few)
        return {"growth": statistics.median(quotients)}

    return asyncio.run(compare())


def size(subject: Subject, options: argparse.Namespace) -> dict[str, Any]:  # noqa: ARG001
    """What the sample functions look like in a tool list, and what was lost on the way."""
    server = subject.new_server()
    add = subject.adder(server)
    docstrings: dict[str, str] = {}
    refused: dict[str, str] = {}
    for function in functions.samples():
        try:
            add(function)
        except Exception as problem:  # whatever a library raises, the row must go on and say so
            refused[function.__name__] = f"{type(problem).__name__}: {problem}"
        else:
            docstrings[function.__name__] = function.__doc__ or ""
    definitions = asyncio.run(subject.definitions(server))
    entries = [subject.to_wire(definition) for definition in definitions]
    lost: Counter[str] = Counter()
    kept_back = 0
    per_tool: dict[str, dict[str, int]] = {}
    for definition, entry in zip(definitions, entries, strict=True):
        docstring, texts = docstrings[entry["name"]], words.texts_of(entry)
        missing = words.lost_words(docstring, [*texts, *subject.off_wire(definition)])
        kept_back += words.lost_words(docstring, texts).total() - missing.total()
        lost += missing
        if missing:
            per_tool[entry["name"]] = dict(missing)
    parameters = [
        schema for entry in entries for schema in entry["inputSchema"].get("properties", {}).values()
    ]
    return {
        "tools": len(entries),
        "bytes": len(json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()),
        "words": sum(words.words_of(words.without_markup(text)).total() for text in docstrings.values()),
        "lost": lost.total(),
        "kept_back": kept_back,
        "parameters": len(parameters),
        "described": sum(1 for schema in parameters if schema.get("description")),
        "refused": refused,
        "lost_words": per_tool,
    }


async def _time_calls(
    subject: Subject, server: Any, requests: Requests, batch_s: float, expected: Any = None
) -> dict[str, Any]:
    """CPU seconds per call: the median of batches that take about `batch_s` each."""
    call = subject.caller(server)
    for name, arguments in requests:
        value = subject.value(await call(name, arguments.copy()))
        if expected is not None and value != expected:
            raise RuntimeError(f"{name} returned {value!r} instead of {expected!r}")
    repeats = 1
    while (elapsed := await _run(call, requests, repeats)) < WARM_UP_S:
        repeats *= 2
    repeats = max(1, round(repeats * batch_s / elapsed))
    batches = [await _run(call, requests, repeats) for _ in range(BATCHES)]
    return {
        "call_s": statistics.median(batches) / (repeats * len(requests)),
        "calls": repeats * len(requests),
    }


async def _run(call: Call, requests: Requests, repeats: int) -> float:
    begin = time.process_time()
    for _ in range(repeats):
        for name, arguments in requests:
            await call(name, arguments.copy())
    return time.process_time() - begin


MEASURES = {
    "version": version,
    "register": register,
    "call": call,
    "scale": scale,
    "growth": growth,
    "size": size,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.probe", description=__doc__)
    parser.add_argument("library", choices=subjects.NAMES)
    parser.add_argument("measure", choices=MEASURES)
    parser.add_argument("--folder", type=Path, help="where the made modules are")
    parser.add_argument("--count", type=int, default=1000, help="how many tools")
    parser.add_argument("--define", action="store_true", help="build the definitions too")
    parser.add_argument("--kind", choices=("async", "sync"), default="async")
    parser.add_argument("--one-core", action="store_true", help="let all threads share one core")
    parser.add_argument("--batch-s", type=float, default=0.1, help="CPU seconds per batch of calls")
    options = parser.parse_args()
    subject = subjects.load(options.library)
    logging.disable(logging.CRITICAL)
    print(json.dumps(MEASURES[options.measure](subject, options)))


if __name__ == "__main__":
    main()
