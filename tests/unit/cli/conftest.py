"""Run commands in a temporary folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from click.testing import CliRunner, Result

from toolcrib.cli import app

ADD = '''
from toolcrib import tool

@tool
def add(a: int, b: int = 1) -> int:
    """Add two whole numbers.

    Args:
        a: First number
        b: Second number

    Returns:
        The sum
    """
    return a + b
'''

SHOP = '''
from typing import Literal

from toolcrib import Context, MCPServer
from toolcrib.content import File, Message

server = MCPServer("shop")

@server.tool
def find_order(number: int) -> str:
    """Find an order.

    Args:
        number: Number of the order
    """
    return f"Order {number}"

@server.resource("orders://list")
def orders() -> list[int]:
    """The numbers of all orders."""
    return [17, 18]

@server.resource("orders://{number}/invoice", mime_type="text/markdown")
def invoice(number: int) -> str:
    """The invoice of an order."""
    if number > 100:
        raise ValueError(number)
    return f"# Invoice {number}"

server.add_resource("shop://logo", b"\\x89PNG\\x00\\xff", mime_type="image/png", description="The logo.")

@server.prompt
def complain(order: int, tone: Literal["polite", "firm"] = "polite") -> list[Message]:
    """Complain about an order.

    Args:
        order: Number of the order
        tone: How it should sound
    """
    text = f"Write a {tone} complaint about order {order}."
    return [Message(text), Message("Dear shop,", role="assistant")]

@server.prompt
def thank(who: str) -> str:
    """Thank somebody.

    Args:
        who: A name
    """
    return f"Thank {who}."
'''


class Runner(CliRunner):
    """Captures standard error apart, for which click 8.1 has an option, and unbuffered, as newer ones do."""

    def __init__(self) -> None:
        super().__init__(**({"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}))

    @contextmanager
    def isolation(self, *arguments: Any, **options: Any) -> Iterator[Any]:
        with super().isolation(*arguments, **options) as streams:
            sys.stderr.reconfigure(write_through=True)
            yield streams


class CommandLine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
        return path

    def run(self, *arguments: str, stdin: str | None = None) -> Result:
        done = Runner().invoke(app, list(arguments), input=stdin)
        for name, module in list(sys.modules.items()):  # every command is a process of its own
            if str(getattr(module, "__file__", "")).startswith(str(self.folder)):
                del sys.modules[name]
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    def json(self, *arguments: str, stdin: str | None = None) -> Any:
        return json.loads(self.run(*arguments, stdin=stdin).stdout)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return CommandLine(tmp_path)
