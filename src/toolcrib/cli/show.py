"""`toolcrib show`: everything about one tool."""

from __future__ import annotations

from collections.abc import Sequence

import click

from toolcrib.cli.frame import Command, takes_json, takes_target_options
from toolcrib.cli.targets import load_one
from toolcrib.cli.terminal import Terminal
from toolcrib.cli.words import tool_json

EXAMPLES = """
toolcrib show math_add               one of the sample tools
toolcrib show -t tools.py find_order
toolcrib show tools.py:find_order --json
"""


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("name")
@takes_target_options
@takes_json
def show(terminal: Terminal, name: str, targets: Sequence[str], as_json: bool) -> int:
    """Show everything about one tool.

    NAME is a tool's name, name@version, or says where it is: file.py:name, module:name.
    """
    loaded, tool = load_one(name, targets, terminal)
    limit_s = tool.options.timeout_s or loaded.server.dispatcher.timeout_s
    definition = tool.definition
    if as_json:
        more = {"tags": list(definition.tags), "version": definition.version}
        run = {"run": tool.options.run, "timeout_s": limit_s}
        terminal.json({**tool_json(tool), **more, **run, "fingerprint": definition.fingerprint})
        return 0
    from toolcrib.cli import render  # rich is loaded where people look, and only there

    render.show_tool(tool, limit_s, terminal)
    return 0
