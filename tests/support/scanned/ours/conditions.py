# doubts: guessed-condition
# ruff: noqa: UP036 - people write it so
"""Ways that part."""

import os
import sys
from typing import TYPE_CHECKING

from toolcrib import MCPServer, tool

if TYPE_CHECKING:
    from collections.abc import Sequence  # noqa: F401

server = MCPServer("conditions")

if sys.version_info >= (3, 8):

    @tool
    def modern(a: int) -> int:
        """On any Python that is in use."""
        return a

else:

    @tool
    def ancient(a: int) -> int:
        """On none."""
        return a


if os.environ.get("SCANNED_NEVER_SET"):

    @server.tool
    def sometimes(a: int) -> int:
        """Sometimes there."""
        return a


try:
    import json as coder
except ImportError:
    coder = None


@server.tool
def always(a: list[int]) -> int:
    """Always there."""
    return len(a)
