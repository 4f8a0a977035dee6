"""All plays of a version."""

from __future__ import annotations

from tests.support.clients.transcripts import Play
from tests.wire.golden import calls, heads, protocol, question_script

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
_SOURCES = (
    *(protocol.met, protocol.lists, calls.results, calls.arguments, calls.news),
    *(question_script.answered, question_script.refused, protocol.methods, protocol.ids, protocol.shapes),
    *(protocol.cancelled, heads.heads),
)


def plays(version: str) -> list[tuple[str, Play]]:
    """Every play with the way it is played; each pair of way and name is there once."""
    return [(way, play) for source in _SOURCES for play in source(version) for way in play.over]
