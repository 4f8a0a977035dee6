"""toolcrib with everything that a policy can demand of a call, and the audit log by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from bench.lab import Job, Lab, Outcome, ProbeError, last_json, run_python
from bench.wire.contenders import Contender, serving
from bench.wire.jobs import PATIENCE_S, Span, load, prefixed
from bench.wire.messages import MODERN

Loaded = Callable[..., Outcome]
"""Loads a server that runs: with so many connections, for so long."""
GUARDED = Contender("guarded", "toolcrib", "guarded_server", stdio=None)


@contextmanager
def servers(lab: Lab, racing: Sequence[Contender]) -> Iterator[dict[str, Loaded]]:
    """One server of each contender, and a guarded one with key, rules, limits and audit log; all warm."""
    home = lab.folder / "guarded"
    home.mkdir(exist_ok=True)
    key = last_json(run_python(["-m", "bench.wire.servers.guarded_server", "key", str(home)]))["key"]
    with ExitStack() as stack:
        ready: dict[str, Loaded] = {}
        for one in (*racing, GUARDED):
            made, more = ((str(home),), {"key": key}) if one is GUARDED else ((), {})
            try:
                running = stack.enter_context(serving(one, *made))
                load(running, MODERN, 16, Span(0, 0), at_least=one.warm_calls, **more)
            except ProbeError as problem:
                lab.lose(f"policy: {one.name}", str(problem))
            else:
                ready[one.name] = partial(load, running, MODERN, **more)
        yield ready


def unused(lab: Lab) -> Job:
    """A call without a policy, in calls by code that has never heard of policies."""
    return lambda: last_json(run_python(["-m", "bench.wire.unused", lab.batch_s], timeout_s=PATIENCE_S))


def records(lab: Lab) -> Job:
    """Records that are committed in a second, by many who wait for each."""

    def job() -> Outcome:
        words = ["-m", "bench.wire.recording", str(lab.folder), "0.5" if lab.quick else "2"]
        return prefixed("sqlite", last_json(run_python(words, timeout_s=PATIENCE_S)))

    return job
