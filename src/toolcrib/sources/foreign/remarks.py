"""Findings about an adopted server as a whole, each reported once per server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from toolcrib.errors import Finding


def left_out(server: str, parts: Mapping[str, int]) -> Iterator[Finding]:
    """Parts of a server that are no tools."""
    counts = [f"{number} {part}{'s' if number > 1 else ''}" for part, number in parts.items() if number]
    if counts:
        words = f"Server '{server}' has {_join(counts)}, which toolcrib does not serve: it serves tools only"
        yield Finding("foreign-parts", "advice", words)


def _join(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
