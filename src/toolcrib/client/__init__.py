"""An MCP client of both eras: over HTTP, to a child process, or in memory.

Begin with `Client`. A link carries messages (`HttpLink`, `PairLink`, `StdioLink`, `MemoryLink`); everything
above it is the same for all.
"""

from toolcrib.client.client import Client
from toolcrib.client.http import HttpLink
from toolcrib.client.legacy_sse import PairLink
from toolcrib.client.link import Link
from toolcrib.client.memory import MemoryLink, Pipe
from toolcrib.client.stdio import StdioLink
from toolcrib.client.tools import RemoteTool

__all__ = ["Client", "HttpLink", "Link", "MemoryLink", "PairLink", "Pipe", "RemoteTool", "StdioLink"]
