"""Resources, prompts and completions as a scripted server sends them, valid and not."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.client import PromptArgument, RemotePrompt, RemoteResource, RemoteTemplate
from toolcrib.context import Answer, Elicitation, URLElicitation
from toolcrib.errors import InvalidArgumentsError, InvalidResponseError, RemoteError

from .scripted_http import Answer as HttpAnswer
from .scripted_http import modern as modern_stage
from .scripted_server import ScriptedServer, both, legacy, modern

FORM = {
    "method": "elicitation/create",
    "params": {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}},
}


async def say_ada(question: Elicitation | URLElicitation) -> Answer:
    return Answer("accept", {"name": "Ada"})


# --- lists ---


@pytest.mark.parametrize("era", [0, 1])
async def test_entries_are_read_with_all_their_fields(era: int) -> None:
    resource = {
        "uri": "a://1",
        "name": "one",
        "title": "One",
        "description": "d",
        "mimeType": "text/plain",
        "size": 5,
    }
    template = {"uriTemplate": "a://{n}", "name": "any", "mimeType": "text/plain"}
    argument = {"name": "x", "title": "X", "description": "an x", "required": True}
    prompt = {"name": "p", "title": "P", "description": "d", "arguments": [argument, {"name": "y"}]}
    scripted = both(
        resources_list={"resources": [resource]},
        prompts_list={"prompts": [prompt]},
        **{"resources_templates/list": {"resourceTemplates": [template]}},
    )[era]
    async with scripted.client() as client:
        assert await client.list_resources() == [
            RemoteResource("a://1", "one", "One", "d", "text/plain", 5, resource)
        ]
        assert await client.list_resource_templates() == [
            RemoteTemplate("a://{n}", "any", None, "", "text/plain", template)
        ]
        arguments = (PromptArgument("x", "X", "an x", True), PromptArgument("y"))
        assert await client.list_prompts() == [RemotePrompt("p", "P", "d", arguments, prompt)]


async def test_invalid_entries_are_skipped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    odd = {"uri": "a://2", "name": 5, "title": [], "description": {}, "mimeType": 1, "size": True}
    resources = [{"name": "without"}, 5, None, odd, {"uri": "a://2", "name": "again"}]
    prompts = [{"name": "p", "arguments": [5]}, {"name": "q", "arguments": [{}]}, {"name": "r"}, {}]
    scripted = modern(resources_list={"resources": resources}, prompts_list={"prompts": prompts})
    async with scripted.client() as client:
        assert await client.list_resources() == [RemoteResource("a://2", "a://2", wire=odd)]
        assert [prompt.name for prompt in await client.list_prompts()] == ["r"]
    assert "scripted lists an invalid resource: missing uri" in caplog.text
    assert "scripted lists an invalid resource: not an object" in caplog.text
    assert "scripted lists the resource 'a://2' twice; the second is ignored" in caplog.text
    assert "scripted lists an invalid prompt: an argument is not an object" in caplog.text


async def test_a_server_without_the_capability_has_nothing_to_list() -> None:
    for scripted in both():
        async with scripted.client() as client:
            assert await client.list_resources() == []
            assert await client.list_resource_templates() == []
            assert await client.list_prompts() == []
            with pytest.raises(RemoteError, match="Method not found"):
                await client.read("a://1")


# --- reading ---


async def test_contents_are_text_or_bytes() -> None:
    contents = [
        {"uri": "a://1", "mimeType": "text/plain", "text": "", "_meta": {"x": 1}},
        {"uri": "a://2", "blob": "AAH/"},
    ]
    for scripted in both(resources_read={"contents": contents}):
        async with scripted.client() as client:
            text, data = await client.read("a://1")
        assert (text.text, text.data, text.mime_type, text.meta) == ("", None, "text/plain", {"x": 1})
        assert (data.text, data.data, data.mime_type, data.meta) == (None, b"\x00\x01\xff", None, None)
        assert scripted.named("resources/read")[0]["params"]["uri"] == "a://1"


@pytest.mark.parametrize(
    "contents",
    [
        None,
        {},
        [5],
        [{}],
        [{"text": "x"}],
        [{"uri": "a://1"}],
        [{"uri": "a://1", "text": "x", "blob": "eA=="}],
        [{"uri": "a://1", "text": 5}],
        [{"uri": "a://1", "blob": "%%%"}],
        [{"uri": "a://1", "blob": "eA"}],
        [{"uri": "a://1", "blob": "żółw"}],
    ],
)
async def test_invalid_contents_are_an_error(contents: Any) -> None:
    async with modern(resources_read={"contents": contents}).client() as client:
        with pytest.raises(InvalidResponseError, match=r"returned a.* resource"):
            await client.read("a://1")


async def test_a_prompt_is_a_description_and_messages() -> None:
    image = {"type": "image", "data": "eA==", "mimeType": "image/png"}
    messages = [
        {"role": "user", "content": {"type": "text", "text": "Hi"}},
        {"role": "assistant", "content": image},
    ]
    for scripted in both(prompts_get={"description": "d", "messages": messages, "_meta": {"x": 1}}):
        async with scripted.client() as client:
            found = await client.get_prompt("p", {"text": "5", "number": 5, "list": ["a", None]})
        assert (found.description, found.meta) == ("d", {"x": 1})
        assert [(message.role, message.text) for message in found.messages] == [
            ("user", "Hi"),
            ("assistant", ""),
        ]
        assert found.messages[1].content == image
        sent = scripted.named("prompts/get")[0]["params"]["arguments"]
        assert sent == {"text": "5", "number": "5", "list": '["a",null]'}


@pytest.mark.parametrize(
    "messages",
    [
        None,
        {},
        [5],
        [{"role": "system", "content": {"type": "text", "text": "x"}}],
        [{"role": "user"}],
        [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
        [{"role": "user", "content": {"type": "text"}}],
    ],
)
async def test_invalid_messages_are_an_error(messages: Any) -> None:
    async with modern(prompts_get={"messages": messages}).client() as client:
        with pytest.raises(InvalidResponseError, match="returned a prompt with"):
            await client.get_prompt("p")


async def test_arguments_that_are_not_json_are_refused() -> None:
    async with modern().client() as client:
        with pytest.raises(InvalidArgumentsError, match="not JSON"):
            await client.get_prompt("p", {"x": object()})


# --- completion ---


async def test_a_completion_names_what_is_completed() -> None:
    answer = {"completion": {"values": ["a", "b"], "total": 9, "hasMore": True}}
    template = RemoteTemplate("a://{n}", "any")
    for scripted in both(completion_complete=answer):
        async with scripted.client() as client:
            found = await client.complete("p", "x", "a", {"y": "1"})
            for ref in (RemotePrompt("p"), template, "a://{n}", {"type": "ref/other", "id": 1}):
                await client.complete(ref, "x", "")
        assert (found.values, found.total, found.has_more) == (["a", "b"], 9, True)
        sent = [message["params"] for message in scripted.named("completion/complete")]
        assert sent[0]["argument"] == {"name": "x", "value": "a"}
        assert sent[0]["context"] == {"arguments": {"y": "1"}}
        assert "context" not in sent[1]
        assert [params["ref"] for params in sent] == [
            {"type": "ref/prompt", "name": "p"},
            {"type": "ref/prompt", "name": "p"},
            {"type": "ref/resource", "uri": "a://{n}"},
            {"type": "ref/resource", "uri": "a://{n}"},
            {"type": "ref/other", "id": 1},
        ]


@pytest.mark.parametrize("completion", [None, [], {}, {"values": None}, {"values": ["a", 5]}])
async def test_an_invalid_completion_is_an_error(completion: Any) -> None:
    async with modern(completion_complete={"completion": completion}).client() as client:
        with pytest.raises(InvalidResponseError, match="a completion without values"):
            await client.complete("p", "x", "")


async def test_odd_counts_of_a_completion_are_ignored() -> None:
    odd = {"completion": {"values": [], "total": "many", "hasMore": 1}}
    async with modern(completion_complete=odd).client() as client:
        found = await client.complete("p", "x", "")
    assert (found.values, found.total, found.has_more) == ([], None, False)


# --- questions ---


@pytest.mark.parametrize("method", ["resources/read", "prompts/get"])
async def test_a_read_and_a_prompt_are_repeated_with_the_answers(method: str) -> None:
    def reply(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        params = message["params"]
        if "inputResponses" not in params:
            wants = {"resultType": "input_required", "inputRequests": {"q": FORM}, "requestState": "s"}
            scripted.answer(message, wants)
        else:
            name = params["inputResponses"]["q"]["content"]["name"]
            contents = [{"uri": "a://1", "text": name}]
            messages = [{"role": "user", "content": {"type": "text", "text": name}}]
            scripted.answer(message, {"contents": contents, "messages": messages})

    scripted = ScriptedServer({**modern().replies, method: reply})
    async with scripted.client(on_ask=say_ada) as client:
        if method == "resources/read":
            assert (await client.read("a://1"))[0].text == "Ada"
        else:
            assert (await client.get_prompt("p")).messages[0].text == "Ada"
    first, second = (message["params"] for message in scripted.named(method))
    assert second["requestState"] == "s"
    assert {key: second[key] for key in first if key != "_meta"} == {
        key: first[key] for key in first if key != "_meta"
    }
    async with scripted.client() as client:
        with pytest.raises(InvalidResponseError, match="not available"):
            await (client.read("a://1") if method == "resources/read" else client.get_prompt("p"))


async def test_progress_and_log_messages_of_a_read_are_heard() -> None:
    def reply(scripted: ScriptedServer, message: dict[str, Any]) -> None:
        token = message["params"]["_meta"]["progressToken"]
        scripted.notify("notifications/progress", progressToken=token, progress=1)
        scripted.notify("notifications/message", level="info", data="line")
        scripted.answer(message, {"contents": []})

    heard: list[Any] = []
    scripted = legacy(resources_read=reply)
    async with scripted.client() as client:
        await client.read(
            "a://1", on_progress=lambda *step: heard.append(step), on_log=lambda *x: heard.append(x)
        )
    assert heard == [(1, None, None), ("info", "line")]
    assert scripted.named("logging/setLevel")


# --- headers ---


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("file:///a%20b?c=1", "file:///a%20b?c=1"),
        ("note://żółw", "=?base64?bm90ZTovL8W8w7PFgnc=?="),
        (" note://x", "=?base64?IG5vdGU6Ly94?="),
    ],
)
async def test_reads_and_gets_carry_their_name_in_a_header(name: str, header: str) -> None:
    def read(answer: HttpAnswer) -> None:
        answer.result({"contents": [], "messages": []})

    async with modern_stage(resources_read=read, prompts_get=read) as scripted, scripted.client() as client:
        await client.read(name)
        await client.get_prompt(name)
        sent = [request.headers for request in scripted.requests[1:]]
    assert [(headers["mcp-method"], headers["mcp-name"]) for headers in sent] == [
        ("resources/read", header),
        ("prompts/get", header),
    ]
