"""The command line: each module has one command or a few, and is loaded when one is used.

`main` is the entry point of the `toolcrib` script. Importing this package loads click but no engine.
"""

from __future__ import annotations

import click

from toolcrib import __version__
from toolcrib.cli.options import LazyGroup

__all__ = ["app", "main"]

EPILOG = """\b
Examples:
  toolcrib serve                      serve the targets of toolcrib.toml
  toolcrib check tools.py             check the tools of a file
  toolcrib list                       list the tools of toolcrib.toml
  toolcrib scan servers/              find tools in source files
  toolcrib call math_add a=10 b=5     call a tool
  toolcrib read -t shop.py shop://x   read a resource
  toolcrib export --to openai .       export tools for a model provider
  toolcrib keys create ana            create an API key
  toolcrib audit query --since 1h     show the calls of the last hour

A TARGET is a Python file, folder, module, module:object, file.py:object or toolcrib.toml."""

COMMANDS = {
    "serve": "toolcrib.cli.serve:serve",
    "check": "toolcrib.cli.check:check",
    "list": "toolcrib.cli.listing:list_tools",
    "show": "toolcrib.cli.listing:show",
    "search": "toolcrib.cli.listing:search",
    "call": "toolcrib.cli.call:call",
    "read": "toolcrib.cli.call:read",
    "prompt": "toolcrib.cli.call:prompt",
    "scan": "toolcrib.cli.listing:scan",
    "export": "toolcrib.cli.export:export",
    "lock": "toolcrib.cli.lock:lock",
    "diff": "toolcrib.cli.lock:diff",
    "keys": "toolcrib.cli.keys:keys",
    "explain": "toolcrib.cli.explain:explain_call",
    "audit": "toolcrib.cli.audit:audit",
    "fleet": "toolcrib.cli.fleet:fleet",
    "connect": "toolcrib.cli.connect:connect",
    "publish": "toolcrib.cli.publish:publish",
    "init": "toolcrib.cli.init:init",
}
"""The commands in the order of the help."""


@click.group(
    "toolcrib",
    cls=LazyGroup,
    modules=COMMANDS,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="toolcrib", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show tracebacks and the library's log.")
def app(debug: bool) -> None:
    """Turn Python code into checked tools for AI agents."""
    _ = debug  # read by the commands


def main() -> None:
    app.main(prog_name="toolcrib")
