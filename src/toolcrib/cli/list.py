"""`toolcrib list`: the tools that would be offered."""

from __future__ import annotations

from collections.abc import Sequence

import click

from toolcrib.cli import table as render
from toolcrib.cli.load import load
from toolcrib.cli.options import Command, Failure, takes_json, takes_targets
from toolcrib.cli.output import Terminal
from toolcrib.cli.remote import Remote, as_shown, remote_json, takes_server_options
from toolcrib.cli.text import count, suggest, tool_json
from toolcrib.errors import ConfigurationError
from toolcrib.registry.selection import select, tags_of
from toolcrib.tool import Tool

EXAMPLES = """
toolcrib list                  the toolcrib.toml here, or the samples
toolcrib list tools.py --json  for programs
toolcrib list shop.api --tag public --exclude 'admin_*'
toolcrib list http://127.0.0.1:8000/mcp
toolcrib list --command 'python server.py'
"""


@click.command("list", cls=Command, examples=EXAMPLES)
@takes_targets
@takes_json
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only tools with this tag; any of several.")
@click.option(
    "--include", multiple=True, metavar="SEL", help="Only these: a name, a glob, tag:NAME, re:PATTERN."
)
@click.option("--exclude", multiple=True, metavar="SEL", help="Not these; wins over --include.")
@takes_server_options
def list_tools(
    terminal: Terminal,
    targets: Sequence[str],
    as_json: bool,
    tags: Sequence[str],
    include: Sequence[str],
    exclude: Sequence[str],
    command: str | None,
    headers: Sequence[str],
    protocol: str | None,
) -> int:
    """List the tools: name, what they do, their parameters.

    A TARGET is a Python file, a folder, a module, module:object, a toolcrib.toml or the address of a running
    MCP server.
    """
    remote = Remote.read(targets, command, headers, protocol)
    if remote is not None:
        return _list_remote(remote, terminal, as_json, (tags, include, exclude))
    loaded = load(targets, terminal)
    tools = _choose(loaded.list_built(), tags, include, exclude)
    if as_json:
        findings = [finding.to_json() for finding in loaded.findings]
        terminal.json({"tools": [tool_json(tool) for tool in tools], "findings": findings})
        return 1 if loaded.errors else 0
    if tools:
        render.list_tools(tools, terminal)
    for error in loaded.errors:
        terminal.tell(error)
    off = [entry.tool for entry in loaded.entries if not entry.enabled]
    if off and not (tags or include or exclude):
        names = ", ".join(tool.name for tool in off[:6]) + (", ..." if len(off) > 6 else "")
        verb = "is" if len(off) == 1 else "are"
        terminal.say("note", f"{count(len(off), 'more tool')} {verb} off: {names}")
    if loaded.is_sample:
        terminal.say("note", "these are the sample tools; name a file, a folder or a module to see yours")
    elif not tools and not loaded.errors:
        terminal.say("note", "there are no tools")
    return 1 if loaded.errors else 0


def _list_remote(
    remote: Remote,
    terminal: Terminal,
    as_json: bool,
    selectors: tuple[Sequence[str], Sequence[str], Sequence[str]],
) -> int:
    listing = remote.list(terminal)
    tools = {as_shown(tool): tool for tool in listing.tools}
    chosen = _choose(list(tools), *selectors)
    if as_json:
        findings = [finding.to_json() for finding in listing.findings]
        terminal.json({"tools": [remote_json(tools[tool]) for tool in chosen], "findings": findings})
        return 0
    if chosen:
        render.list_tools(chosen, terminal)
    for finding in listing.findings:
        terminal.tell(finding)
    terminal.say("note", listing.introduction if chosen else f"{listing.introduction} and has no tools")
    return 0


def _choose(
    tools: list[Tool], tags: Sequence[str], include: Sequence[str], exclude: Sequence[str]
) -> list[Tool]:
    try:
        chosen = select(tools, include, exclude)
        return select(chosen, [f"tag:{tag}" for tag in tags]) if tags else chosen
    except ConfigurationError as error:
        known = sorted({tag for tool in tools for tag in tags_of(tool)})
        hint = suggest("", known if tags and "'tag:" in str(error) else [tool.name for tool in tools])
        raise Failure(error.message, hint) from None
