"""What a server says when it can be reached: where, what, and what to paste into a client.

Knows words and the clients' entries; refuses to know tools and sockets.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib import clients
from toolcrib.cli.summary import Summary, headline, put, say_tools
from toolcrib.cli.terminal import Terminal
from toolcrib.clients import HttpServer, Server, StdioServer


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


def say_limits(summary: Summary, place: Place, terminal: Terminal) -> None:
    """What does not go without saying."""
    if place.workers > 1:
        terminal.say(
            "note",
            "several workers keep no sessions: tools cannot ask clients older than 2026-07-28 anything",
        )
    if place.is_public and summary.shows is None:
        terminal.say(
            "warning",
            "other machines can reach this server, and nobody has to say who they are: "
            "whoever reaches it can call its tools",
            "name keys or an authorization server under [auth]; names that clients use for this machine are "
            "let in with --allow-host",
        )


def greet(summary: Summary, place: Place, terminal: Terminal) -> None:
    """Everything a person wants to know of a server that can be reached from now on."""
    workers = f" with {place.workers} workers" if place.workers > 1 else ""
    if terminal.spell is not None:  # nobody pastes anything from a log
        terminal.say("note", f"{headline(summary)}{workers} at {', '.join(place.addresses)}")
        return
    put(terminal, f"{headline(summary)}{workers} at")
    for address in place.addresses:
        put(terminal, f"  {address}", bold=True)
    put(terminal, "")
    say_tools(summary, terminal)
    put(terminal, "For a client that takes an address:")
    _put_entry(place.entry_name, HttpServer(place.addresses[0]), terminal)
    if summary.shows is not None:
        sent = "Authorization: Bearer KEY" if summary.shows == "a key" else "Authorization: Bearer TOKEN"
        put(terminal, f"  with {summary.shows} of the caller's own: the header {sent}")
    if place.command is not None:
        put(terminal, "For a client that starts its servers itself:")
        _put_entry(place.entry_name, place.command, terminal)
    words = " ".join(["toolcrib connect CLIENT", *(shlex.quote(target) for target in place.targets)])
    put(terminal, f"{words} writes it into the client's file. Ctrl-C ends the server.")
    if summary.findings or place.is_public:
        put(terminal, "")


def _put_entry(name: str, server: Server, terminal: Terminal) -> None:
    """On one line: it is to be pasted, and the tools above it are to be seen."""
    put(terminal, f"  {json.dumps(json.loads(clients.snippet(name, server)), ensure_ascii=False)}")
