"""An offer in words: the tools, what is off, what was refused.

All of it is plain data, so that another process can say it. Knows words; refuses to know how it is served.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from toolcrib.cli.offer import Offer
from toolcrib.cli.terminal import Terminal
from toolcrib.cli.words import count, first_line
from toolcrib.errors import DriftError
from toolcrib.finding import Finding

MAX_SHOWN = 40
_LONGEST = 100
_DRIFT = (DriftError.code, "locked-but-missing")


@dataclass(frozen=True, slots=True)
class Summary:
    """An offer in words: `tools` by name and first line, what is `off` by name and group, and what is said of
    tools to `search` with, where they are shown instead. `shows` is what callers over HTTP have to show: keys
    or tokens; nothing where everybody may call."""

    name: str
    tools: list[tuple[str, str]]
    off: list[tuple[str, str]]
    findings: list[Finding]
    is_sample: bool
    search: list[str] | None = None
    shows: str | None = None

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
            _search_words(offer),
            _credentials(offer),
        )

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]

    @property
    def drifted(self) -> list[Finding]:
        """What is not as locked, and keeps the server from starting."""
        return [finding for finding in self.errors if finding.code == DriftError.code]

    @property
    def quarantined(self) -> list[Finding]:
        """What is not as locked, and is left out; and what is locked but not here."""
        return [finding for finding in self.findings if finding.level == "warning" and finding.code in _DRIFT]

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Summary:
        facts = json.loads(data)
        findings = [Finding(**finding) for finding in facts.pop("findings")]
        return cls(**facts, findings=findings)


def _search_words(offer: Offer) -> list[str] | None:
    """How loudly, what, and what to do about it."""
    front = offer.server.dispatcher.storefront
    verdict = None if front is None else front.judge()
    if front is None or verdict is None or not verdict.is_open:
        return None
    return ["warning" if front.publish == "auto" else "note", verdict.words, verdict.hint]


def _credentials(offer: Offer) -> str | None:
    auth = None if offer.server.guard is None else offer.server.guard.policy.auth
    return None if auth is None else "a key" if auth.keys is not None else "a token"


def headline(summary: Summary) -> str:
    """Who serves how much."""
    kind = "sample tool" if summary.is_sample else "tool"
    parts = [count(len(summary.errors), "problem")] if summary.errors else []
    left_out = [finding for finding in summary.quarantined if finding.code == DriftError.code]
    parts += [f"{len(left_out)} in quarantine"] if left_out else []
    trouble = f" ({', '.join(parts)}, see below)" if parts else ""
    return f"{summary.name} serves {count(len(summary.tools), kind)}{trouble}"


def say_trouble(summary: Summary, terminal: Terminal) -> None:
    """Loudly: what was refused, and what a lock keeps out."""
    errors = summary.errors
    for error in errors[:MAX_SHOWN]:
        terminal.tell(error)
    if len(errors) > MAX_SHOWN:
        terminal.say("error", f"and {len(errors) - MAX_SHOWN} more: toolcrib check shows them")
    for finding in summary.quarantined[:MAX_SHOWN]:
        terminal.tell(finding)
    if len(summary.quarantined) > MAX_SHOWN:
        terminal.say("warning", f"and {len(summary.quarantined) - MAX_SHOWN} more: toolcrib diff shows them")


def say_warnings(summary: Summary, terminal: Terminal) -> None:
    """Quietly: one as it is, several as a number. And that clients are shown other tools than these."""
    said = summary.quarantined
    warnings = [f for f in summary.findings if f.level == "warning" and f not in said]
    if len(warnings) == 1:
        terminal.tell(warnings[0])
    elif warnings:
        terminal.say("note", f"{count(len(warnings), 'warning')}: toolcrib check shows them")
    if summary.search is not None:
        terminal.say(*summary.search)


def say_tools(summary: Summary, terminal: Terminal) -> None:
    """Each tool that is served, and those that could be."""
    for name, words in summary.tools[:MAX_SHOWN]:
        put(terminal, f"  {name}: {words[:_LONGEST]}" if words else f"  {name}")
    if len(summary.tools) > MAX_SHOWN:
        put(terminal, f"  and {len(summary.tools) - MAX_SHOWN} more")
    by_group: dict[str, list[str]] = {}
    for name, group in summary.off:
        by_group.setdefault(group, []).append(name)
    for group, names in by_group.items():
        shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
        put(terminal, f"  off: {shown} ({say_switch(group)})")
    put(terminal, "")


def say_switch(group: str) -> str:
    """How to turn tools on that are off."""
    return f"TOOLCRIB_ENABLE_{group.upper()}_TOOLS=1 turns them on" if group else "enabled=True turns them on"


def put(terminal: Terminal, text: str, *, bold: bool = False) -> None:
    """One line on stderr."""
    terminal.put(terminal.style_err(text, bold=True) if bold else text)
