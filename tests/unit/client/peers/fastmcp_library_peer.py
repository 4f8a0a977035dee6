"""A server with resources and prompts in pages of two, built with fastmcp; run as `stdio` or `http PORT`."""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.providers.skills import SkillsDirectoryProvider
from fastmcp.skills.extension import SkillsExtension

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
server = FastMCP("library", version="1.2.3", list_page_size=2)
NAMES = ["Ada", "Alan", "Grace"]


@server.resource("note://static", title="A note", mime_type="text/plain")
def static() -> str:
    """A note that never changes."""
    return "żółw"


@server.resource("note://picture", mime_type="image/png")
def picture() -> bytes:
    """Some bytes."""
    return b"\x89PNG\x00\xff"


@server.resource("note://third")
def third() -> str:
    """A note on the second page."""
    return "third"


@server.resource("note://item/{name}", mime_type="text/plain")
def item(name: str) -> str:
    """One of many notes."""
    return f"the note of {name}"


@server.prompt(title="Greeting")
def greet(name: str, times: int = 1) -> str:
    """Greet somebody."""
    return " ".join([f"Greet {name}."] * times)


@server.prompt
def second() -> str:
    """The second prompt."""
    return "two"


@server.prompt
def last() -> str:
    """A prompt on the second page."""
    return "three"


@server.completion
def complete(ref: Any, argument: Any, context: Any) -> list[str]:
    return [name for name in NAMES if name.startswith(argument.value)]


skills = SkillsDirectoryProvider(Path(__file__).parent / "skills", experimental_skills=True)
server.add_provider(skills)
server.add_extension(SkillsExtension(providers=[skills]))

if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio", show_banner=False)
    else:
        server.run("http", port=int(sys.argv[2]), host="127.0.0.1", show_banner=False)
