# ruff: noqa: F401 - people write it so
"""What a package exports counts once."""

from .parts import first, second

__all__ = ["first"]
