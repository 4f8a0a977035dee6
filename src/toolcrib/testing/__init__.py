"""Test your tools: a client for plain tests, fakes for questions, golden definitions, and a fuzzer.

    from toolcrib import testing

    def test_taking_returns_what_is_left():
        with testing.client("tools.py") as client:
            assert client.call("take", article="tea").structured_content == 2

Everything takes a server, or whatever `server.add` takes. Nothing here needs a test framework.
"""

from toolcrib.testing.clients import CANCEL, DECLINE, SyncClient, client, connect, fixture
from toolcrib.testing.fuzzer import FuzzReport, fuzz
from toolcrib.testing.golden import assert_definitions

__all__ = [
    "CANCEL",
    "DECLINE",
    "FuzzReport",
    "SyncClient",
    "assert_definitions",
    "client",
    "connect",
    "fixture",
    "fuzz",
]
