"""The root of the command: its help, its options, and the commands below it."""

from __future__ import annotations

import click

from toolcrib import __version__
from toolcrib.cli.options import Group

EPILOG = """\b
Examples:
  toolcrib serve                      serve the toolcrib.toml here, or the sample tools
  toolcrib check tools.py             what is wrong, and how to mend it
  toolcrib list                       the toolcrib.toml here, or the sample tools
  toolcrib scan servers/              the tools in source files, without running them
  toolcrib lint --static servers/     whether tools are fit for a model, and nothing is planted in them
  toolcrib call math_add a=10 b=5     call a tool
  toolcrib export --to openai .       the tools as a model provider takes them
  toolcrib keys create ana            an API key for somebody who calls over HTTP
  toolcrib audit query --since 1h     who called what

A TARGET is a Python file, a folder, a module, module:object, file.py:object or a toolcrib.toml."""


PARTS = {
    "serve": "toolcrib.cli.serve:serve",
    "check": "toolcrib.cli.check:check",
    "list": "toolcrib.cli.list:list_tools",
    "scan": "toolcrib.cli.scan:scan",
    "show": "toolcrib.cli.show:show",
    "search": "toolcrib.cli.search:search",
    "call": "toolcrib.cli.call:call",
    "explain": "toolcrib.cli.explain:explain_call",
    "export": "toolcrib.cli.export:export",
    "agent": "toolcrib.cli.agent:agent",
    "connect": "toolcrib.cli.connect.command:connect",
    "lint": "toolcrib.cli.lint:lint",
    "lock": "toolcrib.cli.lock:lock",
    "diff": "toolcrib.cli.diff:diff",
    "keys": "toolcrib.cli.keys:keys",
    "audit": "toolcrib.cli.audit:audit",
}
"""The commands, in the order of the help; each is loaded when it is used."""


@click.group(
    "toolcrib",
    cls=Group,
    parts=PARTS,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="toolcrib", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show tracebacks and the library's log.")
def app(debug: bool) -> None:
    """Turn Python code into checked tools for AI agents."""
    _ = debug  # the commands read it


def main() -> None:
    app.main(prog_name="toolcrib")
