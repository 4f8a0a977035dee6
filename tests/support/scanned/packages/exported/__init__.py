"""What a package exports counts once."""

from .parts import first, second

__all__ = ["first"]
