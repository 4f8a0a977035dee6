"""The measurements of the wire as jobs of the lab: each starts what it needs and yields flat figures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from bench.lab import Job, Lab, Outcome, last_json, run_python
from bench.wire import watch
from bench.wire.contenders import Contender, Running, serving
from bench.wire.messages import ERAS, GET, MODERN, READ, Era

PATIENCE_S = 300.0


@dataclass(frozen=True)
class Span:
    """How long a load warms up and is measured."""

    warm_s: float
    measure_s: float

    @classmethod
    def of(cls, lab: Lab) -> Span:
        return cls(0.2, 0.4) if lab.quick else cls(0.3, 0.9)


def load(running: Running, era: Era, connections: int, span: Span, **more: Any) -> Outcome:
    """Load a server that runs."""
    given = {
        "port": running.port,
        "pids": running.pids,
        "era": era,
        "connections": connections,
        "warm_s": span.warm_s,
        "measure_s": span.measure_s,
        **more,
    }
    return _run("bench.wire.load", given)


def http_calls(contender: Contender, span: Span, connections: tuple[int, ...], *made: str) -> Job:
    """A fresh server, loaded in both eras at every number of connections, then with the sync tool."""
    eras = list(ERAS)

    def job() -> Outcome:
        outcome: Outcome = {}
        with serving(contender, *made) as running:
            for era in eras:  # so that the first one measured finds the server as warm as the last one
                load(running, era, 16, Span(0, 0), at_least=contender.warm_calls)
            for era in eras:
                for count in connections:
                    outcome |= prefixed(f"{era}, {count}", load(running, era, count, span))
            outcome |= prefixed("echo", load(running, MODERN, 16, span, tool="echo"))
        eras.reverse()
        return outcome

    return job


def http_features(contender: Contender, span: Span) -> Job:
    """A fresh server, from which a resource is read and a prompt is got in both eras."""

    def job() -> Outcome:
        outcome: Outcome = {}
        with serving(contender) as running:
            for era in ERAS:
                for kind in (READ, GET):
                    load(running, era, 16, Span(0, 0), at_least=contender.warm_calls, tool=kind)
                    outcome |= prefixed(f"{era}, {kind}", load(running, era, 16, span, tool=kind))
        return outcome

    return job


def engine_list(count: int) -> Job:
    """The list of so many resources, bytes in and bytes out, once it is cached."""

    def job() -> Outcome:
        return last_json(run_python(["-m", "bench.wire.many_resources", str(count)], timeout_s=PATIENCE_S))

    return job


def pipe_calls(contender: Contender, span: Span, in_flight: tuple[int, ...]) -> Job:
    """A fresh server on stdio for each era."""

    def job() -> Outcome:
        outcome: Outcome = {}
        for era in ERAS:
            found = _pipe(
                "calls",
                contender,
                era,
                in_flight=in_flight,
                warm_s=span.warm_s,
                warm_calls=contender.warm_calls,
                measure_s=span.measure_s,
            )
            for count in in_flight:
                outcome |= prefixed(f"{era}, {count}", found[str(count)])
        return outcome

    return job


def pipe_start(contender: Contender) -> Job:
    """Two fresh processes, one for each era, until their first answer."""

    def job() -> Outcome:
        outcome: Outcome = {}
        for era in ERAS:
            outcome |= prefixed(era, _pipe("start", contender, era))
        return outcome

    return job


def pipe_weight(contender: Contender, calls: int) -> Job:
    def job() -> Outcome:
        found = _pipe("start", contender, MODERN, calls=calls)
        return {"start": found["rss_bytes"], "later": found["rss_later_bytes"]}

    return job


def http_weight(contender: Contender, calls: int) -> Job:
    def job() -> Outcome:
        with serving(contender) as running:
            at_start = watch.rss_bytes(running.pids)
            load(running, MODERN, 16, Span(0, 0), at_least=calls)
            return {"start": at_start, "later": watch.rss_bytes(running.pids)}

    return job


def listing(running: Running, count: int, measure_s: float) -> Outcome:
    given = {"port": running.port, "pids": running.pids, "count": count, "measure_s": measure_s}
    return _run("bench.wire.listing", given)


def engine(library: str, door: str, batch_s: str) -> Job:
    """The engine of one library in process, both eras."""

    def job() -> Outcome:
        outcome: Outcome = {}
        for era in ERAS:
            arguments = ["-m", "bench.wire.engine", library, door, era, batch_s]
            outcome |= prefixed(era, last_json(run_python(arguments, timeout_s=PATIENCE_S)))
        return outcome

    return job


def _pipe(measure: str, contender: Contender, era: Era, **more: Any) -> Outcome:
    given = {"command": contender.command(contender.stdio or ""), "era": era, **more}
    return _run("bench.wire.pipe", given, measure)


def _run(module: str, given: dict[str, Any], *words: str) -> Outcome:
    return last_json(run_python(["-m", module, *words, json.dumps(given)], timeout_s=PATIENCE_S))


def prefixed(prefix: str, outcome: Outcome) -> Outcome:
    """The figures of one measurement, told apart from others."""
    return {f"{prefix}: {key}": value for key, value in outcome.items()}
