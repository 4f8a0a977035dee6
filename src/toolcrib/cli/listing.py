"""`toolcrib list`, `show`, `search` and `scan`: which tools there are, and what they do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click

from toolcrib.catalog.search import Hit, SearchIndex, words_by_place
from toolcrib.cli.catalog import (
    ToolSet,
    ToolSource,
    check_remote_tools,
    find_remote_tool,
    list_remote_tools,
    scan_targets,
    search_remotely,
    source_options,
)
from toolcrib.cli.load import SAMPLE_NOTE, build_tools, catalog_json, load, load_one, tool_json
from toolcrib.cli.options import Command, CommandError, json_option, targets_argument
from toolcrib.cli.output import Terminal
from toolcrib.cli.table import NAME, print_findings, print_tool, print_tools
from toolcrib.cli.text import (
    LEVELS,
    count,
    count_findings,
    first_line,
    one_line,
    shorten_list,
    style,
    suggest,
)
from toolcrib.client import RemoteTool
from toolcrib.client.client import DEFAULT_TIMEOUT_S
from toolcrib.errors import ConfigurationError
from toolcrib.registry.selection import select, tags_of
from toolcrib.sources.described import describe
from toolcrib.tool import Tool

LIST = """
toolcrib list                  toolcrib.toml, or the sample tools
toolcrib list tools.py --json  for programs
toolcrib list shop.api --tag public --exclude 'admin_*'
toolcrib list http://127.0.0.1:8000/mcp
toolcrib list --command 'python server.py'
"""
SHOW = """
toolcrib show math_add               one of the sample tools
toolcrib show -t tools.py find_order
toolcrib show tools.py:find_order --json
toolcrib show -t http://127.0.0.1:8000/mcp find_order
toolcrib show --command 'python server.py' find_order
"""
SEARCH = """
toolcrib search deleting files              toolcrib.toml, or the samples
toolcrib search -t tools.py refund order
toolcrib search -t servers/ --static weather --limit 3 --json
toolcrib search -t http://127.0.0.1:8000/mcp send a mesage
"""
SCAN = """
toolcrib scan server.py           the tools of a file
toolcrib scan servers/ --json     the servers of others, for programs
toolcrib scan shop.api            a module, found on the import path
toolcrib scan                     toolcrib.toml, or the sample tools
"""
_PLACES = {"summary": "description", "values": "choices", "notes": "parameter descriptions"}
"""Names for people of the places where words were found; the others are plain."""


# --- list --------------------------------------------------------------------------------------------


@click.command("list", cls=Command, examples=LIST)
@source_options(static=False)
@json_option
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only tools with one of these tags.")
@click.option(
    "--include", multiple=True, metavar="SEL", help="Only these: a name, glob, tag:NAME or re:PATTERN."
)
@click.option("--exclude", multiple=True, metavar="SEL", help="Not these; overrides --include.")
def list_tools(
    terminal: Terminal,
    source: ToolSource,
    as_json: bool,
    tags: Sequence[str],
    include: Sequence[str],
    exclude: Sequence[str],
) -> int:
    """List tools with their descriptions and parameters.

    A TARGET is a Python file, folder, module, module:object, toolcrib.toml or the URL of an MCP server.
    """
    remote = source.remote
    if remote is not None:
        server, listed = remote.run(list_remote_tools, terminal)
        by_tool = {describe(tool.definition): tool for tool in listed}
        chosen = [by_tool[tool] for tool in _select(by_tool, tags, include, exclude)]
        findings = list(check_remote_tools(listed))
        if as_json:
            data = {"tools": [_remote_json(tool) for tool in chosen]}
            terminal.json({**data, "findings": [finding.to_json() for finding in findings]})
            return 0
        definitions = [tool.definition for tool in chosen]
        notes = [server if chosen else f"{server}: no tools"]
    else:
        loaded = load(source.targets, terminal)
        tools = _select(loaded.build_tools(), tags, include, exclude)
        if as_json:
            terminal.json(catalog_json(tools, loaded.findings))
            return 1 if loaded.errors else 0
        definitions, findings = [tool.definition for tool in tools], loaded.errors
        disabled = [entry.tool.name for entry in loaded.entries if not entry.enabled]
        notes = []
        if disabled and not (tags or include or exclude):
            notes.append(f"{count(len(disabled), 'tool')} disabled: {shorten_list(disabled)}")
        if loaded.is_sample:
            notes.append(SAMPLE_NOTE)
        elif not tools and not findings:
            notes.append("no tools found")
    if definitions:
        print_tools(definitions, terminal)
    for finding in findings:
        terminal.finding(finding)
    for note in notes:
        terminal.message("note", note)
    return 1 if any(finding.level == "error" for finding in findings) else 0


def _select(
    given: Iterable[Tool], tags: Sequence[str], include: Sequence[str], exclude: Sequence[str]
) -> list[Tool]:
    tools = list(given)
    try:
        selected = select(tools, include, exclude)
        return select(selected, [f"tag:{tag}" for tag in tags]) if tags else selected
    except ConfigurationError as error:
        known = sorted({tag for tool in tools for tag in tags_of(tool)})
        hint = suggest("", known if tags and "'tag:" in str(error) else [tool.name for tool in tools])
        raise CommandError(error.message, hint) from None


def _remote_json(tool: RemoteTool) -> dict[str, Any]:
    """Return a tool as its server lists it, with its origin."""
    return {**tool.wire, "source": {"file": tool.definition.source.file, "line": None}}


# --- show --------------------------------------------------------------------------------------------


@click.command(cls=Command, examples=SHOW)
@click.argument("name")
@source_options(target=True, static=False)
@json_option
def show(terminal: Terminal, name: str, source: ToolSource, as_json: bool) -> int:
    """Show the details of one tool.

    NAME is the name of a tool, name@version, or its place: file.py:name, module:name.
    """
    remote = source.remote
    details = {"Runs": "at the server"}
    if remote is not None:
        remote_tool = remote.run(lambda client: find_remote_tool(client, name), terminal)
        definition, data, run = remote_tool.definition, _remote_json(remote_tool), details["Runs"]
        timeout_s: float | None = DEFAULT_TIMEOUT_S
    else:
        loaded, tool = load_one(name, source.targets, terminal)
        definition, data, run = tool.definition, tool_json(tool), tool.options.run
        timeout_s = tool.options.timeout_s or loaded.server.dispatcher.timeout_s
        details = {
            "Group": tool.options.group or "",
            "Aliases": ", ".join(tool.options.aliases),
            "Full name": tool.long_name or "",
            "Runs": {"auto": "event loop" if tool.is_async else "thread"}.get(run, run),
        }
    if as_json:
        data |= {"tags": list(definition.tags), "version": definition.version, "run": run}
        terminal.json({**data, "timeout_s": timeout_s, "fingerprint": definition.fingerprint})
        return 0
    timeout = "none" if timeout_s is None else f"{timeout_s:g} s"
    print_tool(definition, {**details, "Timeout": timeout}, terminal)
    return 0


# --- search ------------------------------------------------------------------------------------------


@click.command(cls=Command, examples=SEARCH)
@click.argument("words", nargs=-1, required=True, metavar="WORDS...")
@source_options(target=True)
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=10, metavar="N", help="At most N.  [default: 10]"
)
@json_option
def search(terminal: Terminal, words: Sequence[str], source: ToolSource, limit: int, as_json: bool) -> int:
    """Find tools by what they do, best matches first.

    Searches names, titles, descriptions, tags, parameters and their choices; typos and other forms of a word
    match too. A server that lists search tools instead of its tools is asked to search itself. Exit code 0:
    found. 1: nothing found. 2: wrong usage.

    A TARGET is a Python file, folder, module, module:object, toolcrib.toml or the URL of an MCP server.
    """
    query = " ".join(words)
    if not any(letter.isalnum() for letter in query):
        raise CommandError(f"'{query}' contains no words", "describe the tool: toolcrib search delete file")
    remote = source.remote
    similar: list[str] = []
    answer = None
    if remote is not None:
        answer = remote.run(lambda client: search_remotely(client, query, limit), terminal)
    if answer is not None:
        found = ToolSet(label=source.command or source.targets[0])
        tools = [describe(tool.definition) for tool in answer]
        hits = [_match(tool, query) for tool in build_tools(tools, found.findings)]
        among = f"the tools of {found.label}"
    else:
        found = source.collect(terminal)
        index = SearchIndex(found.tools)
        hits = index.search(query, limit)
        similar = [] if hits else index.suggest(query)
        among = count(len(found.tools), "tool")
    if as_json:
        findings = [finding.to_json() for finding in found.findings]
        terminal.json({"tools": [_hit_json(hit) for hit in hits], "near": similar, "findings": findings})
        return 0 if hits else 1
    for hit in hits:
        _print_hit(hit, terminal)
    for error in found.errors:
        terminal.finding(error)
    if not hits:
        hint = f"similar words: {', '.join(similar)}" if similar else None
        terminal.message("note", f"nothing matches '{one_line(query)[:80]}' in {among}", hint)
    if found.is_sample:
        terminal.message("note", SAMPLE_NOTE)
    return 0 if hits else 1


def _match(tool: Tool, query: str) -> Hit:
    """Return why a tool may have been found by a server, as far as the tool alone can tell."""
    hits = SearchIndex([tool]).search(query, 1)
    return Hit(tool, 0.0, hits[0].matched if hits else {})


def _find_matches(hit: Hit) -> dict[str, tuple[str, list[str]]]:
    """Return for each word of the query the matching word of the tool, and where it occurs."""
    places = words_by_place(hit.tool)
    return {
        word: (
            form,
            list(
                dict.fromkeys(_PLACES.get(place, place) for place, words in places.items() if form in words)
            ),
        )
        for word, form in hit.matched.items()
    }


def _print_hit(hit: Hit, terminal: Terminal) -> None:
    line = first_line(hit.tool.definition)
    terminal.echo(style(one_line(hit.tool.name), **NAME.style), f": {line}" if line else "")
    reasons = []
    for word, (form, places) in _find_matches(hit).items():
        *others, last = places or [""]
        where = f"{', '.join(others)} and {last}" if others else last
        reasons.append(f"{form if form == word else f'{word} = {form}'} in {where}")
    if reasons:
        terminal.echo("    ", style(one_line("; ".join(reasons)), dim=True))


def _hit_json(hit: Hit) -> dict[str, Any]:
    matched = {word: {"word": form, "in": places} for word, (form, places) in _find_matches(hit).items()}
    return {**tool_json(hit.tool), "score": hit.score, "matched": matched}


# --- scan --------------------------------------------------------------------------------------------


@click.command(cls=Command, examples=SCAN)
@targets_argument
@json_option
def scan(terminal: Terminal, targets: Sequence[str], as_json: bool) -> int:
    """Find tools in source files without importing them.

    Reads what an import would register: decorated functions, applications, tool objects and tables, for
    toolcrib, mcp and fastmcp. What only running the code could tell is reported with file and line. Exit
    code 0: no errors. 1: errors. 2: wrong usage.

    A TARGET is a Python file, folder, module, module:object, file.py:object or toolcrib.toml.
    """
    found = scan_targets(targets, terminal)
    if as_json:
        terminal.json(catalog_json(found.tools, found.findings))
        return 1 if found.errors else 0
    if found.tools:
        print_tools([tool.definition for tool in found.tools], terminal, with_source=True)
        terminal.echo("")
    print_findings(sorted(found.findings, key=lambda item: (LEVELS.index(item.level), item.code)), terminal)
    more = f" and {len(found.unlisted)} disabled or older" if found.unlisted else ""
    tools = f"{count(len(found.tools), 'tool')}{more} in {count(len(found.files), 'file')}"
    terminal.echo(f"{tools}; {count_findings(found.findings)}. Nothing was imported.")
    return 1 if found.errors else 0
