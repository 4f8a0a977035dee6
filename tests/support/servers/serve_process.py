"""The real `toolcrib serve` in a separate process, called over HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import urljoin

from tests.support.system.fork_server import launch

SOURCES = str(Path(__file__).resolve().parents[3] / "src")
COMMAND = ("-c", "from toolcrib.cli import main; main()")
TOOLCRIB = [sys.executable, *COMMAND]
TIMEOUT_S = 60.0
MODERN = "2026-07-28"


class Serving:
    """`toolcrib serve` on a free port. `info` is its start message, `errors` its stderr output so far."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path | None = None,
        command: Sequence[str] = COMMAND,
        **variables: str,
    ) -> None:
        words = ("serve", "--port", "0", "--json", *arguments)
        self.process = start(*words, cwd=cwd, command=command, **variables)
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.__exit__()
            raise AssertionError(self.errors)
        self.info: dict[str, Any] = json.loads(line)
        self.address: str = self.info["address"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(TIMEOUT_S)
        finally:
            self.process.kill()
            self._reader.join(TIMEOUT_S)
            for stream in (self.process.stdout, self.process.stderr):
                assert stream is not None
                stream.close()

    @property
    def errors(self) -> str:
        return "".join(self._lines)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.append(line)

    def end(self, *signals: signal.Signals, timeout_s: float = TIMEOUT_S) -> int:
        """Send signals, wait for the end and for all output."""
        for number in signals or (signal.SIGTERM,):
            self.process.send_signal(number)
        code = self.process.wait(timeout_s)
        self._reader.join(TIMEOUT_S)
        return code

    def wait_for(self, words: str, count: int = 1) -> None:
        """Wait until a line was written `count` times."""
        wait_until(lambda: self.errors.count(words) >= count, lambda: f"{words!r} in {self.errors}")

    # --- speaking ---

    def post(self, message: Any, **headers: str) -> tuple[int, Any]:
        """Send one message on a new connection."""
        request = urllib.request.Request(
            self.address,
            json.dumps(message).encode(),
            {"content-type": "application/json", **{key.replace("_", "-"): v for key, v in headers.items()}},
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def ask(self, method: str, **params: Any) -> Any:
        """Return the result of a legacy request without a session."""
        status, answer = self.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        assert status == 200, answer
        return answer["result"]

    def ask_modern(self, method: str, **params: Any) -> Any:
        """Return the result of a request of 2026-07-28."""
        client = "io.modelcontextprotocol/client"
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            f"{client}Info": {"name": "test", "version": "1"},
            f"{client}Capabilities": {"elicitation": {}},
        }
        headers = {"mcp_protocol_version": MODERN, "mcp_method": method}
        if "name" in params:
            headers["mcp_name"] = params["name"]
        headers["accept"] = "application/json, text/event-stream"
        status, answer = self.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, **headers)
        assert status == 200, answer
        return answer["result"]

    def call(self, name: str, **arguments: Any) -> str:
        """Call a tool and return the text of its result."""
        text: str = self.ask("tools/call", name=name, arguments=arguments)["content"][0]["text"]
        return text

    def is_ready(self) -> bool:
        """Whether a load balancer may send requests here."""
        try:
            with urllib.request.urlopen(urljoin(self.address, "/ready"), timeout=TIMEOUT_S) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError as error:
            with error:
                return False

    def names(self) -> list[str]:
        return [tool["name"] for tool in self.ask("tools/list")["tools"]]


class Calling(threading.Thread):
    """A running call. `outcome` is its text or its error."""

    def __init__(self, serving: Serving, name: str, **arguments: Any) -> None:
        super().__init__(daemon=True)
        self._serving, self._name, self._arguments = serving, name, arguments
        self.outcome: str | Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self.outcome = self._serving.call(self._name, **self._arguments)
        except Exception as error:
            self.outcome = error


def start(
    *arguments: str,
    cwd: Path | None = None,
    stdin: int | None = None,
    command: Sequence[str] = COMMAND,
    **variables: str,
) -> Any:
    return launch(
        *command,
        *arguments,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        text=True,
        env={**os.environ, "PYTHONPATH": SOURCES, "PYTHONUTF8": "1", **variables},
    )


def wait_until(
    is_so: Callable[[], bool],
    explain: Callable[[], str] = lambda: "it never came about",
    timeout_s: float = TIMEOUT_S,
) -> None:
    """Poll for something that happens in another process."""
    end = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < end, explain()
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children_of(pid: int) -> Sequence[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
