"""`toolcrib list`: list tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import click

from toolcrib.cli import table
from toolcrib.cli.load import SAMPLE_NOTE, load
from toolcrib.cli.options import Command, CommandError, json_option, targets_argument
from toolcrib.cli.output import Terminal
from toolcrib.cli.remote import Remote, RemoteOptions, as_tool, remote_json, remote_options
from toolcrib.cli.text import catalog_json, count, shorten_list, suggest
from toolcrib.errors import ConfigurationError
from toolcrib.registry.selection import select, tags_of
from toolcrib.tool import Tool

EXAMPLES = """
toolcrib list                  toolcrib.toml, or the sample tools
toolcrib list tools.py --json  for programs
toolcrib list shop.api --tag public --exclude 'admin_*'
toolcrib list http://127.0.0.1:8000/mcp
toolcrib list --command 'python server.py'
"""


@click.command("list", cls=Command, examples=EXAMPLES)
@targets_argument
@json_option
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only tools with one of these tags.")
@click.option(
    "--include", multiple=True, metavar="SEL", help="Only these: a name, glob, tag:NAME or re:PATTERN."
)
@click.option("--exclude", multiple=True, metavar="SEL", help="Not these; overrides --include.")
@remote_options
def list_tools(
    terminal: Terminal,
    targets: Sequence[str],
    as_json: bool,
    tags: Sequence[str],
    include: Sequence[str],
    exclude: Sequence[str],
    remote: RemoteOptions,
) -> int:
    """List tools with their descriptions and parameters.

    A TARGET is a Python file, folder, module, module:object, toolcrib.toml or the URL of an MCP server.
    """
    select_tools = partial(_select, tags=tags, include=include, exclude=exclude)
    server = remote.connect_to(targets)
    if server is not None:
        return _list_remote(server, terminal, as_json, select_tools)
    loaded = load(targets, terminal)
    tools = select_tools(loaded.build_tools())
    if as_json:
        terminal.json(catalog_json(tools, loaded.findings))
        return 1 if loaded.errors else 0
    if tools:
        table.print_tools(tools, terminal)
    for error in loaded.errors:
        terminal.finding(error)
    disabled = [entry.tool.name for entry in loaded.entries if not entry.enabled]
    if disabled and not (tags or include or exclude):
        terminal.message("note", f"{count(len(disabled), 'tool')} disabled: {shorten_list(disabled)}")
    if loaded.is_sample:
        terminal.message("note", SAMPLE_NOTE)
    elif not tools and not loaded.errors:
        terminal.message("note", "no tools found")
    return 1 if loaded.errors else 0


def _list_remote(server: Remote, terminal: Terminal, as_json: bool, select_tools: partial[list[Tool]]) -> int:
    listing = server.list(terminal)
    remote_tools = {as_tool(tool): tool for tool in listing.tools}
    tools = select_tools(remote_tools)
    if as_json:
        shown = [remote_json(remote_tools[tool]) for tool in tools]
        terminal.json({"tools": shown, "findings": [finding.to_json() for finding in listing.findings]})
        return 0
    if tools:
        table.print_tools(tools, terminal)
    for finding in listing.findings:
        terminal.finding(finding)
    terminal.message("note", listing.server if tools else f"{listing.server}: no tools")
    return 0


def _select(
    tools: Iterable[Tool], tags: Sequence[str], include: Sequence[str], exclude: Sequence[str]
) -> list[Tool]:
    tools = list(tools)
    try:
        selected = select(tools, include, exclude)
        return select(selected, [f"tag:{tag}" for tag in tags]) if tags else selected
    except ConfigurationError as error:
        known = sorted({tag for tool in tools for tag in tags_of(tool)})
        hint = suggest("", known if tags and "'tag:" in str(error) else [tool.name for tool in tools])
        raise CommandError(error.message, hint) from None
