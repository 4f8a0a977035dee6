"""`toolcrib init`: write a small project to start from."""

from __future__ import annotations

import re
from pathlib import Path

import click

from toolcrib.cli.options import Command, CommandError, json_option
from toolcrib.cli.output import Terminal
from toolcrib.config.atomic_file import write_file

EXAMPLES = """
toolcrib init notes     in the new folder notes
toolcrib init           in the current folder
"""

TOOLS = '''"""The tools of this project. Type hints become schemas, docstrings become descriptions."""

from typing import Literal

from toolcrib import ToolError, tool

NOTES: dict[str, str] = {}


@tool
def add_note(title: str, text: str) -> str:
    """Add a note, or replace the one with the same title.

    Args:
        title: A short title, unique among the notes
        text: The note itself

    Example:
        add_note(title="milk", text="two bottles")
    """
    NOTES[title] = text
    return f"{len(NOTES)} notes"


@tool(read_only=True)
def find_notes(words: str, order: Literal["title", "newest"] = "title") -> list[dict[str, str]]:
    """Find the notes that contain some words.

    Args:
        words: Words that the title or the text contains
        order: How to sort the notes

    Returns:
        Titles and texts of the notes
    """
    found = [{"title": title, "text": text} for title, text in NOTES.items() if words in f"{title} {text}"]
    return sorted(found, key=lambda note: note["title"]) if order == "title" else found[::-1]


@tool(destructive=True)
def delete_note(title: str) -> str:
    """Delete one note for good.

    Args:
        title: The title of the note
    """
    if title not in NOTES:
        raise ToolError(f"There is no note {title!r}")
    del NOTES[title]
    return "deleted"
'''

CONFIG = """# The page "Settings" of the documentation of toolcrib lists all.
[server]
name = "{name}"
targets = ["tools.py"]
"""

TESTS = '''"""Tests of the tools, through the same protocol that clients use. Run them with pytest."""

from toolcrib import testing


def test_a_note_is_kept_and_found() -> None:
    with testing.client("tools.py") as client:
        client.call("add_note", title="milk", text="two bottles")
        found = client.call("find_notes", words="bottles")
        assert found.structured_content == [{"title": "milk", "text": "two bottles"}]
        assert client.call("delete_note", title="bread").is_error


def test_no_arguments_crash_a_tool() -> None:
    testing.fuzz("tools.py", destructive=True)
'''


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("folder", default=".", metavar="[FOLDER]", type=click.Path(file_okay=False))
@json_option
def init(terminal: Terminal, folder: str, as_json: bool) -> int:
    """Write a small project: tools, a toolcrib.toml and a test.

    Existing files are never changed.
    """
    root = Path(folder)
    name = re.sub(r"[^a-zA-Z0-9_-]+", "-", root.resolve().name).strip("-") or "tools"
    files = {"tools.py": TOOLS, "toolcrib.toml": CONFIG.format(name=name), "test_tools.py": TESTS}
    existing = [file for file in files if (root / file).exists()]
    if existing:
        verb = "exists" if len(existing) == 1 else "exist"
        raise CommandError(f"{', '.join(existing)} already {verb} in {root}", "name another folder")
    for file, text in files.items():
        write_file(root / file, text.encode())
    if as_json:
        terminal.json({"folder": str(root), "files": list(files)})
        return 0
    for file in files:
        terminal.echo(str(root / file))
    enter = "" if root.resolve() == Path.cwd() else f"cd {root}, then "
    terminal.message("note", f"{len(files)} files written", f"next: {enter}toolcrib check, toolcrib serve")
    return 0
