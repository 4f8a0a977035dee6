"""Answers with anything in the wrong place are read as far as they go, or are failures."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agents.test_hosted_models import every_voice, talk
from tests.support.agents import Bench, collect
from tests.support.model_endpoints import Endpoint, GeminiVoice, Reply, Voice, event
from tests.support.plugins import install_plugin, run_with_plugin
from toolcrib.agents import AgentRunner, Failure, Final, Limits

pytestmark = pytest.mark.usefixtures("sdks")
STREAMS = 2_000 if os.environ.get("TOOLCRIB_SOAK") else 15
DAMAGE: list[Any] = [None, True, 3, "", "x", [], [1], {}, {"a": 1}, [{"type": "text"}]]


def paths(node: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [before, *(path for key, child in inner for path in paths(child, (*before, key)))]


def damage(reply: Reply, randomness: random.Random) -> Reply:
    """Put an odd value somewhere into one event of a stream."""
    chunks = list(reply.chunks)
    number = randomness.choice([index for index, chunk in enumerate(chunks) if b"data: {" in chunk])
    name, _, data = chunks[number].decode().rpartition("data: ")
    item = json.loads(data)
    path = randomness.choice(paths(item)[1:])
    node = item
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = randomness.choice(DAMAGE)
    chunks[number] = name.encode() + event(item)
    return Reply(chunks)


@every_voice
async def test_a_damaged_stream_is_read_or_is_a_failure(voice: Voice) -> None:
    randomness = random.Random(11)
    whole = voice.stream("Well", [("add", {"a": 1}), ("letters", {"count": 2})])
    bench = Bench()
    for _ in range(STREAMS):
        async with (
            Endpoint(damage(whole, randomness), voice.stream("Done.")) as endpoint,
            talk(bench, voice, endpoint, Limits(turn_s=10, answer_s=20)) as runner,
        ):
            last = (await collect(runner))[-1]
        assert isinstance(last, Final | Failure)
        if isinstance(last, Failure):
            assert last.kind in ("cut", "failed", "garbled", "refused"), last


async def test_gemini_refuses_a_question_or_makes_a_bad_call() -> None:
    blocked = Reply([event({"promptFeedback": {"blockReason": "SAFETY"}})])
    malformed = Reply([event({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]})])
    failures = []
    for reply in (blocked, malformed):
        async with Endpoint(reply) as endpoint, talk(Bench(), GeminiVoice(), endpoint) as runner:
            failures.append((await collect(runner))[-1])
    assert [(failure.kind, failure.message) for failure in failures if isinstance(failure, Failure)] == [
        ("refused", "the service refused the question (SAFETY)"),
        ("garbled", "the model sent a malformed tool call (MALFORMED_FUNCTION_CALL)"),
    ]


async def test_an_overloaded_service_is_busy() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "hot"}}
    voice = next(voice for voice in every_voice.args[1] if voice.name == "anthropic")
    async with Endpoint(Reply([event(error, "error")])) as endpoint, talk(Bench(), voice, endpoint) as runner:
        last = (await collect(runner))[-1]
    assert isinstance(last, Failure)
    assert (last.kind, "hot" in last.message) == ("busy", True)


@every_voice
async def test_a_missing_sdk_is_a_failure_with_the_way_to_install_it(
    voice: Voice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "google.genai" if voice.name == "gemini" else voice.name, None)
    if voice.name == "gemini":
        import google

        monkeypatch.delattr(google, "genai", raising=False)
    runner = AgentRunner([], provider=voice.name, model="m", api_key="k")
    async with runner:
        last = (await collect(runner))[-1]
    assert isinstance(last, Failure)
    assert (last.kind, last.hint) == ("missing", f"pip install 'toolcrib[{voice.name}]'")


PLUGIN = """
from toolcrib.agents import Final

class Parrot:
    status = "stopped"
    async def start(self, session): self.status = "ready"
    async def send(self, text): self.text = text
    async def answer(self, answers): ...
    async def events(self):
        yield Final(self.text)
    async def stop(self): self.status = "stopped"
"""


def test_a_package_adds_a_provider_by_an_entry_point(tmp_path: Path) -> None:
    install_plugin(tmp_path, "toolcrib.providers", "parrot", PLUGIN, "Parrot")
    code = "from toolcrib.agents import AgentRunner; print(AgentRunner([], 'parrot').run('Hello'))"
    assert run_with_plugin(tmp_path, "-c", code).stdout == "Hello\n"


def test_a_broken_plugin_fails_only_when_it_is_used(tmp_path: Path) -> None:
    install_plugin(tmp_path, "toolcrib.providers", "parrot", "raise RuntimeError('boom')", "Parrot")
    assert run_with_plugin(tmp_path, "-m", "toolcrib", "agent", "--help").returncode == 0
    used = run_with_plugin(tmp_path, "-m", "toolcrib", "agent", "--provider", "parrot", "Hello?")
    assert used.returncode == 2
    assert "Cannot load the plugin 'parrot'" in used.stderr


def test_no_sdk_is_loaded_before_it_is_used() -> None:
    code = (
        "import sys, toolcrib.agents as agents; list(agents.providers); agents.OpenAIModel(model='m');"
        "print([name for name in ('openai', 'anthropic', 'google.genai', 'httpx2') if name in sys.modules])"
    )
    assert run_with_plugin(Path(), "-c", code).stdout == "[]\n"
