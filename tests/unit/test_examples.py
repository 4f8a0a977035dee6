"""Every example runs: its definitions are without fault, and its tools do what they say."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.system import fork_server
from toolcrib import MCPServer
from toolcrib.context import Answer

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
FILES = ["notes.py", "exchange_rates.py", "web_app.py", "approval.py", "pictures.py", "middleware.py"]
TIMEOUT_S = 60


def run(*command: str, cwd: Path = ROOT) -> str:
    """Run a command and return what it prints; its exit code must be 0."""
    programs = str(Path(sys.executable).parent)
    environ = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    environ |= {"PYTEST_ADDOPTS": "-p no:cacheprovider", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = fork_server.run(*command, cwd=cwd, env=environ, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def load(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / name), run_name="example")


def test_the_readme_names_every_example() -> None:
    text = (EXAMPLES / "README.md").read_text()
    named = set(re.findall(r"^\| `([\w.]+)/?` ", text, re.MULTILINE))
    there = {path.name for path in EXAMPLES.iterdir()} - {"README.md", "__pycache__"}
    assert named == there


@pytest.mark.parametrize("name", FILES)
def test_the_definitions_of_an_example_have_no_problem(name: str) -> None:
    assert "; no problems." in run("-m", "toolcrib", "check", "--strict", f"examples/{name}")


def test_the_shop_has_a_valid_policy_and_passes_its_own_tests(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shutil.copytree(EXAMPLES / "shop", shop, ignore=shutil.ignore_patterns("__pycache__"))
    run("-m", "toolcrib", "keys", "create", "ben", "--scope", "orders:write", cwd=shop)
    assert "; no problems." in run("-m", "toolcrib", "check", "--strict", cwd=shop)
    explained = run("-m", "toolcrib", "explain", "--as", "key:ben", "--json", cwd=shop)
    assert "refund" in explained
    assert "4 passed" in run("-m", "pytest", "-q", "--override-ini=addopts=", cwd=shop)


async def test_notes_are_kept_found_and_deleted(tmp_path: Path) -> None:
    server = MCPServer("notes")
    server.add(load("notes.py")["Notes"](str(tmp_path / "notes.db")))
    async with server.connect() as client:
        await client.call("add_note", {"title": "milk", "text": "two bottles"})
        found = await client.call("find_notes", {"words": "bottles"})
        assert found.structured_content == [{"title": "milk", "text": "two bottles"}]
        await client.call("delete_note", {"title": "milk"})
        assert (await client.call("delete_note", {"title": "milk"})).text == "There is no note 'milk'"


class FakeRates(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        is_known = "base=EUR" in self.path
        body = json.dumps({"rates": {"USD": 1.1}} if is_known else {"message": "not found"}).encode()
        self.send_response(200 if is_known else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def rates_url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), FakeRates) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_money_is_converted_and_errors_of_the_api_are_shown(rates_url: str) -> None:
    server = MCPServer("money")
    server.add(load("exchange_rates.py")["ExchangeRates"](rates_url))
    async with server.connect() as client:
        converted = await client.call("convert", {"amount": 20, "source": "EUR", "target": "USD"})
        assert converted.structured_content == 22.0
        unknown = await client.call("convert", {"amount": 20, "source": "EUR", "target": "XXX"})
        assert unknown.text == "There is no rate for XXX. Known: EUR, USD"
        failed = await client.call("convert", {"amount": 20, "source": "ABC", "target": "USD"})
        assert "404" in failed.text


async def test_the_web_app_shares_its_tasks_with_its_tools() -> None:
    example = load("web_app.py")
    async with example["server"].connect() as client:
        assert (await client.call("add_task", {"text": "water the plants"})).structured_content == 1
    assert example["list_tasks"]() == ["water the plants"]
    assert [route.path for route in example["app"].routes if route.path in ("/tools", "/tasks")]


async def test_an_invoice_is_paid_only_with_consent() -> None:
    server = MCPServer("desk")
    server.add(str(EXAMPLES / "approval.py"))
    steps: list[str | None] = []

    async def agree(form: object) -> Answer:
        return Answer("accept", {"account": "business", "reference": "A1"})

    async def decline(form: object) -> Answer:
        return Answer("decline")

    async with server.connect(on_ask=agree) as client:
        paid = await client.call(
            "pay_invoice", {"number": 7}, on_progress=lambda done, total, text: steps.append(text)
        )
        assert paid.text == "Paid 120.00 EUR from the business account, reference 'A1'"
    assert steps == ["reserved", "signed", "sent"]
    async with server.connect(on_ask=decline) as client:
        assert (await client.call("pay_invoice", {"number": 7})).text == "Nothing was paid"
    async with server.connect() as client:
        assert "cannot ask" in (await client.call("pay_invoice", {"number": 7})).text


async def test_pictures_are_images_and_tables_are_files() -> None:
    server = MCPServer("pictures")
    server.add(str(EXAMPLES / "pictures.py"))
    async with server.connect() as client:
        [image] = (await client.call("draw_chart", {"values": [1, 3, 2]})).content
        assert image["mimeType"] == "image/png"
        table = await client.call("export_table", {"rows": [["tea", 3], ["coffee", 5]]})
        assert [block["type"] for block in table.content] == ["text", "resource", "resource_link"]
        assert table.content[1]["resource"]["text"] == "tea,3\r\ncoffee,5\r\n"


def test_the_middleware_measures_every_call() -> None:
    assert re.fullmatch(r"5\.0\nadd: \d+\.\d ms at most\n", run("examples/middleware.py"))
