"""The providers that come with toolcrib, under their names."""

from __future__ import annotations

from toolcrib.agents.anthropic import Anthropic
from toolcrib.agents.gemini import Gemini
from toolcrib.agents.gemini_cli import GeminiCLI
from toolcrib.agents.hosted import HostedModel
from toolcrib.agents.openai import OpenAI
from toolcrib.agents.provider import providers

providers.register("gemini_cli", GeminiCLI)


@providers.register("openai")
class OpenAIModel(HostedModel):
    """OpenAI, and everything that speaks chat completions: give its address as `base_url`."""

    dialect = OpenAI()


@providers.register("anthropic")
class AnthropicModel(HostedModel):
    """Anthropic's messages API."""

    dialect = Anthropic()


@providers.register("gemini")
class GeminiModel(HostedModel):
    """Google's generateContent."""

    dialect = Gemini()
