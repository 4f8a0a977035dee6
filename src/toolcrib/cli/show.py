"""`toolcrib show`: everything about one tool."""

from __future__ import annotations

from collections.abc import Sequence

import click

from toolcrib.cli import table as render
from toolcrib.cli.load import load_one
from toolcrib.cli.options import Command, takes_json, takes_target_options
from toolcrib.cli.output import Terminal
from toolcrib.cli.remote import Remote, as_shown, remote_json, takes_server_options
from toolcrib.cli.text import tool_json
from toolcrib.client.client import DEFAULT_TIMEOUT_S

EXAMPLES = """
toolcrib show math_add               one of the sample tools
toolcrib show -t tools.py find_order
toolcrib show tools.py:find_order --json
toolcrib show -t http://127.0.0.1:8000/mcp find_order
toolcrib show --command 'python server.py' find_order
"""


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("name")
@takes_target_options
@takes_json
@takes_server_options
def show(
    terminal: Terminal,
    name: str,
    targets: Sequence[str],
    as_json: bool,
    command: str | None,
    headers: Sequence[str],
    protocol: str | None,
) -> int:
    """Show everything about one tool.

    NAME is a tool's name, name@version, or says where it is: file.py:name, module:name.
    """
    limit_s: float | None
    remote = Remote.read(targets, command, headers, protocol)
    if remote is not None:
        there = remote.find(name, terminal)
        tool, wire, limit_s = as_shown(there), remote_json(there), DEFAULT_TIMEOUT_S
    else:
        loaded, tool = load_one(name, targets, terminal)
        wire, limit_s = tool_json(tool), tool.options.timeout_s or loaded.server.dispatcher.timeout_s
    if as_json:
        definition = tool.definition
        more = {"tags": list(definition.tags), "version": definition.version}
        run = {"run": tool.options.run, "timeout_s": limit_s}
        terminal.json({**wire, **more, **run, "fingerprint": definition.fingerprint})
        return 0
    render.show_tool(tool, limit_s, terminal)
    return 0
