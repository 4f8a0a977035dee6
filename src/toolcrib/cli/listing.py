"""`toolcrib list`, `show`, `scan` and `search`: list tools, show one, and find some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import click

from toolcrib.catalog.catalog import Catalog, component_json
from toolcrib.catalog.search import Hit, SearchIndex, split_words, words_by_place
from toolcrib.cli.catalog import ToolSource, find_component, open_local, source_options
from toolcrib.cli.load import load_named
from toolcrib.cli.options import Command, CommandError, json_option, targets_argument
from toolcrib.cli.output import Terminal
from toolcrib.cli.table import print_component, print_components, print_findings
from toolcrib.cli.text import (
    LEVELS,
    NAME_STYLE,
    count,
    count_findings,
    first_line,
    one_line,
    shorten_list,
    style,
    suggest,
)
from toolcrib.client.client import DEFAULT_TIMEOUT_S
from toolcrib.component import Component
from toolcrib.errors import ConfigurationError
from toolcrib.registry.selection import count_kinds, label_of, select, tags_of

LIST = """
toolcrib list                  the targets of toolcrib.toml
toolcrib list tools.py --json  for programs
toolcrib list --static servers/  without importing them
toolcrib list shop.api --include tag:public --exclude 'admin_*'
toolcrib list http://127.0.0.1:8000/mcp
toolcrib list --command 'python server.py'
"""
SHOW = """
toolcrib show math_add               one of the sample tools
toolcrib show -t tools.py find_order
toolcrib show tools.py:find_order --json
toolcrib show -t shop.py orders://17/invoice
toolcrib show -t shop.py prompt:complain
toolcrib show -t http://127.0.0.1:8000/mcp find_order
toolcrib show --command 'python server.py' find_order
"""
SCAN = """
toolcrib scan server.py           the tools of a file
toolcrib scan servers/ --json     the servers of others, for programs
toolcrib scan shop.api            a module, found on the import path
toolcrib scan                     the targets of toolcrib.toml
"""
SEARCH = """
toolcrib search deleting files              the targets of toolcrib.toml
toolcrib search -t tools.py refund order
toolcrib search -t servers/ --static weather --limit 3 --json
toolcrib search -t http://127.0.0.1:8000/mcp send a message
"""
_MIN_TYPO, _SIMILAR = 4, 0.66


# --- list --------------------------------------------------------------------------------------------


@click.command("list", cls=Command, examples=LIST)
@source_options()
@json_option
@click.option(
    "--include", multiple=True, metavar="SEL", help="Only these: a name, glob, tag:NAME or re:PATTERN."
)
@click.option("--exclude", multiple=True, metavar="SEL", help="Not these; overrides --include.")
def list_tools(
    terminal: Terminal,
    source: ToolSource,
    as_json: bool,
    include: Sequence[str],
    exclude: Sequence[str],
) -> int:
    """List tools, resources and prompts.

    With --static, source files are read and not imported, as `toolcrib scan` does.

    A TARGET is a Python file, folder, module, module:object, toolcrib.toml or the URL of an MCP server.
    """
    found = source.open(terminal, as_listed=True)
    try:
        found.components = select(found.components, include, exclude)
    except ConfigurationError as error:
        tags = sorted({tag for tool in found.components for tag in tags_of(tool)})
        names = [tool.name for tool in found.components]
        raise CommandError(error.message, suggest("", tags if "'tag:" in str(error) else names)) from None
    if source.static:
        return _print_scan(found, terminal, as_json)
    if as_json:
        terminal.json(found.to_json())
        return 1 if found.errors else 0
    print_components(found.components, terminal)
    for finding in found.findings:
        if finding.level == "error" or found.server:
            terminal.finding(finding)
    disabled = [tool for tool in found.hidden if not tool.options.enabled]
    if disabled and not include and not exclude:
        shown = shorten_list([tool.name for tool in disabled])
        terminal.message("note", f"{count_kinds(map(label_of, disabled))} disabled: {shown}")
    if not found.components and not found.errors:
        terminal.message("note", "no tools, resources or prompts found")
    if found.server:
        terminal.message("note", found.server)
    return 1 if found.errors else 0


def _print_scan(found: Catalog, terminal: Terminal, as_json: bool) -> int:
    if as_json:
        terminal.json(found.to_json())
        return 1 if found.errors else 0
    if found.components:
        print_components(found.components, terminal, with_source=True)
        terminal.echo("")
    print_findings(sorted(found.findings, key=lambda item: (LEVELS.index(item.level), item.code)), terminal)
    more = f" and {len(found.hidden)} disabled or older" if found.hidden else ""
    kinds = count_kinds(map(label_of, found.components))
    tools = f"{kinds}{more} in {count(len(found.files), 'file')}"
    terminal.echo(f"{tools}; {count_findings(found.findings)}. Nothing was imported.")
    return 1 if found.errors else 0


# --- show --------------------------------------------------------------------------------------------


@click.command(cls=Command, examples=SHOW)
@click.argument("name")
@source_options(target=True, static=False)
@json_option
def show(terminal: Terminal, name: str, source: ToolSource, as_json: bool) -> int:
    """Show the details of one tool, resource or prompt.

    NAME is the name of a tool or prompt, name@version, the URI of a resource or a template, or where a tool
    is: file.py:name, module:name. tool:NAME, resource:URI and prompt:NAME choose the kind.
    """
    details = {"Runs": "at the server"}
    given: dict[str, Any] = {}
    timeout_s: float | None = DEFAULT_TIMEOUT_S
    if source.remote is not None:
        tool, run = find_component(source.open(terminal, as_listed=True), name), details["Runs"]
    else:
        loaded, tool, *_ = load_named(name, source.targets, terminal)
        run = tool.options.run
        timeout_s = tool.options.timeout_s or loaded.server.dispatcher.timeout_s
        details = {
            "Group": tool.options.group or "",
            "Aliases": ", ".join(tool.options.aliases),
            "Full name": tool.long_name or "",
            "Runs": {"auto": "event loop" if tool.is_async else "thread"}.get(run, run),
        }
        budget = tool.options.max_result_tokens
        if budget is None and tool.kind == "tool":
            budget = loaded.server.dispatcher.max_result_tokens
        given = {} if tool.options.task == "never" else {"task": tool.options.task}
        given |= {"max_result_tokens": budget} if budget else {}
        page = tool.to_wire().get("_meta", {}).get("ui", {})
        details |= {
            "Page": page.get("resourceUri", "") if isinstance(page, dict) else "",
            "Task": given.get("task", ""),
            "Result budget": f"{budget} tokens" if budget else "",
        }
    definition = tool.definition
    if as_json:
        facts = {"tags": list(definition.tags), "version": definition.version, "run": run, **given}
        fingerprint = {"fingerprint": definition.fingerprint} if tool.kind == "tool" else {}
        terminal.json({**component_json(tool), **facts, "timeout_s": timeout_s, **fingerprint})
        return 0
    details["Timeout"] = "none" if timeout_s is None else f"{timeout_s:g} s"
    print_component(tool, details, terminal)
    return 0


# --- scan --------------------------------------------------------------------------------------------


@click.command(cls=Command, examples=SCAN)
@targets_argument
@json_option
def scan(terminal: Terminal, targets: Sequence[str], as_json: bool) -> int:
    """Find tools, resources and prompts in source files without importing them: `list --static`.

    Finds decorated functions, applications, tool objects and tables, for toolcrib, mcp and fastmcp, as an
    import would register them. Code that has to run to define a tool is reported with file and line. Exit
    code 0: no errors. 1: errors. 2: wrong usage.

    A TARGET is a Python file, folder, module, module:object, file.py:object or toolcrib.toml.
    """
    return _print_scan(open_local(targets, terminal, "static"), terminal, as_json)


# --- search ------------------------------------------------------------------------------------------


@click.command(cls=Command, examples=SEARCH)
@click.argument("words", nargs=-1, required=True, metavar="WORDS...")
@source_options(target=True)
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=10, metavar="N", help="Number of tools.  [default: 10]"
)
@json_option
def search(terminal: Terminal, words: Sequence[str], source: ToolSource, limit: int, as_json: bool) -> int:
    """Find tools by what they do, best matches first.

    Searches names, titles, descriptions, tags, parameters and their choices; other forms of a word, synonyms
    and typos match too. Exit code 0: found. 1: nothing found. 2: wrong usage.
    """
    query = " ".join(words)
    if not any(letter.isalnum() for letter in query):
        raise CommandError(f"'{query}' contains no words", "describe the tool: toolcrib search delete file")
    found = source.open(terminal, as_listed=True)
    index = SearchIndex(found.tools)
    similar = _correct(split_words(query), index, found.tools)
    hits = index.search(" ".join(similar.get(word, word) for word in split_words(query)), limit)
    if as_json:
        findings = [finding.to_json() for finding in found.findings]
        found_tools = [
            {**component_json(hit.tool), "score": hit.score, "matched": _matched(hit, similar)}
            for hit in hits
        ]
        terminal.json({"tools": found_tools, "similar": list(similar.values()), "findings": findings})
        return 0 if hits else 1
    for hit in hits:
        _print_hit(hit, similar, terminal)
    for error in found.errors:
        terminal.finding(error)
    if not hits:
        terminal.message(
            "note", f"nothing matches '{one_line(query)[:80]}' in {count(len(found.tools), 'tool')}"
        )
    return 0 if hits else 1


def _correct(words: Sequence[str], index: SearchIndex, tools: Sequence[Component]) -> dict[str, str]:
    """Return likely typos among the words of a query, which no tool has, with the words that were meant."""
    unknown = [word for word in words if len(word) >= _MIN_TYPO and not index.knows(word)]
    if not unknown:
        return {}
    places = [words_by_place(tool) for tool in tools]
    known = sorted({word for place in places for words in place.values() for word in words})
    near = {word: get_close_matches(word, known, 1, _SIMILAR) for word in unknown}
    return {word: found[0] for word, found in near.items() if found}


def _matched(hit: Hit, similar: Mapping[str, str]) -> dict[str, str]:
    """Return each word of the query with the matching word of the tool."""
    written = {meant: word for word, meant in similar.items()}
    return {written.get(word, word): form for word, form in hit.matched.items()}


def _print_hit(hit: Hit, similar: Mapping[str, str], terminal: Terminal) -> None:
    line = first_line(hit.tool.definition)
    terminal.echo(style(one_line(hit.tool.name), **NAME_STYLE), f": {line}" if line else "")
    matched = _matched(hit, similar).items()
    reasons = [form if form == word else f"{word} = {form}" for word, form in matched]
    if reasons:
        terminal.echo("    ", style(one_line(", ".join(reasons)), dim=True))
