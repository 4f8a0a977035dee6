"""Agents: give a model a catalog of tools, and run its tool calls with all checks of the server.

Start with `AgentRunner`. `Limits` limits an answer, `SessionCtx` is the conversation as a provider sees it,
and events report progress. `providers` has the models by name: `gemini_cli`, and your own classes that
implement `Provider`.
"""

from toolcrib.agents.gemini_cli import GeminiCLI
from toolcrib.agents.provider import (
    Event,
    Failure,
    Final,
    Limits,
    Message,
    Provider,
    SessionCtx,
    Token,
    ToolAnswer,
    ToolCall,
    ToolResult,
    providers,
)
from toolcrib.agents.runner import AgentRunner
from toolcrib.errors import AgentError

__all__ = [
    "AgentError",
    "AgentRunner",
    "Event",
    "Failure",
    "Final",
    "GeminiCLI",
    "Limits",
    "Message",
    "Provider",
    "SessionCtx",
    "Token",
    "ToolAnswer",
    "ToolCall",
    "ToolResult",
    "providers",
]
