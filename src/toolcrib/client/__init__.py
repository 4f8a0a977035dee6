"""MCP client for servers of any protocol version, over HTTP, to a child process, or in memory.

async with Client("http://127.0.0.1:8000/mcp") as client:
    result = await client.call("add", {"a": 1, "b": 2})
"""

from toolcrib.client.client import Client
from toolcrib.client.entries import (
    Completion,
    PromptArgument,
    PromptMessage,
    PromptResult,
    RemotePrompt,
    RemoteResource,
    RemoteSkill,
    RemoteTemplate,
    RemoteTool,
    ResourceContents,
    SkillFile,
)
from toolcrib.client.http import HttpTransport, LegacySseTransport
from toolcrib.client.tasks import TaskHandle, TaskStatus
from toolcrib.client.transport import MemoryTransport, Pipe, StdioTransport, Transport

__all__ = [
    "Client",
    "Completion",
    "HttpTransport",
    "LegacySseTransport",
    "MemoryTransport",
    "Pipe",
    "PromptArgument",
    "PromptMessage",
    "PromptResult",
    "RemotePrompt",
    "RemoteResource",
    "RemoteSkill",
    "RemoteTemplate",
    "RemoteTool",
    "ResourceContents",
    "SkillFile",
    "StdioTransport",
    "TaskHandle",
    "TaskStatus",
    "Transport",
]
