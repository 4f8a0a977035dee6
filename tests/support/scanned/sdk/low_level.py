# doubts: low-level-server
"""A server with handlers, and no functions to take."""

from mcp.server.lowlevel import Server
from mcp_types import Tool

server = Server("low")
TOOLS = [Tool(name="hidden", description="Not reachable.", input_schema={"type": "object"})]
