"""Targets: strings that name a source of tools, on the command line, in `toolcrib.toml` and in `server.add`.

    tools.py                 a Python file
    tools.py:find_order      an object in it
    tools/                   a folder: its Python files, or its descriptors
    shop.api                 a module, with the modules below it
    shop.api:app             an object in it
    mcp-server-time          a console script of an installed package, also by its path
    tools.json               a descriptor: a file that describes tools
    toolcrib.lock            a lock file, which describes tools too
    toolcrib.toml            settings, which name other targets
    https://host/mcp         the address of a running server

This module alone decides which of these a string is. It imports no module, and reads a file only to
recognise a descriptor or a console script.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from toolcrib.errors import SourceError, suggest_file

FILE_NAME = "toolcrib.toml"
LOCK_NAME = "toolcrib.lock"
SAMPLES = "toolcrib.samples"
DESCRIPTOR_SUFFIXES = (".json", ".lock", ".yaml", ".yml")

TargetKind = Literal["address", "settings", "descriptor", "file", "folder", "module", "script", "other"]
"""A "file" is a Python file; "other" is any other existing file, for sources of other packages."""


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed target. `path` is a file or folder, `module` the name of a module, `name` the object after the
    colon. With `arguments`, even with none of them, it is run if it is a program that starts a server;
    otherwise it is imported."""

    text: str
    kind: TargetKind
    path: Path | None = None
    module: str | None = None
    name: str = ""
    arguments: tuple[str, ...] | None = None

    @property
    def is_missing(self) -> bool:
        """Whether the path does not exist. Modules are looked up when they are imported."""
        return self.path is not None and not os.path.exists(self.path)

    def check_exists(self) -> None:
        """Raise SourceError if the path does not exist."""
        if self.path is not None and self.is_missing:
            hint = suggest_file(self.path)
            raise SourceError(f"No such file or folder: {self.path}", hint=hint)

    def find_paths(self) -> list[Path]:
        """Return the files and folders of the target; of a module only once it is imported."""
        if self.path is not None:
            return [self.path]
        module = sys.modules.get(self.module or "")
        file = getattr(module, "__file__", None)
        return [Path(found) for found in list(getattr(module, "__path__", ())) or ([file] if file else [])]


def parse_target(text: str) -> Target:
    """Parse a string into a target."""
    if "://" in text:
        return Target(text, "address")
    if os.path.exists(text):  # unlike Path.exists, it accepts any text
        return Target(text, _kind_of_path(Path(text)), Path(text))
    head, colon, name = text.rpartition(":")
    if colon and (head.endswith(".py") or os.path.isfile(head)):
        return Target(text, "file", Path(head), name=name)
    if text.endswith((".py", ".toml", *DESCRIPTOR_SUFFIXES)) or "/" in text:
        return Target(text, _kind_of_missing(text), Path(text))
    if not all(part.isidentifier() for part in (head or text).split(".")):
        return Target(text, "script")
    return Target(text, "module", module=head, name=name) if colon else Target(text, "module", module=text)


def is_address(text: str) -> bool:
    """Return whether a text is the URL of a running server."""
    return text.lower().startswith(("http://", "https://"))


def is_settings(text: str) -> bool:
    """Return whether a text names a file of settings, which may not exist."""
    return text.endswith(".toml") and parse_target(text).kind == "settings"


def default_target() -> str:
    """Return the default target of commands: the settings of the current folder. Raise SourceError."""
    if os.path.isfile(FILE_NAME):
        return FILE_NAME
    hint = "name a file, a folder or a module, or use --samples for the sample tools"
    raise SourceError(f"No target, and no {FILE_NAME} in this folder", hint=hint)


def settings_files(targets: Sequence[str]) -> list[Path]:
    """Return the files of settings among targets; without targets, that of the current folder."""
    named = list(targets) or [FILE_NAME] * os.path.isfile(FILE_NAME)
    return [Path(target) for target in named if target.endswith(".toml")]


def resolve_target(text: str, folder: Path) -> str:
    """Return a target that means the same from any folder: paths are joined to `folder`."""
    head, colon, name = text.rpartition(":")
    path, rest = (head, f":{name}") if colon and head.endswith(".py") else (text, "")
    is_path = path.endswith((".py", ".toml")) or "/" in path or "\\" in path or (folder / path).exists()
    return f"{folder / path}{rest}" if is_path else text


def _is_script(path: Path) -> bool:
    """Return whether a file is a console script: a few lines of Python, or on Windows a program."""
    if path.suffix == ".exe":
        return True
    try:
        with path.open("rb") as file:
            start = file.read(512)
    except OSError:
        return False
    return start.startswith(b"#!") and b"python" in start


def _kind_of_path(path: Path) -> TargetKind:
    is_package = (path / "__init__.py").is_file()
    if (path.is_dir() and not is_package) or path.suffix in DESCRIPTOR_SUFFIXES:
        from toolcrib.sources.descriptors import is_descriptor  # most targets are Python files

        if is_descriptor(path):
            return "descriptor"
    if path.is_dir():
        return "folder"
    if path.suffix in (".py", ".toml"):
        return "settings" if path.suffix == ".toml" else "file"
    return "script" if _is_script(path) else "other"


def _kind_of_missing(text: str) -> TargetKind:
    if text.endswith(".toml"):
        return "settings"
    if text.endswith(".py"):
        return "file"
    return "descriptor" if text.endswith(DESCRIPTOR_SUFFIXES) else "folder"
