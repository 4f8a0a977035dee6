"""toolcrib with everything that a policy can demand of a call, and the audit log by itself."""

from __future__ import annotations

from pathlib import Path

from bench.lab import Job, Lab, Outcome, last_json, run_python
from bench.wire.contenders import Contender, serving
from bench.wire.jobs import PATIENCE_S, Span, load, prefixed
from bench.wire.messages import MODERN

GUARDED = Contender("toolcrib, guarded", "toolcrib", "guarded_server", stdio=None)


def http_calls(span: Span, connections: tuple[int, ...], folder: Path) -> Job:
    """A fresh server with a key, rules, limits and an audit log, loaded by the holder of the key."""
    home = folder / "guarded"
    home.mkdir(exist_ok=True)
    key = last_json(run_python(["-m", "bench.wire.servers.guarded_server", "key", str(home)]))["key"]

    def job() -> Outcome:
        outcome: Outcome = {}
        with serving(GUARDED, str(home)) as running:
            load(running, MODERN, 16, Span(0, 0), at_least=GUARDED.warm_calls, key=key)
            for count in connections:
                found = load(running, MODERN, count, span, key=key)
                outcome |= prefixed(f"{MODERN}, {count}", found)
        return outcome

    return job


def records(lab: Lab) -> Job:
    """Records that are committed in a second, by many who wait for each."""

    def job() -> Outcome:
        outcome: Outcome = {}
        for kind in ("sqlite", "jsonl"):
            words = ["-m", "bench.wire.recording", kind, str(lab.folder), "0.5" if lab.quick else "2"]
            outcome |= prefixed(kind, last_json(run_python(words, timeout_s=PATIENCE_S)))
        return outcome

    return job
