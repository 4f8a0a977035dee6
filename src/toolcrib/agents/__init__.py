"""Agents: hand a catalog of tools to a model, and run its tool calls through every check that tools have.

Start with `AgentRunner`. `Limits` bounds an answer, `SessionCtx` is what a provider knows, and events
report what happens. `providers` has the models by name: `gemini_cli`, `openai`, `anthropic`, `gemini`,
and your own class that implements `Provider`.
"""

from toolcrib.agents.anthropic import AnthropicModel
from toolcrib.agents.gemini import GeminiModel
from toolcrib.agents.gemini_cli import GeminiCLI
from toolcrib.agents.openai import OpenAIModel
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
    event_to_json,
    providers,
)
from toolcrib.agents.runner import AgentRunner
from toolcrib.agents.toolbox import Toolbox
from toolcrib.errors import AgentError

__all__ = [
    "AgentError",
    "AgentRunner",
    "AnthropicModel",
    "Event",
    "Failure",
    "Final",
    "GeminiCLI",
    "GeminiModel",
    "Limits",
    "Message",
    "OpenAIModel",
    "Provider",
    "SessionCtx",
    "Token",
    "ToolAnswer",
    "ToolCall",
    "ToolResult",
    "Toolbox",
    "event_to_json",
    "providers",
]
