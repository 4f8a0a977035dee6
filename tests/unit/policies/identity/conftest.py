"""A place that publishes keys, for the tests of tokens."""

from __future__ import annotations

from tests.support.issuing import house

__all__ = ["house"]
