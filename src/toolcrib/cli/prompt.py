"""`toolcrib prompt`: get the messages of one prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from toolcrib.cli.call import (
    CallCommand,
    arguments_option,
    convert_arguments,
    format_block,
    read_arguments,
    run_feature,
    timeout_option,
)
from toolcrib.cli.catalog import ToolSource, complete_prompts, source_options
from toolcrib.cli.load import load_feature, parse_reference
from toolcrib.cli.output import Terminal
from toolcrib.cli.text import style
from toolcrib.validation import codec

EXAMPLES = """
toolcrib prompt -t shop.py complain order=17 tone=firm
toolcrib prompt -t shop.py complain --json '{"order": "17"}'
toolcrib prompt -t shop.py thank who=Ana | pbcopy
"""


@click.command(cls=CallCommand, examples=EXAMPLES)
@click.argument("name", shell_complete=complete_prompts)
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@source_options(target=True, static=False)
@arguments_option
@timeout_option
def prompt(
    terminal: Terminal,
    name: str,
    pairs: Sequence[str],
    source: ToolSource,
    as_json: str | None,
    timeout_s: float | None,
) -> int:
    """Get the messages of a prompt and print them.

    KEY=VALUE passes an argument. A single message of the user is printed as it is; several are printed below
    their roles. Exit code 0: success. 1: the prompt failed. 2: wrong usage or no such prompt.
    """
    given = _to_strings(read_arguments(pairs, as_json))
    remote = source.remote
    if remote is not None:
        data: dict[str, Any] | None = remote.get_prompt(name, given, timeout_s, terminal)
    else:
        data = _get_locally(name, given, source.targets, timeout_s, terminal)
    if data is None:
        return 1
    if as_json is not None:
        terminal.json(data)
    else:
        _print(data["messages"], terminal)
    return 0


def _to_strings(arguments: dict[str, Any]) -> dict[str, str]:
    """Return the values as MCP sends them: strings, JSON for those that are none."""
    return {
        key: value if isinstance(value, str) else codec.encode_text(value) for key, value in arguments.items()
    }


def _get_locally(
    name: str,
    given: dict[str, str],
    targets: Sequence[str],
    timeout_s: float | None,
    terminal: Terminal,
) -> dict[str, Any] | None:
    """Return description and messages of a prompt; None after printing why there are none."""
    kind, plain = parse_reference(name)
    name = plain if kind == "prompt" else name
    loaded, tool, _ = load_feature("prompt", name, targets, terminal, timeout_s=timeout_s)
    # Decoded here and not only by the dispatcher, which leaves all of them as they are if one is wrong.
    arguments = convert_arguments(given, [f"{key}=" for key in given], tool.definition)
    result = run_feature(loaded.server, tool, name, arguments, timeout_s, terminal)
    if result is None:
        return None
    description = result.structured_content or tool.definition.description
    return {**({"description": description} if description else {}), "messages": result.content}


def _print(messages: Sequence[Any], terminal: Terminal) -> None:
    has_roles = len(messages) != 1 or messages[0]["role"] != "user"
    for position, message in enumerate(messages):
        if position:
            terminal.echo("")
        if has_roles:
            terminal.echo(style(f"{message['role']}:", bold=True))
        text = format_block(message["content"])
        terminal.write(text if text.endswith("\n") else f"{text}\n")
    if not messages:
        terminal.message("note", "the prompt has no messages")
