"""Metrics and JSON logs of `toolcrib serve`."""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.support.servers.serve_process import Serving, children_of, start, wait_until

from .conftest import CommandLine

TOOLS = '''
from toolcrib import tool

@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

@tool
def boom(text: str) -> str:
    """Raise."""
    raise RuntimeError(f"no: {text} password=hunter2")
'''
WATCHED = """
[server]
targets = ["tools.py"]

[telemetry]
prometheus = true

[log]
format = "json"
"""
OK = 'toolcrib_calls_total{tool="add",outcome="ok",code=""}'


def write(folder: Path, settings: str = WATCHED) -> Path:
    (folder / "tools.py").write_text(TOOLS)
    (folder / "toolcrib.toml").write_text(settings)
    return folder


def read_page(serving: Serving) -> str:
    """Return the metrics, read on a new connection."""
    with urllib.request.urlopen(serving.address.replace("/mcp", "/metrics"), timeout=10) as answer:
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        text: str = answer.read().decode()
    return text


def count(page: str, metric: str) -> int:
    return sum(int(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(f"{metric} "))


def test_metrics_and_json_logs_are_set_in_the_file(tmp_path: Path) -> None:
    with Serving("--log-level", "info", cwd=write(tmp_path)) as serving:
        assert serving.call("add", a=1, b=2) == "3"
        assert "reference" in serving.call("boom", text="a\n\x1b[31mb")
        assert count(read_page(serving), OK) == 1
        serving.wait_for('"trace"')
        assert serving.end() == 0
    records = [json.loads(line) for line in serving.errors.splitlines() if line.startswith("{")]
    [ended] = [item for item in records if item["message"] == "call ended: ok"]
    assert (ended["level"], ended["tool_name"], ended["principal"]) == ("info", "add", "local")
    [crash] = [item for item in records if item.get("error_type") == "RuntimeError"]
    assert "RuntimeError: no: [value] password=[redacted]" in crash["message"]
    assert crash["trace"].lstrip().startswith("File ")
    assert "no: [value] password=[redacted]" in crash["trace"]
    assert "hunter2" not in crash["message"]


def test_the_command_line_overrides_the_file(tmp_path: Path) -> None:
    with Serving("--log-level", "info", "--log-format", "text", cwd=write(tmp_path)) as serving:
        serving.call("add", a=1, b=2)
        serving.wait_for(" info: call ended: ok")


def test_each_worker_returns_the_sum_of_all(tmp_path: Path) -> None:
    with Serving("--workers", "2", cwd=write(tmp_path)) as serving:
        for number in range(12):
            assert serving.call("add", a=number, b=0) == str(number)
        wait_until(lambda: count(read_page(serving), OK) == 12, lambda: read_page(serving))
        assert {count(read_page(serving), OK) for _ in range(8)} == {12}
        assert serving.end() == 0


def test_the_supervisor_logs_json_too(tmp_path: Path) -> None:
    write(tmp_path, WATCHED.replace("json", "text"))
    with (tmp_path / "tools.py").open("a") as file:
        file.write('\n@tool\ndef bad(*args) -> str:\n    """Cannot be one."""\n    return ""\n')
    options = ("--workers", "2", "--log-level", "info", "--log-format", "json")
    with Serving(*options, cwd=tmp_path) as serving:
        victim, _ = children_of(serving.process.pid)
        os.kill(victim, signal.SIGKILL)
        serving.wait_for("starting another one")
        wait_until(lambda: len(set(children_of(serving.process.pid)) - {victim}) == 2)
        serving.call("add", a=1, b=2)
        assert serving.end() == 0
    records = [json.loads(line) for line in serving.errors.splitlines()]
    [ended] = [item for item in records if "starting another one" in item["message"]]
    assert ended["level"] == "warning"
    assert ended["message"].startswith(f"worker {victim} was killed by SIGKILL")
    [refused] = [item for item in records if "takes *args" in item["message"]]
    assert (refused["level"], refused["logger"]) == ("error", "toolcrib")
    assert {item["level"] for item in records} == {"info", "warning", "error"}


@pytest.mark.parametrize("workers", ["1", "2"])
def test_errors_at_the_start_are_json(tmp_path: Path, workers: str) -> None:
    write(tmp_path, WATCHED + '[auth]\nkeys = "none.json"\n')
    with start("serve", "--port", "0", "--workers", workers, cwd=tmp_path) as process:
        out, errors = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    [record] = [json.loads(line) for line in errors.splitlines()]
    assert record["message"] == "toolcrib.toml:11: auth.keys: none.json: no such file"
    assert record["hint"].startswith("create a key: toolcrib keys create NAME")


def test_the_start_message_is_one_json_line(tmp_path: Path) -> None:
    with start("serve", "--port", "0", cwd=write(tmp_path)) as process:
        assert process.stderr is not None
        greeting = json.loads(process.stderr.readline())
        process.terminate()
        _, rest = process.communicate(timeout=60)
    assert greeting["message"].startswith("toolcrib: serving 2 tools at http://127.0.0.1:")
    assert [json.loads(line) for line in rest.splitlines()] == []


def test_without_telemetry_there_are_no_metrics(tmp_path: Path) -> None:
    write(tmp_path, '[server]\ntargets = ["tools.py"]\n')
    with Serving(cwd=tmp_path) as serving, pytest.raises(urllib.error.HTTPError) as caught:
        read_page(serving)
    with caught.value as answer:
        assert answer.code == 404


@pytest.mark.parametrize("given", ["--stdio", "--port 0", "--port 0 toolcrib.toml tools.py"])
def test_errors_of_a_file_with_json_logs_are_json(cli: CommandLine, given: str) -> None:
    write(cli.folder, WATCHED + '[[rules]]\ndeny = ["add"]\nfoo = 1\n')
    done = cli.run("serve", *given.split(), stdin="")
    first, *_ = [json.loads(line) for line in done.stderr.splitlines()]
    assert (first["level"], first["message"]) == ("error", "toolcrib.toml:12: rules[1].foo: unknown key")
    assert first["hint"].startswith("known keys: ")


@pytest.mark.parametrize("text", ["[log\n", "log = 3\n", '[log]\nformat = "jsn"\n'])
def test_errors_are_text_where_the_log_format_cannot_be_read(cli: CommandLine, text: str) -> None:
    cli.write("toolcrib.toml", text)
    assert cli.run("serve", "--stdio", stdin="").stderr.startswith("error: toolcrib.toml:")


def test_an_unknown_log_format_is_refused(cli: CommandLine) -> None:
    done = cli.run("serve", "--log-format", "xml")
    assert done.exit_code == 2
    assert "'xml' is not one of 'text', 'json'" in done.stderr
