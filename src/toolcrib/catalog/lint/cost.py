"""Rules for what a tool, and a whole list, cost: every conversation pays before anything is asked.

Knows token estimates; refuses to know prices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolcrib.catalog.lint.rule import Remark, Rule, Subject

COSTLY_TOOL = 1_000
COSTLY_LIST = 10_000
"""The budget beyond which a server may publish a search instead of its list."""


def find_costly_tool(subject: Subject) -> Iterator[Remark]:
    cost = subject.cost
    if cost > COSTLY_TOOL:
        yield Remark(f"'{subject.name}' costs about {cost:,} tokens in every conversation")


def find_costly_list(subjects: Sequence[Subject]) -> Iterator[tuple[Subject, Remark]]:
    costs = [(subject.cost, index) for index, subject in enumerate(subjects)]
    total = sum(cost for cost, _ in costs)
    if total <= COSTLY_LIST:
        return
    dearest = sorted(costs, reverse=True)[:3]
    named = ", ".join(f"'{subjects[index].name}' ({cost:,})" for cost, index in dearest)
    yield (
        subjects[dearest[0][1]],
        Remark(f"The list of {len(subjects):,} tools costs about {total:,} tokens; most of it: {named}"),
    )


RULES = (
    Rule(
        "costly-tool",
        "advice",
        f"A tool costs more than {COSTLY_TOOL:,} tokens",
        "Each conversation pays for its words and its schema, whether it is used or not.",
        "shorten its description, or split the tool",
        find_costly_tool,
    ),
    Rule(
        "costly-list",
        "advice",
        f"All tools together cost more than {COSTLY_LIST:,} tokens",
        "A long list crowds out the conversation, and models choose worse from it.",
        "publish a search instead ([search] in toolcrib.toml), or serve fewer: [tools] include",
        across=find_costly_list,
    ),
)
