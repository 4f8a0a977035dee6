"""Secrets stay out of the log however a server was started, and whatever logging its author has set up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.servers.serve_process import TIMEOUT_S
from tests.support.servers.server_starts import WAYS, started

CANARY = "canary-61c0ffee"
VARIABLE = "plain-canary-61c0ffee"
LOGGING = {
    "none": "",
    "basic": "logging.basicConfig(level=logging.DEBUG)",
    # As structured formatters do: the exception itself is formatted, and every attribute is written.
    "structured": """
class Everything(logging.Handler):
    def emit(self, record):
        trace = logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
        print(record.getMessage(), repr(vars(record)), trace, file=sys.stderr, flush=True)

logging.getLogger().addHandler(Everything())
logging.getLogger().setLevel(logging.DEBUG)
""",
    "dict": """
import logging.config
logging.config.dictConfig({
    "version": 1,
    "handlers": {"err": {"class": "logging.StreamHandler"}},
    "loggers": {"toolcrib": {"level": "DEBUG", "handlers": ["err"]}},
})
""",
}
SERVER = '''
import logging, os, sys
from toolcrib import Application, Context, MCPServer, tool

LOGGING

server = MCPServer("canaries")
SECRET = os.environ["CANARY"]


@server.tool
def connect(secret: str) -> str:
    """Fail, and say too much about it."""
    raise ConnectionError(
        f"postgres://shop:{SECRET}@db refused password={SECRET!r} "
        f"Authorization: Bearer {SECRET} and {os.environ['SHOP_DB_PASSWORD']} for {secret}"
    )


@server.tool
async def tell(ctx: Context) -> str:
    """Log too much."""
    logging.getLogger("toolcrib").warning(
        "token=%s of %r",
        SECRET,
        {"password": SECRET},
        extra={"api_key": SECRET, "more": [{"at": f"Bearer {SECRET}"}]},
    )
    return "told"


class Shop(Application):
    def open(self):
        try:
            raise KeyError(f"password={SECRET}")
        except KeyError as error:
            raise ConnectionError(f"redis://shop:{SECRET}@db: {os.environ['SHOP_DB_PASSWORD']}") from error

    @tool
    def stock(self) -> int:
        """Count."""
        return 1


server.add(Shop())

if __name__ == "__main__":
    from tests.support.servers.server_starts import run

    run(server)
'''


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not is_so():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("setup", LOGGING)
@pytest.mark.parametrize("way", ["run http", "run stdio"])
async def test_no_secret_reaches_the_log_of_a_server_that_code_runs(
    way: str, setup: str, tmp_path: Path
) -> None:
    file = tmp_path / "canaries.py"
    file.write_text(SERVER.replace("LOGGING", LOGGING[setup], 1))
    async with started(way, file, CANARY=CANARY, SHOP_DB_PASSWORD=VARIABLE) as (client, said):
        assert (await client.call("connect", {"secret": "argument-61c0ffee"})).is_error
        assert (await client.call("tell")).text == "told"
        assert (await client.call("stock")).is_error
        await until(lambda: "tool 'connect' raised ConnectionError: postgres://shop:" in said())
        await until(lambda: "opening Shop failed" in said() and "token=" in said())
    assert "61c0ffee" not in said()
    assert "postgres://shop:[redacted]@db refused" in said()
    assert "token=[redacted]" in said()
    if setup != "none":  # without any handler, Python writes the words only
        assert "ConnectionError: redis://shop:[redacted]@db" in said()


@pytest.mark.parametrize("way", WAYS[:1])
async def test_a_server_that_the_command_runs_says_it_once(way: str, tmp_path: Path) -> None:
    file = tmp_path / "canaries.py"
    file.write_text(SERVER.replace("LOGGING", "", 1))
    async with started(way, file, CANARY=CANARY, SHOP_DB_PASSWORD=VARIABLE) as (client, said):
        assert (await client.call("connect", {"secret": "argument-61c0ffee"})).is_error
        await until(lambda: "tool 'connect' raised" in said())
    assert "61c0ffee" not in said()
    assert said().count("tool 'connect' raised ConnectionError: postgres://shop:[redacted]@db") == 1


BACKGROUND = '''
import asyncio, gc, os, subprocess, sys, threading
from toolcrib import MCPServer

server = MCPServer("background")


def fail() -> None:
    raise ConnectionError(f"login with {os.environ['SHOP_DB_PASSWORD']} failed, token={os.environ['CANARY']}")


def run_command() -> None:
    subprocess.run([sys.executable, "-c", "exit(1)", "--password", os.environ["CANARY"]], check=True)


async def fail_as_task() -> None:
    fail()


@server.tool
async def leave_work() -> str:
    """Start work that fails behind the call."""
    asyncio.get_running_loop().call_soon(fail)
    await asyncio.wait([asyncio.create_task(fail_as_task())])
    gc.collect()
    for work in (fail, run_command):
        thread = threading.Thread(target=work, name=f"{work.__name__}-thread")
        thread.start()
        thread.join()
    return "left"


if __name__ == "__main__":
    from tests.support.servers.server_starts import run

    run(server)
'''


@pytest.mark.parametrize("way", WAYS)
async def test_no_secret_of_work_behind_a_call_reaches_the_log(way: str, tmp_path: Path) -> None:
    file = tmp_path / "background.py"
    file.write_text(BACKGROUND)
    async with started(way, file, CANARY=CANARY, SHOP_DB_PASSWORD=VARIABLE) as (client, said):
        assert (await client.call("leave_work")).text == "left"
        for words in ("Exception in callback", "never retrieved", "thread fail-th", "thread run_command-th"):
            await until(lambda words=words: words in said())  # type: ignore[misc]
    assert "61c0ffee" not in said()
