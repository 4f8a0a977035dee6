"""Hosted models as providers of an agent, on the SDKs of OpenAI, Anthropic and Google.

    pip install openai      # or anthropic, or google-genai

    import hosted_models    # registers "openai", "anthropic" and "gemini"
    AgentRunner(server, provider="openai", model="gpt-5")

The SDK reads its key and address from the environment, sends requests and retries them. toolcrib exports the
tools for the provider, reads the calls in its answers, and writes the results in its format.
"""

from __future__ import annotations

from typing import Any

from toolcrib.agents import AgentError, Final, SessionCtx, ToolCall, providers
from toolcrib.catalog.export import export

MAX_TOKENS = 8_192


class HostedModel:
    """A model behind an HTTP API. A subclass translates to one SDK."""

    name: str
    status = "stopped"

    def __init__(self, *, model: str, base_url: str | None = None, api_key: str | None = None) -> None:
        self.model, self.base_url, self.api_key = model, base_url, api_key
        self.client: Any = None

    async def start(self, session: SessionCtx) -> None:
        self.session, self.status = session, "ready"
        self.client = self.connect(self.base_url, self.api_key)
        self.messages = [self.message(item.role, item.text) for item in session.messages]

    async def send(self, text: str) -> None:
        # Other services with OpenAI's API do not know its strict mode.
        self.exported = export(self.session.tools, to=self.name, strict=False)
        self.messages.append(self.message("user", text))
        self.status = "working"

    async def answer(self, answers) -> None:
        pairs = zip(self.calls, answers, strict=True)
        self.add_results([self.exported.result_for(call, item.result) for call, item in pairs])

    async def events(self):
        try:
            reply = await self.request()
            text, reason = self.read(reply)
        except Exception as error:  # each SDK has exceptions of its own
            raise AgentError(f"{self.name}: {error}", kind="failed") from None
        self.calls = self.exported.read_call(reply)
        for number, call in enumerate(self.calls):
            yield ToolCall(call.id or f"call_{number}", call.name, call.arguments, call.error)
        if not self.calls:
            self.status = "ready"
            yield Final(text, reason)

    async def stop(self) -> None:
        client, self.client, self.status = self.client, None, "stopped"
        if client is not None:
            await self.close(client)

    async def close(self, client: Any) -> None:
        await client.close()

    def connect(self, base_url: str | None, api_key: str | None) -> Any:
        """Return the client of the SDK."""
        raise NotImplementedError

    def message(self, role: str, text: str) -> Any:
        """Return a message of the user or of the model."""
        return {"role": "assistant" if role == "model" else "user", "content": text}

    def add_results(self, results: list[dict[str, Any]]) -> None:
        """Add the results of a turn to the messages."""
        raise NotImplementedError

    async def request(self) -> Any:
        """Return the reply of the model to the messages."""
        raise NotImplementedError

    def read(self, reply: Any) -> tuple[str, str]:
        """Add the reply to the messages; return its text and the reason of its end."""
        raise NotImplementedError


@providers.register("openai")
class OpenAIModel(HostedModel):
    """Chat completions: OpenAI, or any service with `/chat/completions` at `base_url`."""

    name = "openai"

    def connect(self, base_url, api_key):
        import openai  # each takes a second to import

        return openai.AsyncOpenAI(base_url=base_url, api_key=api_key)

    def add_results(self, results):
        self.messages += results

    async def request(self):
        system = self.session.instructions
        return await self.client.chat.completions.create(
            model=self.model,
            messages=[*([{"role": "system", "content": system}] if system else []), *self.messages],
            **({"tools": self.exported.tools} if self.exported.tools else {}),
        )

    def read(self, reply):
        choice = reply.choices[0]
        self.messages.append(choice.message.to_dict())
        reasons = {"length": "length", "content_filter": "refused"}
        return choice.message.content or "", reasons.get(choice.finish_reason, "stop")


@providers.register("anthropic")
class AnthropicModel(HostedModel):
    """Anthropic's messages, whose replies are lists of blocks."""

    name = "anthropic"

    def connect(self, base_url, api_key):
        import anthropic

        return anthropic.AsyncAnthropic(base_url=base_url, api_key=api_key)

    def add_results(self, results):
        self.messages.append({"role": "user", "content": results})  # all of a turn in one message

    async def request(self):
        return await self.client.messages.create(
            model=self.model,
            max_tokens=MAX_TOKENS,
            messages=self.messages,
            **({"system": self.session.instructions} if self.session.instructions else {}),
            **({"tools": self.exported.tools} if self.exported.tools else {}),
        )

    def read(self, reply):
        self.messages.append({"role": "assistant", "content": reply.to_dict()["content"]})
        reasons = {"max_tokens": "length", "refusal": "refused"}
        text = "".join(block.text for block in reply.content if block.type == "text")
        return text, reasons.get(reply.stop_reason, "stop")


@providers.register("gemini")
class GeminiModel(HostedModel):
    """Google's generateContent, whose replies are lists of parts."""

    name = "gemini"

    def connect(self, base_url, api_key):
        from google import genai

        return genai.Client(api_key=api_key, http_options={"base_url": base_url} if base_url else None)

    async def close(self, client):
        await client.aio.aclose()

    def message(self, role, text):
        return {"role": role, "parts": [{"text": text}]}

    def add_results(self, results):
        self.messages.append({"role": "user", "parts": results})

    async def request(self):
        return await self.client.aio.models.generate_content(
            model=self.model,
            contents=self.messages,
            config={
                "system_instruction": self.session.instructions,
                "tools": [{"function_declarations": self.exported.tools}] if self.exported.tools else None,
                "automatic_function_calling": {"disable": True},
            },
        )

    def read(self, reply):
        candidate = reply.candidates[0]
        # as it came: the parts are signed
        self.messages.append(candidate.content.model_dump(mode="json", by_alias=True, exclude_none=True))
        text = "".join(part.text or "" for part in candidate.content.parts or () if not part.thought)
        reasons = {"MAX_TOKENS": "length", "SAFETY": "refused"}
        return text, reasons.get(candidate.finish_reason.value, "stop")
