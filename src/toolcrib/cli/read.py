"""`toolcrib read`: read one resource by its URI."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from toolcrib.cli.call import run_feature, timeout_option
from toolcrib.cli.catalog import ToolSource, complete_resources, source_options
from toolcrib.cli.load import check_is_no_file, explain_missing, find_named, load, parse_reference
from toolcrib.cli.options import Command, CommandError, exclusive, json_option
from toolcrib.cli.output import Terminal
from toolcrib.cli.text import one_line
from toolcrib.content import Block

EXAMPLES = """
toolcrib read -t shop.py orders://17/invoice
toolcrib read -t shop.py shop://logo -o logo.png
toolcrib read -t shop.py shop://logo > logo.png
toolcrib read -t shop.py orders://list --json
"""


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("uri", shell_complete=complete_resources)
@source_options(target=True, static=False)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write the content to this file, as it is."
)
@json_option
@timeout_option
def read(
    terminal: Terminal,
    uri: str,
    source: ToolSource,
    output: Path | None,
    as_json: bool,
    timeout_s: float | None,
) -> int:
    """Read a resource and print its content.

    Text is printed. Other content is written to a file or a pipe, but not to a terminal. Exit code 0:
    success. 1: there is no such resource, or reading it failed. 2: wrong usage.

    URI is the URI of a resource, or one that a template matches: toolcrib list shows both.
    """
    if output is not None and as_json:
        raise exclusive("--output", "--json")
    remote = source.remote
    if remote is not None:
        contents: Sequence[Block] | None = remote.read(uri, timeout_s, terminal)
    else:
        contents = _read_locally(uri, source.targets, timeout_s, terminal)
    if contents is None:
        return 1
    if as_json:
        terminal.json({"contents": contents})
    elif output is not None:
        _save(uri, contents, output, terminal)
    else:
        return _print(contents, terminal)
    return 0


def _read_locally(
    name: str, targets: Sequence[str], timeout_s: float | None, terminal: Terminal
) -> Sequence[Block] | None:
    """Return the contents of a resource; None after printing why there are none."""
    check_is_no_file(name, targets, "resource")
    kind, uri = parse_reference(name)
    uri = uri if kind == "resource" else name
    loaded = load(targets, terminal, timeout_s=timeout_s)
    loaded.check_config()  # no read bypasses a policy
    found = find_named(loaded, "resource", uri)
    if found is None or (found.values is None and getattr(found.tool, "template", None) is not None):
        error = explain_missing(uri, "resource", loaded, terminal)
        if found is not None:
            error = CommandError(f"{uri} is a template", "give a URI with values in place of the variables")
        terminal.message("error", error.message, error.hint)
        return None
    tool, values = found.tool.check(), found.values or {}
    result = run_feature(loaded.server, tool, uri, values, timeout_s, terminal)
    return None if result is None else [{"uri": uri, **item} for item in result.content]


# --- output --------------------------------------------------------------------------------------------


def _print(contents: Sequence[Block], terminal: Terminal) -> int:
    """Print text, and write other content to a pipe or a file. Several contents have a heading each."""
    is_terminal = terminal.out.isatty()
    for item in contents:
        if len(contents) > 1:
            terminal.message("note", _describe(item))
        if "text" in item:
            text = str(item["text"])
            is_last = item is contents[-1]
            needs_end = not text.endswith("\n") and (is_terminal or not is_last)
            terminal.write(f"{text}\n" if needs_end else text)
        elif not is_terminal:
            terminal.write_bytes(_decode(item))
        else:
            terminal.message("note", f"not shown: {_describe(item)}", "use -o FILE, a pipe or --json")
    if not contents:
        terminal.message("note", "the resource has no content")
    return 0


def _save(uri: str, contents: Sequence[Block], output: Path, terminal: Terminal) -> None:
    if len(contents) != 1:
        text = f"{uri} has {len(contents)} contents, which do not fit into one file"
        raise CommandError(text, "use --json")
    data = _decode(contents[0])
    output.write_bytes(data)
    terminal.message("note", f"{len(data)} bytes written to {output}")


def _describe(item: Block) -> str:
    size = len(_decode(item))
    return one_line(f"{item['uri']}, {item.get('mimeType', 'unknown type')}, {size} bytes")


def _decode(item: Block) -> bytes:
    if "text" in item:
        return str(item["text"]).encode("utf-8", "surrogatepass")
    blob: Any = item.get("blob", "")
    try:
        return base64.b64decode(blob, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise CommandError(f"The content of {item['uri']} is not valid base64", "--json shows it") from None
