"""`toolcrib search`: find tools by what they do.

A server that lists search tools instead of its tools is asked to search itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from toolcrib.catalog.search import Hit, Place, SearchIndex, words_by_place
from toolcrib.cli.catalog import ToolSet, ToolSource
from toolcrib.cli.load import SAMPLE_NOTE
from toolcrib.cli.options import Command, CommandError, json_option, static_option, target_option
from toolcrib.cli.output import Terminal
from toolcrib.cli.remote import Remote, RemoteOptions, remote_options
from toolcrib.cli.text import count, first_line, one_line, tool_json
from toolcrib.definition import ToolDefinition
from toolcrib.dispatch.tool_search import CALL, SEARCH
from toolcrib.tool import Tool

EXAMPLES = """
toolcrib search deleting files              toolcrib.toml, or the samples
toolcrib search -t tools.py refund order
toolcrib search -t servers/ --static weather --limit 3 --json
toolcrib search -t http://127.0.0.1:8000/mcp send a mesage
"""
_PLACES: Mapping[Place, str] = {
    "name": "name",
    "title": "title",
    "tags": "tags",
    "summary": "description",
    "description": "description",
    "parameters": "parameters",
    "values": "choices",
    "notes": "parameter descriptions",
}
MAX_LIMIT = 1000


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("words", nargs=-1, required=True, metavar="WORDS...")
@target_option
@static_option
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_LIMIT),
    default=10,
    metavar="N",
    help="At most N.  [default: 10]",
)
@json_option
@remote_options
def search(
    terminal: Terminal,
    words: Sequence[str],
    targets: Sequence[str],
    static: bool,
    limit: int,
    as_json: bool,
    remote: RemoteOptions,
) -> int:
    """Find tools by what they do, best matches first.

    Searches names, titles, descriptions, tags, parameters and their choices; typos and other forms of a word
    match too. Exit code 0: found. 1: nothing found. 2: wrong usage.

    A TARGET is a Python file, folder, module, module:object, toolcrib.toml or the URL of an MCP server.
    """
    query = " ".join(words)
    if not any(letter.isalnum() for letter in query):
        raise CommandError(f"'{query}' contains no words", "describe the tool: toolcrib search delete file")
    found = ToolSource(targets, static, remote).collect(terminal)
    search_tool, server = _find_search_tool(found.tools), remote.connect_to(targets)
    if search_tool is not None and server is not None:
        hits, similar = _search_remotely(server, search_tool, query, limit, terminal), []
        among = f"the tools of {found.label}"
    else:
        index = SearchIndex(found.tools)
        hits = index.search(query, limit)
        similar = [] if hits else index.suggest(query)
        among = count(len(found.tools), "tool")
    if as_json:
        findings = [finding.to_json() for finding in found.findings]
        terminal.json({"tools": [_to_json(hit) for hit in hits], "near": similar, "findings": findings})
        return 0 if hits else 1
    for hit in hits:
        _print(hit, terminal)
    for error in found.errors:
        terminal.finding(error)
    if not hits:
        hint = f"similar words: {', '.join(similar)}" if similar else None
        terminal.message("note", f"nothing matches '{one_line(query)[:80]}' in {among}", hint)
    if found.is_sample:
        terminal.message("note", SAMPLE_NOTE)
    return 0 if hits else 1


def _print(hit: Hit, terminal: Terminal) -> None:
    line = first_line(hit.tool.definition)
    name = terminal.style_out(one_line(hit.tool.name), fg="green", bold=True)
    terminal.echo(name, f": {line}" if line else "")
    reasons = [
        f"{form if form == word else f'{word} = {form}'} in {_join(places)}"
        for word, (form, places) in _find_matches(hit).items()
    ]
    if reasons:
        terminal.echo("    ", terminal.style_out(one_line("; ".join(reasons)), dim=True))


def _find_matches(hit: Hit) -> dict[str, tuple[str, list[str]]]:
    """Return for each word of the query the matching word of the tool, and where it occurs."""
    places = words_by_place(hit.tool)
    return {
        word: (form, list(dict.fromkeys(_PLACES[place] for place, words in places.items() if form in words)))
        for word, form in hit.matched.items()
    }


def _join(places: Sequence[str]) -> str:
    return f"{', '.join(places[:-1])} and {places[-1]}" if len(places) > 1 else "".join(places)


def _to_json(hit: Hit) -> dict[str, Any]:
    matched = {word: {"word": form, "in": places} for word, (form, places) in _find_matches(hit).items()}
    return {**tool_json(hit.tool), "score": hit.score, "matched": matched}


# --- servers that search themselves ----------------------------------------------------------------------


def _search_remotely(server: Remote, tool: Tool, query: str, limit: int, terminal: Terminal) -> list[Hit]:
    """Return what a server finds, in its order."""
    maximum = tool.definition.input_schema["properties"].get("limit", {}).get("maximum", limit)
    arguments = {"query": query, "limit": min(limit, maximum)}
    answer = server.call(tool.name, lambda _: arguments, None, terminal).structured_content
    found = ToolSet()
    for item in answer.get("tools", ()) if isinstance(answer, Mapping) else ():
        if isinstance(item, Mapping) and isinstance(item.get("name"), str):
            schema, description = item.get("inputSchema"), item.get("description")
            found.add_definition(
                ToolDefinition(
                    item["name"],
                    description if isinstance(description, str) else "",
                    schema if isinstance(schema, Mapping) else {"type": "object"},
                )
            )
    return [_match(tool, query) for tool in found.tools]


def _find_search_tool(tools: Iterable[Tool]) -> Tool | None:
    names = {tool.name: tool for tool in tools}
    has_caller = any(name.endswith(CALL) for name in names)
    for name, tool in names.items():
        properties = tool.definition.input_schema.get("properties", {})
        if has_caller and name.endswith(SEARCH) and "query" in properties:
            return tool
    return None


def _match(tool: Tool, query: str) -> Hit:
    """Return why a tool may have been found, as far as the tool alone can tell."""
    hits = SearchIndex([tool]).search(query, 1)
    return Hit(tool, 0.0, hits[0].matched if hits else {})
