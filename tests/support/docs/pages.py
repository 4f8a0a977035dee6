"""Run a page of the documentation in a folder of its own, from top to bottom.

- A fenced block with `title="shop.py"` is written to that file, and with `title="shop.py (continued)"` added
  to it. A Python file is executed too.
- A Python block without a title is executed; such blocks of one page share their names.
- A `console` block has commands after `$` and their output, standard error included. They are run, and the
  output is compared. `...` stands for any text, and on a line of its own for any lines.
- A server (`toolcrib serve`, `uvicorn`) is started, compared with the lines below it, and ended with the
  page. Port 8000 is replaced by a free one.

Variables of one command, as in `KEY=$(toolcrib keys create ana)`, are kept for the next ones.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from tests.support.system import fork_server

TIMEOUT_S = 60
START_S = 15
_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^" ]+)( \(continued\))?"')
_COMMAND = re.compile(r"^\$ (.*(?:\\\n.*)*)\n?", re.MULTILINE)
_ASSIGNMENT = re.compile(r"(\w+)=\$\((.*)\)")
_VARIABLE = re.compile(r"\$(\w+)")
_PLAIN = re.compile(r"(?:toolcrib|python) [^;|<>&]*$")
"""A command that needs no shell. Most of what it costs are its imports, so it is a fork."""
_SERVER = re.compile(r"toolcrib serve\b(?!.* --(?:stdio|help))|uvicorn |python -m uvicorn ")
HOME = "/home/ana/shop"
"""The folder in which readers are told to be."""


@dataclass
class Page:
    path: Path
    folder: Path
    names: dict[str, object] = field(default_factory=lambda: {"__name__": "documented"})
    variables: dict[str, str] = field(default_factory=dict)
    servers: list[tuple[Any, TextIO]] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    port: int = 0

    def run(self) -> None:
        text = self.path.read_text()
        try:
            for match in _FENCE.finditer(text):
                language, options, body = match.groups()
                line = text[: match.start()].count("\n") + 1
                title = _TITLE.search(options)
                names = self.names
                if title:
                    file = self.folder / title[1]
                    names = {"__name__": "documented", "__file__": str(file)}
                    file.parent.mkdir(parents=True, exist_ok=True)
                    before = f"{file.read_text()}\n" if title[2] else ""
                    file.write_text(before + body)
                if language == "python":
                    exec(compile("\n" * line + body, str(self.path), "exec", dont_inherit=True), names)
                elif language == "console":
                    self._run_console(body, line)
        finally:
            self._stop_servers()
        assert not self.differences, "\n\n".join(self.differences)

    def _run_console(self, body: str, line: int) -> None:
        found = list(_COMMAND.finditer(body))
        assert found, f"{self.path.name}:{line}: a console block needs a command after $"
        ends = [match.start() for match in found[1:]] + [len(body)]
        for match, end in zip(found, ends, strict=True):
            expected = body[match.end() : end].strip("\n")
            where = f"{self.path.name}:{line + 1 + body[: match.start()].count(chr(10))}: $ {match[1]}"
            command = match[1].partition("   #")[0]
            output = self._start(command, expected) if _SERVER.match(command) else self._call(command)
            output = self._simplify(output)
            if not _matches(output, expected):
                self.differences.append(f"{where}\nprinted:\n{output}\nnot:\n{expected}")

    def _environ(self) -> dict[str, str]:
        programs = str(Path(sys.executable).parent)
        return {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.folder / "home"),
            "NO_COLOR": "1",
            "COLUMNS": "120",
            "PYTEST_ADDOPTS": "-p no:cacheprovider",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            **self.variables,
        }

    def _prepare(self, command: str) -> str:
        if not self.port:
            return command
        return re.sub(
            r":8000\b|--port 8000\b", lambda found: found[0].replace("8000", str(self.port)), command
        )

    def _launch(self, command: str, **streams: Any) -> Any:
        options = {"cwd": self.folder, "env": self._environ(), **streams}
        if not _PLAIN.match(command):
            return subprocess.Popen(["sh", "-c", command], **options)
        words = [
            _VARIABLE.sub(lambda name: self.variables[name[1]], word)
            for word in shlex.split(command.replace("\\\n", ""))
        ]
        return fork_server.launch(*(words[1:] if words[0] == "python" else ["-m", *words]), **options)

    def _call(self, command: str) -> str:
        """Run a command to its end and return its output; of an assignment, what it wrote to stderr."""
        assignment = _ASSIGNMENT.fullmatch(command)
        command = self._prepare(assignment[2] if assignment else command)
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as value:
            streams = {
                "stdin": subprocess.DEVNULL,
                "stdout": value if assignment else output,
                "stderr": output,
            }
            self._launch(command, **streams).wait(TIMEOUT_S)
            output.seek(0)
            value.seek(0)
            if assignment:
                self.variables[assignment[1]] = value.read().strip()
            return output.read()

    def _start(self, command: str, expected: str) -> str:
        """Start a server and return as much of its output as the page shows."""
        self._stop_servers()
        self.port = self.port or _find_port()
        command = self._prepare(command)
        if "--port" not in command:
            command += f" --port {self.port}"
        if not _PLAIN.match(command):
            command = f"exec {command}"  # without a shell around it
        reading, writing = os.pipe()
        lines = os.fdopen(reading)
        server = self._launch(command, stdin=subprocess.DEVNULL, stdout=writing, stderr=writing)
        os.close(writing)
        self.servers.append((server, lines))
        output = ""
        timer = threading.Timer(START_S, server.kill)  # ends the reading below
        timer.start()
        while line := lines.readline():
            output += line
            if _matches(self._simplify(output), expected):
                break
        timer.cancel()
        if server.poll() is None:
            _wait_for(self.port)
        return output

    def _simplify(self, output: str) -> str:
        """Return output with the folders and the port that readers have."""
        output = output.replace(str(Path(sys.executable).parent), f"{HOME}/.venv/bin")
        output = output.replace(str(self.folder), HOME).strip("\n")
        return output.replace(f":{self.port}", ":8000") if self.port else output

    def _stop_servers(self) -> None:
        for server, lines in self.servers:
            server.send_signal(signal.SIGTERM)
            with lines:
                lines.read()
            server.wait(TIMEOUT_S)
        self.servers.clear()


def _matches(output: str, expected: str) -> bool:
    lines = [
        r"(?:.*\n)*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n"
        for line in expected.splitlines()
    ]
    return re.fullmatch("".join(lines), f"{output}\n" if output else "") is not None


def _find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    """Return when a server listens on a port of this machine; what it logs first may come before that."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
