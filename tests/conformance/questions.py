"""The tools of the official suite that ask back: the person, the client's model, the client's folders."""

from __future__ import annotations

from typing import Any

from toolcrib import Context, tool
from toolcrib.context import Answer, Elicitation, Roots, Sampling
from toolcrib.errors import CannotAskError


def form(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


TEXT = {"type": "string"}
NAME = form(name=TEXT)

DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "required": [],
}

ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {
            "type": "string",
            "oneOf": [
                {"const": "value1", "title": "First Option"},
                {"const": "value2", "title": "Second Option"},
                {"const": "value3", "title": "Third Option"},
            ],
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array",
            "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
        },
        "titledMulti": {
            "type": "array",
            "items": {
                "anyOf": [
                    {"const": "value1", "title": "First Choice"},
                    {"const": "value2", "title": "Second Choice"},
                    {"const": "value3", "title": "Third Choice"},
                ]
            },
        },
    },
    "required": [],
}


def told(answer: Answer) -> str:
    return f"Elicitation completed: action={answer.action}, content={dict(answer.content)}"


@tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Has the client's model complete a prompt."""
    completion = await ctx.sample("completion", prompt, max_tokens=100)
    return f"LLM response: {completion.text}"


@tool
async def test_elicitation(message: str, ctx: Context) -> str:
    """Asks the person for a name and an address."""
    return told(await ctx.ask("user", message, form(username=TEXT, email=TEXT)))


@tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Asks for fields of every kind, each with a default."""
    return told(await ctx.ask("user", "Please review the defaults", DEFAULTS))


@tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Asks for choices in every shape there is."""
    return told(await ctx.ask("choices", "Please choose", ENUMS))


@tool
async def test_missing_capability(ctx: Context) -> str:
    """Cannot go on without the client's model."""
    completion = await ctx.sample("completion", "Say something", max_tokens=10)
    return str(completion.text)


@tool
async def test_streaming_elicitation(ctx: Context) -> str:
    """Asks the person, whose client must be able to hear that without a request from the server."""
    return told(await ctx.ask("user", "Who are you?", NAME))


@tool
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Asks for a name and greets."""
    answer = await ctx.ask("user_name", "What is your name?", NAME)
    return f"Hello, {answer.get('name', 'stranger')}!"


@tool
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Has the client's model answer a question."""
    completion = await ctx.sample("capital_question", "What is the capital of France?", max_tokens=100)
    return str(completion.text)


@tool
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Asks which folders the client works in."""
    folders = await ctx.roots("client_roots")
    return ", ".join(folder.uri for folder in folders)


@tool
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Asks for a confirmation; what comes back with it is checked by the server."""
    answer = await ctx.ask("confirm", "Please confirm", form(ok={"type": "boolean"}))
    return f"state-ok, {answer.action}"


@tool
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Asks for a confirmation that the suite answers with a state it has changed."""
    answer = await ctx.ask("confirm", "Please confirm", form(ok={"type": "boolean"}))
    return f"confirmed, {answer.action}"


@tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Asks the person, the model and the client, all at once."""
    replies = await ctx.ask_all(
        {
            "user_name": Elicitation("What is your name?", NAME),
            "greeting": Sampling("Generate a greeting", 50),
            "client_roots": Roots(),
        }
    )
    folders = [folder.uri for folder in replies["client_roots"]]
    return f"{replies['greeting'].text} {replies['user_name'].get('name')}, {folders}"


@tool
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Asks two questions, one after the other."""
    name = await ctx.ask("step1", "Step 1: What is your name?", NAME)
    color = await ctx.ask("step2", "Step 2: What is your favorite color?", form(color=TEXT))
    return f"{name.get('name')} likes {color.get('color')}"


@tool
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Asks the person where that is possible, else the model."""
    try:
        return told(await ctx.ask("who", "Who are you?", NAME))
    except CannotAskError:
        completion = await ctx.sample("who", "Invent a name", max_tokens=10)
        return str(completion.text)
