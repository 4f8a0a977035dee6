"""HTTP load from wrk, which costs so little that the server is the only one that is busy.

One connection of our own shakes hands and checks two replies first; after that wrk repeats one request, and a
reply with another status than 200 ends the measurement. wrk is a package of most Linux distributions.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time

from bench.lab import Outcome, ProbeError
from bench.wire import watch
from bench.wire.contenders import Running
from bench.wire.load import Connection, Load
from bench.wire.messages import Era, post

_REPORT = """
function done(summary)
  local failed = summary.errors
  io.write(string.format('{"calls": %d, "failed": %d}\\n', summary.requests,
    failed.connect + failed.read + failed.write + failed.status + failed.timeout))
end
"""


def is_installed() -> bool:
    return shutil.which("wrk") is not None


def load(running: Running, era: Era, connections: int, measure_s: float) -> Outcome:
    """Load a running server and return the CPU time per call and the calls per second."""
    pids = running.pids
    first = Connection(Load(running.port, pids, era, connections), 0)
    try:
        first.learn()
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
            script.write(_request_script(first, running.port, era) + _REPORT)
            script.flush()
            before, began = watch.cpu_s(pids), time.perf_counter()
            report = _run(script.name, running.port, connections, measure_s)
            cpu_s, wall_s = watch.cpu_s(pids) - before, time.perf_counter() - began
        first.say_goodbye()
    finally:
        first.socket.close()
    if report["failed"] or not report["calls"]:
        raise ProbeError(f"wrk: {report['failed']} of {report['calls']} calls failed")
    return {"cpu_per_call_s": cpu_s / report["calls"], "calls_per_s": report["calls"] / wall_s}


def _request_script(first: Connection, port: int, era: Era) -> str:
    body = first.questions[0].body
    request = post(port, body, era, method="tools/call", name="add", session=first.session)
    head = request[: -len(body)].decode().splitlines()[1:-1]
    headers = [line.split(": ", 1) for line in head]
    lines = ['wrk.method = "POST"', f"wrk.body = {json.dumps(body.decode())}"]
    lines += [f"wrk.headers[{json.dumps(name)}] = {json.dumps(value)}" for name, value in headers]
    return "\n".join(lines)


def _run(script: str, port: int, connections: int, measure_s: float) -> dict[str, int]:
    command = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(measure_s))}s", "-s", script]
    done = subprocess.run(
        [*command, f"http://127.0.0.1:{port}/mcp"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ProbeError(f"wrk ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    report: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return report
