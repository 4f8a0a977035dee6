"""`toolcrib search`: find tools by what they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import click

from toolcrib.catalog.catalog import Catalog, component_json
from toolcrib.catalog.search import Hit, SearchIndex, split_words, words_by_place
from toolcrib.cli.catalog import ToolSource, search_remotely, source_options
from toolcrib.cli.options import Command, CommandError, json_option
from toolcrib.cli.output import Terminal
from toolcrib.cli.text import NAME_STYLE, count, first_line, one_line, style
from toolcrib.component import Component
from toolcrib.sources.described import describe

EXAMPLES = """
toolcrib search deleting files              the targets of toolcrib.toml
toolcrib search -t tools.py refund order
toolcrib search -t servers/ --static weather --limit 3 --json
toolcrib search -t http://127.0.0.1:8000/mcp send a message
"""
_PLACES = {"summary": "description", "values": "choices", "notes": "parameter descriptions"}
"""Names for people of the places where words were found; the others are plain."""
_MIN_TYPO, _SIMILAR = 4, 0.66


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("words", nargs=-1, required=True, metavar="WORDS...")
@source_options(target=True)
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=10, metavar="N", help="Number of tools.  [default: 10]"
)
@json_option
def search(terminal: Terminal, words: Sequence[str], source: ToolSource, limit: int, as_json: bool) -> int:
    """Find tools by what they do, best matches first.

    Searches names, titles, descriptions, tags, parameters and their choices; other forms of a word, synonyms
    and typos match too. A server that lists search tools instead of its tools is asked to search itself. Exit
    code 0: found. 1: nothing found. 2: wrong usage.

    """
    query = " ".join(words)
    if not any(letter.isalnum() for letter in query):
        raise CommandError(f"'{query}' contains no words", "describe the tool: toolcrib search delete file")
    remote = source.remote
    similar: dict[str, str] = {}
    answer = None
    if remote is not None:
        answer = remote.run(lambda client: search_remotely(client, query, limit), terminal)
    if answer is not None:
        found = Catalog(label=source.command or source.targets[0])
        tools = [describe(tool.definition) for tool in answer]
        hits = [_match(tool, query) for tool in found.build(tools)]
        among = f"the tools of {found.label}"
    else:
        found = source.open(terminal)
        index = SearchIndex(found.tools)
        similar = _correct(split_words(query), index, found.tools)
        hits = index.search(" ".join(similar.get(word, word) for word in split_words(query)), limit)
        among = count(len(found.tools), "tool")
    if as_json:
        findings = [finding.to_json() for finding in found.findings]
        found_tools = [_hit_json(hit, similar) for hit in hits]
        terminal.json({"tools": found_tools, "similar": list(similar.values()), "findings": findings})
        return 0 if hits else 1
    for hit in hits:
        _print_hit(hit, similar, terminal)
    for error in found.errors:
        terminal.finding(error)
    if not hits:
        terminal.message("note", f"nothing matches '{one_line(query)[:80]}' in {among}")
    return 0 if hits else 1


def _match(tool: Component, query: str) -> Hit:
    """Return why a tool may have been found by a server, as far as the tool alone can tell."""
    hits = SearchIndex([tool]).search(query, 1)
    return Hit(tool, 0.0, hits[0].matched if hits else {})


def _correct(words: Sequence[str], index: SearchIndex, tools: Sequence[Component]) -> dict[str, str]:
    """Return likely typos among the words of a query, which no tool has, with the words that were meant."""
    unknown = [word for word in words if len(word) >= _MIN_TYPO and not index.knows(word)]
    if not unknown:
        return {}
    places = [words_by_place(tool) for tool in tools]
    known = sorted({word for place in places for words in place.values() for word in words})
    near = {word: get_close_matches(word, known, 1, _SIMILAR) for word in unknown}
    return {word: found[0] for word, found in near.items() if found}


def _find_matches(hit: Hit, similar: Mapping[str, str]) -> dict[str, tuple[str, list[str]]]:
    """Return for each word of the query the matching word of the tool, and where it occurs."""
    places = words_by_place(hit.tool)
    written = {meant: word for word, meant in similar.items()}
    return {
        written.get(word, word): (
            form,
            list(
                dict.fromkeys(_PLACES.get(place, place) for place, words in places.items() if form in words)
            ),
        )
        for word, form in hit.matched.items()
    }


def _print_hit(hit: Hit, similar: Mapping[str, str], terminal: Terminal) -> None:
    line = first_line(hit.tool.definition)
    terminal.echo(style(one_line(hit.tool.name), **NAME_STYLE), f": {line}" if line else "")
    reasons = []
    for word, (form, places) in _find_matches(hit, similar).items():
        *others, last = places or [""]
        where = f"{', '.join(others)} and {last}" if others else last
        reasons.append(f"{form if form == word else f'{word} = {form}'} in {where}")
    if reasons:
        terminal.echo("    ", style(one_line("; ".join(reasons)), dim=True))


def _hit_json(hit: Hit, similar: Mapping[str, str]) -> dict[str, Any]:
    matched = {
        word: {"word": form, "in": places} for word, (form, places) in _find_matches(hit, similar).items()
    }
    return {**component_json(hit.tool), "score": hit.score, "matched": matched}
