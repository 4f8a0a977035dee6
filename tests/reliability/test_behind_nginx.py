"""A server behind nginx, with the two files of docs/how-to/nginx.md. Part of the soak."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers.serve_process import TOOLCRIB, Serving
from tests.support.system.certificates import make_certificate
from tests.support.system.requires import lack
from toolcrib.client import Client
from toolcrib.context import Answer, Question
from toolcrib.errors import TransportError

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/nginx.md"
NAME = "tools.example.com"
ERAS = ("2026-07-28", "2025-11-25")
START_S = 10.0
TOOLS = '''
import asyncio
from toolcrib import Context, tool

@tool
async def count(ctx: Context, steps: int, pause_s: float) -> str:
    """Count slowly."""
    try:
        for step in range(steps):
            await ctx.progress(step, steps)
            await asyncio.sleep(pause_s)
    except asyncio.CancelledError:
        print("count was cancelled", flush=True)
        raise
    return "counted"

@tool(timeout_s=120)
async def wait(seconds: float) -> str:
    """Wait in silence."""
    await asyncio.sleep(seconds)
    return "waited"

@tool
async def confirm(ctx: Context) -> str:
    """Ask the user."""
    schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
    answer = await ctx.ask("sure", "Sure?", schema)
    return str(answer and answer["sure"])

@tool
def measure(text: str) -> int:
    """Return the length."""
    return len(text)
'''
MAIN = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/bodies;
    proxy_temp_path {folder}/proxied;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/tools.conf;
}}
"""

pytestmark = pytest.mark.skipif("TOOLCRIB_SOAK" not in os.environ, reason="a long test: python dev.py soak")


@dataclass
class Site:
    """nginx and the server behind it."""

    port: int
    headers: dict[str, str]
    certificate: Path
    serving: Serving

    def client(self, protocol: str = "auto", path: str = "/mcp", **options: Any) -> Client:
        url = f"https://{NAME}:{self.port}{path}"
        return Client(url, protocol=protocol, headers=self.headers, timeout_s=120, **options)

    def curl(self, path: str, *options: str) -> str:
        """Return the status of a response."""
        command = ["curl", "-s", "-o", os.devnull, "-w", "%{http_code}", "--cacert", str(self.certificate)]
        command += ["--resolve", f"{NAME}:{self.port}:127.0.0.1", *options]
        done = subprocess.run(
            [*command, f"https://{NAME}:{self.port}{path}"], capture_output=True, text=True, check=False
        )
        return done.stdout


def read_page(title: str) -> str:
    found = re.search(rf'^```\w+ title="{re.escape(title)}"\n(.*?)^```', PAGE.read_text(), re.M | re.S)
    assert found is not None
    return found[1]


def write_configuration(folder: Path, port: int, upstream: str) -> Path:
    """Write the configuration of the page, with ports and files of this test; return the certificate."""
    certificate, key = make_certificate(folder, NAME)
    more = re.search(r"^```nginx\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert more is not None
    text = read_page("tools.conf").rstrip().removesuffix("}") + more[1] + "}\n"
    changes = {
        "listen 443": f"listen 127.0.0.1:{port}",
        "127.0.0.1:8000": upstream,
        f"/etc/letsencrypt/live/{NAME}/fullchain.pem": str(certificate),
        f"/etc/letsencrypt/live/{NAME}/privkey.pem": str(key),
    }
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "tools.conf").write_text(text)
    (folder / "nginx.conf").write_text(MAIN.format(folder=folder))
    return certificate


def await_listening(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError("nginx does not listen")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if nginx is None or shutil.which("curl") is None:
        lack("nginx or curl is not installed")
    folder = tmp_path_factory.mktemp("nginx")
    (folder / "tools.py").write_text(TOOLS)
    (folder / "toolcrib.toml").write_text(read_page("toolcrib.toml").replace("toolcrib.samples", "tools.py"))
    create = [*TOOLCRIB, "keys", "create", "ana", "--file", "shop.keys.json"]
    key = subprocess.run(create, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with Serving(cwd=folder) as serving:
        certificate = write_configuration(folder, port, serving.address.split("/")[2])
        command = [nginx, "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]
        with subprocess.Popen(command) as process:
            try:
                await_listening(port, process)
                yield Site(port, {"Authorization": f"Bearer {key}"}, certificate, serving)
            finally:
                process.terminate()


@pytest.fixture
def site(running: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The site under its public name, with a certificate that clients trust."""
    find = socket.getaddrinfo

    def find_here(host: Any, *args: Any, **options: Any) -> Any:
        return find("127.0.0.1" if host in (NAME, NAME.encode()) else host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", find_here)
    monkeypatch.setenv("SSL_CERT_FILE", str(running.certificate))
    return running


async def agree(question: Question) -> Answer:
    return Answer("accept", {"sure": True})


def progress_into(times: list[float]) -> Callable[..., None]:
    return lambda *_: times.append(time.monotonic())


def test_credentials_host_names_and_sizes_are_checked_behind_nginx(site: Site) -> None:
    key = ("-H", f"Authorization: {site.headers['Authorization']}")
    assert site.curl("/health") == "200"
    assert site.curl("/mcp") == "401"
    assert site.curl("/mcp", "-H", "Host: evil.example", *key) == "421"
    assert site.curl("/mcp", "-H", "Origin: https://evil.example", *key) == "403"
    assert site.curl("/metrics") == "404"


@pytest.mark.parametrize("protocol", ERAS)
async def test_progress_arrives_when_it_is_sent(site: Site, protocol: str) -> None:
    times: list[float] = []
    async with site.client(protocol) as client:
        result = await client.call("count", {"steps": 4, "pause_s": 0.5}, on_progress=progress_into(times))
    assert result.text == "counted"
    assert len(times) == 4
    assert times[-1] - times[0] > 1


@pytest.mark.parametrize("protocol", ERAS)
async def test_the_user_can_be_asked(site: Site, protocol: str) -> None:
    async with site.client(protocol, on_ask=agree) as client:
        assert (await client.call("confirm")).text == "True"


async def test_clients_of_2024_11_05_have_their_stream(site: Site) -> None:
    times: list[float] = []
    async with site.client(path="/sse") as client:
        result = await client.call("count", {"steps": 2, "pause_s": 0.5}, on_progress=progress_into(times))
    assert (result.text, len(times)) == ("counted", 2)


async def test_large_requests_pass_up_to_the_limit(site: Site) -> None:
    async with site.client() as client:
        assert (await client.call("measure", {"text": "x" * 1_000_000})).text == "1000000"
        with pytest.raises(TransportError, match="answered 413"):
            await client.call("measure", {"text": "x" * 4_194_304})


async def test_a_client_that_leaves_cancels_its_call(site: Site) -> None:
    started = asyncio.Event()
    client = site.client(ERAS[0])
    await client.connect()
    arguments = {"steps": 60, "pause_s": 0.5}
    call = asyncio.create_task(client.call("count", arguments, on_progress=lambda *_: started.set()))
    await asyncio.wait_for(started.wait(), START_S)
    call.cancel()
    await client.close()
    await asyncio.to_thread(site.serving.wait_for, "count was cancelled")


async def test_calls_may_be_silent_for_longer_than_a_minute(site: Site) -> None:
    async def call(protocol: str) -> str:
        async with site.client(protocol) as client:
            return (await client.call("wait", {"seconds": 65})).text

    assert await asyncio.gather(*map(call, ERAS)) == ["waited", "waited"]
