"""The resources, skills and prompts that the official suite reads and gets."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from toolcrib import Context, File, Image, MCPServer

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def register(server: MCPServer) -> None:
    server.add_resource("test://static-text", "This is the text of a static resource.", description="A text")
    server.add_resource("test://static-binary", PIXEL, mime_type="image/png", description="An image")
    server.add_resource("test://watched-resource", "Watched.", description="A resource to subscribe to")

    server.add_skills(Path(__file__).parent / "skills", strict=True)

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def data(id: str) -> dict[str, str]:
        """Data of one id.

        Args:
            id: The id
        """
        return {"id": id, "data": f"Data of {id}"}

    @server.prompt
    def test_simple_prompt() -> str:
        """A prompt without arguments."""
        return "This is a simple prompt."

    @server.prompt
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        """A prompt with two arguments.

        Args:
            arg1: The first
            arg2: The second
        """
        return f"Arguments: arg1='{arg1}', arg2='{arg2}'"

    @test_prompt_with_arguments.complete("arg1")
    def first_values(value: str) -> list[str]:
        return ["paris", "park", "party"]

    @server.prompt
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:
        """A prompt with an embedded resource.

        Args:
            resourceUri: The URI of the resource
        """
        return [File("Content of the resource.", uri=resourceUri), "Please read it."]

    @server.prompt
    def test_prompt_with_image() -> list[Any]:
        """A prompt with an image."""
        return [Image(PIXEL), "Please look at it."]

    @server.prompt
    async def test_input_required_result_prompt(ctx: Context) -> str:
        """A prompt that asks before it answers."""
        schema = {"type": "object", "properties": {"context": {"type": "string"}}}
        answer = await ctx.ask("user_context", "What is this about?", schema)
        return f"The user says: {answer.get('context', 'nothing') if answer else 'nothing'}"

    @server.tool
    async def test_trigger_resource_update() -> str:
        """Announce that the watched resource has changed."""
        await server.resource_changed("test://watched-resource")
        return "announced"

    @server.tool
    async def test_trigger_prompt_change(ctx: Context) -> str:
        """Change the list of prompts."""
        name = "test_changing_prompt"
        if name in server.prompts:
            server.prompts.remove(name)
        else:
            server.prompt(name)(test_simple_prompt)
        return "changed"
