"""The example agent, run as a user would run it."""

from __future__ import annotations

import asyncio
import sys

from tests.support.models.agent_tools import LINE_MODEL
from tests.support.models.model_endpoints import Endpoint, OpenAIVoice
from tests.support.servers.server_processes import ROOT, child_environment
from tests.support.system import fork_server


async def run(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
    program = str(ROOT / "examples" / "agent.py")
    options = {"input": stdin, "text": True, "timeout": 30, "env": child_environment(OPENAI_API_KEY="k3y")}
    done = await asyncio.to_thread(fork_server.run, program, *arguments, **options)
    return done.returncode, done.stdout, done.stderr


def program(manner: str) -> list[str]:
    return ["--provider", "gemini_cli", "--command", f"{sys.executable} -S {LINE_MODEL} {manner}"]


async def test_it_talks_to_a_program() -> None:
    code, out, err = await run(*program("adds"), "What is 2 and 3?")
    assert (code, out.strip()) == (0, "Let me see.\nThe sum is 5.0.")
    assert err == "[add {'a': 2, 'b': 3}]\n[add: 5.0]\n"


async def test_it_holds_a_conversation() -> None:
    code, out, _ = await run(*program("adds"), stdin="First?\nSecond?\n")
    assert (code, out.count("The sum is 5.0.")) == (0, 2)


async def test_it_talks_to_any_compatible_service() -> None:
    voice = OpenAIVoice()
    replies = (voice.answer("", [("count_words", {"text": "one two"})]), voice.answer("Two words."))
    async with Endpoint(*replies) as endpoint:
        address = ["--base-url", endpoint.address, "--model", "m"]
        code, out, err = await run("--provider", "openai", *address, "How many words?")
    assert (code, out) == (0, "Two words.\n")
    assert '[count_words: {"lines":1,"words":2,"letters":7}]' in err


async def test_errors_are_shown_with_a_hint() -> None:
    code, out, err = await run(*program("dies"), "Hello?")
    assert (code, "out of memory" in err) == (1, True)
    code, out, err = await run("--provider", "opnai", "Hello?")
    assert (code, out) == (1, "")
    assert err == "error: provider: unknown provider 'opnai'\nhint: did you mean 'openai'?\n"
