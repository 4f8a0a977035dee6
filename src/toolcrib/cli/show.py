"""`toolcrib show`: show the details of one tool."""

from __future__ import annotations

from collections.abc import Sequence

import click

from toolcrib.cli import table
from toolcrib.cli.load import load_one
from toolcrib.cli.options import Command, json_option, target_option
from toolcrib.cli.output import Terminal
from toolcrib.cli.remote import RemoteOptions, as_tool, remote_json, remote_options
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
@target_option
@json_option
@remote_options
def show(terminal: Terminal, name: str, targets: Sequence[str], as_json: bool, remote: RemoteOptions) -> int:
    """Show the details of one tool.

    NAME is the name of a tool, name@version, or its place: file.py:name, module:name.
    """
    timeout_s: float | None = DEFAULT_TIMEOUT_S
    server = remote.connect_to(targets)
    if server is not None:
        remote_tool = server.find(name, terminal)
        tool, data = as_tool(remote_tool), remote_json(remote_tool)
    else:
        loaded, tool = load_one(name, targets, terminal)
        data, timeout_s = tool_json(tool), tool.options.timeout_s or loaded.server.dispatcher.timeout_s
    if as_json:
        definition = tool.definition
        data |= {"tags": list(definition.tags), "version": definition.version}
        data |= {"run": tool.options.run, "timeout_s": timeout_s, "fingerprint": definition.fingerprint}
        terminal.json(data)
    else:
        table.print_tool(tool, timeout_s, terminal)
    return 0
