"""`toolcrib search`: tools by what they do, and why each was found.

Where a server shows tools to search with instead of its list, it is asked to search by itself. Knows the
words of the command; refuses to know how tools are found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from toolcrib.catalog.search import Hit, Place, SearchIndex, words_by_place
from toolcrib.cli.catalog import Stock, gather
from toolcrib.cli.options import Command, Failure, takes_json, takes_target_options
from toolcrib.cli.output import Terminal
from toolcrib.cli.remote import Remote, takes_server_options
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
    "notes": "parameters' descriptions",
}
MAX_LIMIT = 1000


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("words", nargs=-1, required=True, metavar="WORDS...")
@takes_target_options
@click.option("--static", is_flag=True, help="Read the source of the targets; import and run nothing.")
@click.option(
    "--limit", type=click.IntRange(1, MAX_LIMIT), default=10, metavar="N", help="How many at most; 10."
)
@takes_json
@takes_server_options
def search(
    terminal: Terminal,
    words: Sequence[str],
    targets: Sequence[str],
    static: bool,
    limit: int,
    as_json: bool,
    command: str | None,
    headers: Sequence[str],
    protocol: str | None,
) -> int:
    """Find tools by what they do, the best first.

    Names, titles, descriptions, tags, parameters and their choices are searched; typos and other forms of a
    word are forgiven. Exit code 0: something was found. 1: nothing was. 2: the command was given wrongly.

    A TARGET is a Python file, a folder, a module, module:object, a toolcrib.toml or the address of a running
    MCP server.
    """
    query = " ".join(words)
    if not any(letter.isalnum() for letter in query):
        raise Failure(
            f"'{query}' has no word in it", "say what the tool should do: toolcrib search delete file"
        )
    stock = gather(terminal, targets, static=static, command=command, headers=headers, protocol=protocol)
    finder, remote = _find_finder(stock.tools), Remote.read(targets, command, headers, protocol)
    if finder is not None and remote is not None:
        found, near = _search_there(remote, finder, query, limit, terminal), []
        among = f"the tools of {stock.label}"
    else:
        index = SearchIndex(stock.tools)
        found = index.search(query, limit)
        near = [] if found else index.suggest(query)
        among = count(len(stock.tools), "tool")
    if as_json:
        findings = [finding.to_json() for finding in stock.findings]
        terminal.json({"tools": [_to_json(hit) for hit in found], "near": near, "findings": findings})
        return 0 if found else 1
    for hit in found:
        _print(hit, terminal)
    for error in stock.errors:
        terminal.tell(error)
    if not found:
        hint = f"words that look like it: {', '.join(near)}" if near else None
        terminal.say("note", f"nothing fits '{one_line(query)[:80]}' among {among}", hint)
    if stock.is_sample:
        terminal.say("note", "these are the sample tools; name a file, a folder or a module with -t")
    return 0 if found else 1


def _print(hit: Hit, terminal: Terminal) -> None:
    line = first_line(hit.tool.definition)
    name = terminal.style_out(one_line(hit.tool.name), fg="green", bold=True)
    terminal.data(name, f": {line}" if line else "")
    reasons = [
        f"{form if form == word else f'{word} = {form}'} in {_join(places)}"
        for word, (form, places) in _reasons(hit).items()
    ]
    if reasons:
        terminal.data("    ", terminal.style_out(one_line("; ".join(reasons)), dim=True))


def _reasons(hit: Hit) -> dict[str, tuple[str, list[str]]]:
    """By word of the question: the word of the tool, and where it stands."""
    places = words_by_place(hit.tool)
    return {
        word: (form, list(dict.fromkeys(_PLACES[place] for place, words in places.items() if form in words)))
        for word, form in hit.matched.items()
    }


def _to_json(hit: Hit) -> dict[str, Any]:
    matched = {word: {"word": form, "in": places} for word, (form, places) in _reasons(hit).items()}
    return {**tool_json(hit.tool), "score": hit.score, "matched": matched}


def _join(places: Sequence[str]) -> str:
    return f"{', '.join(places[:-1])} and {places[-1]}" if len(places) > 1 else "".join(places)


# --- servers that search for themselves ----------------------------------------------------------------


def _search_there(remote: Remote, finder: Tool, query: str, limit: int, terminal: Terminal) -> list[Hit]:
    """What a server finds by itself, in its order."""
    most = finder.definition.input_schema["properties"].get("limit", {}).get("maximum", limit)
    result = remote.call(finder.name, lambda _: {"query": query, "limit": min(limit, most)}, None, terminal)
    answer = result.structured_content
    there = Stock()
    for item in answer.get("tools", ()) if isinstance(answer, Mapping) else ():
        if isinstance(item, Mapping) and isinstance(item.get("name"), str):
            there.describe(_read(item))
    return [_explain(tool, query) for tool in there.tools]


def _find_finder(tools: Iterable[Tool]) -> Tool | None:
    names = {tool.name: tool for tool in tools}
    has_caller = any(name.endswith(CALL) for name in names)
    for name, tool in names.items():
        properties = tool.definition.input_schema.get("properties", {})
        if has_caller and name.endswith(SEARCH) and "query" in properties:
            return tool
    return None


def _read(item: Mapping[str, Any]) -> ToolDefinition:
    schema, description = item.get("inputSchema"), item.get("description")
    return ToolDefinition(
        item["name"],
        description if isinstance(description, str) else "",
        schema if isinstance(schema, Mapping) else {"type": "object"},
    )


def _explain(tool: Tool, query: str) -> Hit:
    """Why this may have been found: as far as the tool alone can tell."""
    hits = SearchIndex([tool]).search(query, 1)
    return Hit(tool, 0.0, hits[0].matched if hits else {})
