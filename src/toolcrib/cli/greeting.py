"""What a server says of itself when it is ready: the address, the tools, what is wrong, and what to paste.

Everything it needs is plain data, so that another process can say it. Knows words; refuses to know tools and
sockets.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from toolcrib import clients
from toolcrib.cli.offer import Offer
from toolcrib.cli.terminal import Terminal, safe
from toolcrib.cli.words import count, first_line
from toolcrib.clients import HttpServer, Server, StdioServer
from toolcrib.finding import Finding

MAX_SHOWN = 40
_LONGEST = 100


@dataclass(frozen=True, slots=True)
class Summary:
    """An offer in words: `tools` by name and first line, what is `off` by name and group."""

    name: str
    tools: list[tuple[str, str]]
    off: list[tuple[str, str]]
    findings: list[Finding]
    is_sample: bool

    @classmethod
    def of(cls, offer: Offer) -> Summary:
        return cls(
            offer.server.name,
            [(tool.name, first_line(tool.definition)) for tool in offer.tools],
            [
                (entry.tool.name, entry.tool.options.group or "")
                for entry in offer.entries
                if not entry.enabled
            ],
            offer.findings,
            offer.is_sample,
        )

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Summary:
        facts = json.loads(data)
        findings = [Finding(**finding) for finding in facts.pop("findings")]
        return cls(**facts, findings=findings)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server is: its addresses, its process, how many do its work, what to call it in a client."""

    addresses: Sequence[str]
    pid: int
    workers: int
    entry_name: str
    targets: Sequence[str]
    command: StdioServer | None
    is_public: bool

    def to_json(self, summary: Summary) -> dict[str, Any]:
        return {
            "name": summary.name,
            "address": self.addresses[0],
            "addresses": list(self.addresses),
            "pid": self.pid,
            "workers": self.workers,
            "tools": [name for name, _ in summary.tools],
            "findings": [finding.to_json() for finding in summary.findings],
        }


def say_trouble(summary: Summary, terminal: Terminal) -> None:
    """Loudly: what was refused. Warnings are counted; `check` shows them."""
    errors = [finding for finding in summary.findings if finding.level == "error"]
    for error in errors[:MAX_SHOWN]:
        terminal.tell(error)
    if len(errors) > MAX_SHOWN:
        terminal.say("error", f"and {len(errors) - MAX_SHOWN} more: toolcrib check shows them")


def say_warnings(summary: Summary, terminal: Terminal) -> None:
    warnings = [finding for finding in summary.findings if finding.level == "warning"]
    if len(warnings) == 1:
        terminal.tell(warnings[0])
    elif warnings:
        terminal.say("note", f"{count(len(warnings), 'warning')}: toolcrib check shows them")


def say_limits(place: Place, terminal: Terminal) -> None:
    """What does not go without saying."""
    if place.workers > 1:
        terminal.say(
            "note",
            "several workers keep no sessions: tools cannot ask clients older than 2026-07-28 anything",
        )
    if place.is_public:
        terminal.say(
            "warning",
            "other machines can reach this server, and there is no authentication yet: "
            "whoever reaches it can call its tools",
            "put something that authenticates in front, or leave out --host",
        )


def greet(summary: Summary, place: Place, terminal: Terminal) -> None:
    """Everything a person wants to know of a server that can be reached from now on."""
    kind = "sample tool" if summary.is_sample else "tool"
    workers = f" with {place.workers} workers" if place.workers > 1 else ""
    _put(terminal, f"{summary.name} serves {count(len(summary.tools), kind)}{workers} at")
    for address in place.addresses:
        _put(terminal, f"  {address}", bold=True)
    _put(terminal, "")
    _say_tools(summary, terminal)
    _put(terminal, "For a client that takes an address:")
    _put_entry(place.entry_name, HttpServer(place.addresses[0]), terminal)
    if place.command is not None:
        _put(terminal, "For a client that starts its servers itself:")
        _put_entry(place.entry_name, place.command, terminal)
    words = " ".join(["toolcrib connect CLIENT", *(shlex.quote(target) for target in place.targets)])
    _put(terminal, f"{words} writes it into the client's file. Ctrl-C ends the server.")


def greet_on_stdio(summary: Summary, terminal: Terminal) -> None:
    kind = "sample tool" if summary.is_sample else "tool"
    _put(terminal, f"{summary.name} serves {count(len(summary.tools), kind)} on stdin and stdout")
    _put(terminal, "")
    _say_tools(summary, terminal)


def _say_tools(summary: Summary, terminal: Terminal) -> None:
    for name, words in summary.tools[:MAX_SHOWN]:
        _put(terminal, f"  {name}: {words[:_LONGEST]}" if words else f"  {name}")
    if len(summary.tools) > MAX_SHOWN:
        _put(terminal, f"  and {len(summary.tools) - MAX_SHOWN} more")
    by_group: dict[str, list[str]] = {}
    for name, group in summary.off:
        by_group.setdefault(group, []).append(name)
    for group, names in by_group.items():
        shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
        _put(terminal, f"  off: {shown} ({say_switch(group)})")
    _put(terminal, "")


def say_switch(group: str) -> str:
    """How to turn tools on that are off."""
    return f"TOOLCRIB_ENABLE_{group.upper()}_TOOLS=1 turns on" if group else "enabled=True turns on"


def _put_entry(name: str, server: Server, terminal: Terminal) -> None:
    """On one line: it is to be pasted, and the tools above it are to be seen."""
    _put(terminal, f"  {json.dumps(json.loads(clients.snippet(name, server)), ensure_ascii=False)}")


def _put(terminal: Terminal, text: str, *, bold: bool = False) -> None:
    start, end = ("\x1b[1m", "\x1b[0m") if bold and terminal.err_colour else ("", "")
    terminal.err.write(f"{start}{safe(text)}{end}\n")
    terminal.err.flush()
