"""The SDKs of the hosted models, imported once and only by the worker that needs them: they take seconds."""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture(scope="session")
def sdks() -> None:
    """Import every SDK, before any time limit counts."""
    for name in ("anthropic", "openai", "openai.types.chat", "google.genai"):
        importlib.import_module(name)
