"""One measurement about catalogs, in a process of its own: `python -m bench.catalog_probe SUBJECT MEASURE`.

Prints one JSON object as its last line. Times are CPU seconds of the whole process. The limits that
the figures must keep are in `bench.search`.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import logging
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.shelf.app_questions import APP_QUESTIONS, KEPT_ASIDE
from bench.shelf.apps import make_app_tools
from bench.shelf.many import make_tools
from bench.shelf.questions import QUESTIONS, Question
from bench.shelf.tools import SHELF
from toolcrib.definition import ToolDefinition

Search = Callable[[str], list[str]]
"""From a question to names, five at most, the best first."""
SPREAD = 7
"""Every seventh question is timed, so that all kinds are among them."""


# --- searching ---------------------------------------------------------------------------------------


def our_search(definitions: list[ToolDefinition]) -> Search:
    from toolcrib.catalog.search import SearchIndex
    from toolcrib.sources.described import describe

    tools = [describe(definition) for definition in definitions]
    for tool in tools:
        _ = tool.definition  # as in a server that has listed them
    index = SearchIndex(tools)
    return lambda query: [hit.tool.name for hit in index.search(query, 5)]


def fastmcp_search(definitions: list[ToolDefinition]) -> Search:
    """The transform's own search of tools that are at hand: the least that its `search_tools` does."""
    transform = importlib.import_module("fastmcp.server.transforms.search").BM25SearchTransform(max_results=5)
    make = importlib.import_module("fastmcp.tools.base").Tool
    tools = [
        make(name=each.name, description=each.description, parameters=dict(each.input_schema))
        for each in definitions
    ]

    loop = asyncio.new_event_loop()

    def search(query: str) -> list[str]:
        return [tool.name for tool in loop.run_until_complete(transform._search(tools, query))]

    return search


SEARCHES = {"toolcrib": our_search, "fastmcp": fastmcp_search}


def time_search(options: argparse.Namespace) -> dict[str, Any]:
    """What one search among many costs, of questions that were not asked before."""
    search = SEARCHES[options.subject](make_tools(options.count))
    search("wram up")  # indexes are made for the first who asks
    taken = []
    for question in QUESTIONS[::SPREAD]:
        begin = time.process_time()
        search(question.text)
        taken.append(time.process_time() - begin)
    return {"search_s": statistics.mean(taken), "slowest_s": max(taken)}


def judge_search(options: argparse.Namespace) -> dict[str, Any]:
    """How many of the questions about the shelf are answered, and how well."""
    search = SEARCHES[options.subject](list(SHELF))

    def count(questions: list[Question], depth: int) -> int:
        return sum(not set(search(each.text)[:depth]).isdisjoint(each.answers) for each in questions)

    by_kind = {kind: [each for each in QUESTIONS if each.kind == kind] for kind in ("form",)}
    return {
        "first": count(list(QUESTIONS), 1),
        "five": count(list(QUESTIONS), 5),
        **{kind: count(questions, 1) for kind, questions in by_kind.items()},
    }


def judge_apps(options: argparse.Namespace) -> dict[str, Any]:
    """How many of the questions about eighty applications are answered by one of the first three."""
    search = SEARCHES[options.subject](make_app_tools())
    return {
        key: sum(not set(search(text)[:3]).isdisjoint(answers) for text, answers in questions)
        for key, questions in (("asked", APP_QUESTIONS), ("aside", KEPT_ASIDE))
    }


def time_index(options: argparse.Namespace) -> dict[str, Any]:
    from toolcrib.catalog.search import SearchIndex
    from toolcrib.sources.described import describe

    tools = [describe(definition) for definition in make_tools(options.count)]
    for tool in tools:
        _ = tool.definition
    begin = time.process_time()
    SearchIndex(tools)
    return {"index_s": time.process_time() - begin}


# --- reading source ----------------------------------------------------------------------------------


def time_scan(options: argparse.Namespace) -> dict[str, Any]:
    """Definitions from source by us; by griffe, modules loaded and the docstrings of all functions parsed."""
    if options.subject == "toolcrib":
        from toolcrib.sources.scan import scan

        begin = time.process_time()
        made = scan(options.folder)  # kept, as griffe's is: taking it down again is not measured
        return {"scan_s": time.process_time() - begin, "found": len(made.tools)}
    griffe: Any = importlib.import_module("griffe")
    logging.getLogger("griffe").setLevel(logging.CRITICAL)
    begin = time.process_time()
    package = griffe.load(options.folder.name, search_paths=[str(options.folder.parent)], submodules=True)
    found = 0
    for module in package.modules.values():
        for function in module.functions.values():
            found += bool(function.docstring and function.docstring.parse("google"))
    return {"scan_s": time.process_time() - begin, "found": found}


def time_cached(options: argparse.Namespace) -> dict[str, Any]:
    """A catalog built from source, and the same one from its cache."""
    from toolcrib.catalog.build import build_catalog, get_catalog_cached

    cache = options.folder.parent / "catalog.json"
    get_catalog_cached(options.folder, cache)
    begin = time.process_time()
    built = build_catalog(options.folder)
    build_s = time.process_time() - begin
    taken = []
    for _ in range(5):
        begin = time.process_time()
        cached = get_catalog_cached(options.folder, cache)
        taken.append(time.process_time() - begin)
    if cached != built:
        raise RuntimeError("the cached catalog is another one")
    return {"build_s": build_s, "cached_s": statistics.median(taken), "found": built["count"]}


MEASURES = {
    "search": time_search,
    "judge": judge_search,
    "apps": judge_apps,
    "index": time_index,
    "scan": time_scan,
    "cached": time_cached,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.catalog_probe", description=__doc__)
    parser.add_argument("subject", choices=["toolcrib", "fastmcp", "griffe"])
    parser.add_argument("measure", choices=list(MEASURES))
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, default=Path())
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print(json.dumps(MEASURES[options.measure](options)))


if __name__ == "__main__":
    main()
