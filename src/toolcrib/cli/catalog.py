"""What the commands about catalogs work on: tools from wherever the command line says they are.

Targets are imported; with `--static` their source is read and nothing of it runs; an address or a command is
asked. Whatever they are from, what comes back are tools that can be built, and findings for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypedDict

import click

from toolcrib.cli.load import load
from toolcrib.cli.options import F, takes_targets
from toolcrib.cli.output import Terminal
from toolcrib.cli.remote import Remote, find_finder, takes_server_options
from toolcrib.definition import ToolDefinition
from toolcrib.errors import DefinitionError, Finding
from toolcrib.sources.described import describe
from toolcrib.tool import Tool


class Whence(TypedDict):
    """The options of `takes_stock`, as a command gets them."""

    targets: Sequence[str]
    static: bool
    command: str | None
    headers: Sequence[str]
    protocol: str | None


@dataclass(slots=True)
class Stock:
    """Tools, all of them built, and what there is to say about them and the rest."""

    tools: list[Tool] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    label: str = ""
    is_sample: bool = False

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]

    def describe(self, definition: ToolDefinition) -> None:
        """Add a tool that is only described; where it cannot be built, why not."""
        try:
            tool = describe(definition)
            self.findings.extend(tool.findings)
            self.tools.append(tool)
        except DefinitionError as error:
            self.findings.append(error.finding)


def takes_stock(function: F) -> F:
    """Targets, `--static`, and what a running server needs: the keywords of `gather`."""
    static = click.option(
        "--static", is_flag=True, help="Read the source of the targets; import and run nothing."
    )
    return takes_targets(static(takes_server_options(function)))


def gather(
    terminal: Terminal,
    targets: Sequence[str],
    *,
    static: bool = False,
    command: str | None = None,
    headers: Sequence[str] = (),
    protocol: str | None = None,
) -> Stock:
    """The tools that the command line names."""
    remote = Remote.read(targets, command, headers, protocol)
    if remote is not None:
        listing = remote.list(terminal)
        stock = Stock(findings=list(listing.findings), label=command or targets[0])
        if find_finder(item.name for item in listing.tools) is not None:
            words = "shows tools to search with in place of its list: what is behind them is not here"
            hint = "serve it with --search never, or name its source"
            terminal.say("warning", f"{stock.label} {words}", hint)
        for item in listing.tools:
            stock.describe(item.definition)
        return stock
    label = ", ".join(targets)
    if static:
        return _scan(targets, terminal, label)
    loaded = load(targets, terminal)
    tools = loaded.list_built()
    return Stock(tools, loaded.findings, label, loaded.is_sample)


def _scan(targets: Sequence[str], terminal: Terminal, label: str) -> Stock:
    from toolcrib.cli.scan import scan_targets  # most commands import what they work on

    scanned = scan_targets(targets, terminal)
    return Stock(list(scanned.tools), list(scanned.findings), label)
