"""The example that `python dev.py fleet` runs: three replicas behind a proxy."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.system.engines import Server
from tests.support.system.fleet import Fleet, run_fleet
from toolcrib.client import Client


@pytest.fixture(scope="module")
def fleet(postgresql_server: Server, redis_server: Server) -> Iterator[Fleet]:
    with run_fleet() as running:
        yield running


@pytest.mark.parametrize("protocol", ["2026-07-28", "2025-11-25"])
async def test_each_replica_answers_in_turn(fleet: Fleet, protocol: str) -> None:
    async with Client(fleet.url, protocol=protocol) as client:
        results = [await client.call("which_replica", {}) for _ in range(9)]
    assert {int(result.content[0]["text"]) for result in results} == {
        replica.pid for replica in fleet.replicas
    }


async def test_all_replicas_count_together(fleet: Fleet) -> None:
    made = 0
    async with Client(fleet.url) as client:
        for _ in range(9):
            made += not (await client.call("make_report", {"month": "2026-11"})).is_error
    assert made == 5


def test_the_status_lists_them(fleet: Fleet) -> None:
    status = json.loads(fleet.run("fleet", "status", "--json"))
    assert {each["pid"] for each in status["replicas"]} == {replica.pid for replica in fleet.replicas}


def test_a_replica_without_its_servers_does_not_start(fleet: Fleet) -> None:
    environ = {**fleet.environ, "TOOLCRIB_REDIS": "unix:///nowhere"}
    command = [sys.executable, "-m", "toolcrib", "serve", "--port", "0"]
    done = subprocess.run(command, cwd=fleet.folder, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "error: cannot connect to Redis: [Errno 2] No such file or directory" in done.stderr
