"""The program with which the official suite tests our client: `python suite_client.py URL`, with the
scenario in the environment. Uses all that the server offers: lists the tools and calls each, or makes the
calls that the scenario asks for; lists resources and prompts and reads each; lists skills, and reads them if
the scenario is about their verification.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from toolcrib.client import Client, RemoteTool
from toolcrib.context import Answer, Elicitation, Sampling, SamplingResult, URLElicitation
from toolcrib.errors import ClientError

WORDS = {"string": "x", "integer": 1, "number": 2, "boolean": True, "array": [], "object": {}}
FOCAL, ECHO = "json_schema_2020_12_tool", "json_schema_echo"


async def accept(question: Elicitation | URLElicitation) -> Answer:
    fields = question.schema.get("properties", {}) if isinstance(question, Elicitation) else {}
    missing = {name: field for name, field in fields.items() if "default" not in field}
    return Answer("accept", {name: WORDS.get(field.get("type"), "x") for name, field in missing.items()})


async def complete(prompt: Sampling) -> SamplingResult:
    return SamplingResult("Hello", model="none")


def calls_for(tools: dict[str, RemoteTool]) -> list[tuple[str, dict[str, Any]]]:
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    if "toolCalls" in context:
        return [(call["name"], call.get("arguments", {})) for call in context["toolCalls"]]
    if ECHO in tools:
        return [(ECHO, {"schema": tools[FOCAL].input_schema})]
    return [(name, example_of(tool)) for name, tool in tools.items()]


def example_of(tool: RemoteTool) -> dict[str, Any]:
    properties = tool.input_schema.get("properties", {})
    return {name: WORDS.get(field.get("type"), "x") for name, field in properties.items()}


async def use_tools(client: Client) -> None:
    tools = {tool.name: tool for tool in await client.list_tools()}
    for name, arguments in calls_for(tools):
        try:
            await client.call(name, arguments)
        except ClientError as error:
            print(f"{name}: {error}", file=sys.stderr)


async def use_resources(client: Client) -> None:
    for resource in await client.list_resources():
        await client.read(resource.uri)
    await client.list_resource_templates()


async def use_prompts(client: Client) -> None:
    for prompt in await client.list_prompts():
        await client.get_prompt(prompt.name, {argument.name: "x" for argument in prompt.arguments})


async def use_skills(client: Client) -> None:
    for skill in await client.list_skills():
        if "verify" in os.environ["MCP_CONFORMANCE_SCENARIO"]:
            await client.read_skill(skill)
            for file in skill.files or ():
                await client.read_skill(skill, file.uri)


async def main(url: str) -> None:
    answers: dict[str, Any] = {"on_ask": accept, "on_sample": complete, "roots": ["/"]}
    async with Client(url, timeout_s=15, **answers) as client:
        await use_tools(client)
        if "resources" in client.capabilities:
            await use_resources(client)
        if "prompts" in client.capabilities:
            await use_prompts(client)
        await use_skills(client)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
