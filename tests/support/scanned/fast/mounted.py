"""Servers inside servers."""

from fastmcp import FastMCP

inner = FastMCP("inner")
outer = FastMCP("outer")
plain = FastMCP("plain")


@inner.tool
def deep(a: int) -> int:
    """Deep inside."""
    return a


@plain.tool
def unprefixed(a: int) -> int:
    """Without a prefix."""
    return a


@outer.tool
def top(a: int) -> int:
    """On top."""
    return a


outer.mount(inner, namespace="in")
outer.mount(plain)
