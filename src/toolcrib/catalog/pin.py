"""One tool as it was locked: its name and version, what clients were told, and its fingerprint.

Knows tools and how they are written down; refuses to know files and what becomes of a tool that differs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from toolcrib import codec
from toolcrib.catalog.compare import definition_of
from toolcrib.definition import ToolDefinition
from toolcrib.described import describe
from toolcrib.finding import Source
from toolcrib.tool import Tool

Key = tuple[str, str | None]
FINGERPRINT = "sha256:"


def key_of(tool: Tool) -> Key:
    return tool.name, tool.version


def title_of(name: str, version: str | None) -> str:
    return f"{name}@{version}" if version else name


@dataclass(frozen=True)
class Pin:
    """One tool as it was locked. `definition` is what clients are told; `source` is for people."""

    name: str
    version: str | None
    definition: Mapping[str, Any]
    source: str | None = None
    scopes: tuple[str, ...] = ()

    @classmethod
    def of(cls, tool: Tool, folder: Path | None = None) -> Pin:
        definition = definition_of(tool)
        plain = codec.decode(codec.canonical(definition.to_wire()))
        source = _show_source(definition.source, folder)
        return cls(tool.name, tool.version, plain, source, tuple(sorted(tool.options.scopes)))

    @property
    def key(self) -> Key:
        return self.name, self.version

    @property
    def title(self) -> str:
        return title_of(self.name, self.version)

    @cached_property
    def fingerprint(self) -> str:
        return codec.digest(self.definition)

    @cached_property
    def tool(self) -> Tool:
        """The tool, only described. Raises DefinitionError where nothing can be made of it."""
        wire = self.definition
        definition = ToolDefinition(
            name=self.name,
            description=wire.get("description", ""),
            input_schema=wire.get("inputSchema", {}),
            output_schema=wire.get("outputSchema"),
            title=wire.get("title"),
            annotations=wire.get("annotations", {}),
            version=self.version,
            source=Source(self.source),
            icons=wire.get("icons", ()),
            meta=wire.get("_meta", {}),
        )
        tool = describe(definition)
        return tool.with_options(scopes=self.scopes) if self.scopes else tool

    def fits(self, tool: Tool) -> bool:
        is_same = definition_of(tool).fingerprint == self.fingerprint
        return is_same and tuple(sorted(tool.options.scopes)) == self.scopes

    def to_json(self) -> dict[str, Any]:
        facts = {
            "name": self.name,
            "version": self.version,
            "fingerprint": f"{FINGERPRINT}{self.fingerprint}",
            "scopes": list(self.scopes),
            "source": self.source,
            "definition": self.definition,
        }
        return {key: value for key, value in facts.items() if value not in (None, [])}


def _show_source(source: Source, folder: Path | None) -> str | None:
    """Where a tool is from, as every machine would say it: from the lock's folder, or only the last names."""
    if source.file is None:
        return None
    if re.match(r"https?://", source.file):
        return re.sub(r"//[^/@]*@|[?#].*", lambda found: "//" if found[0][0] == "/" else "", source.file)
    path = Path(source.file)
    if not path.is_absolute() and not path.exists():
        return None  # a command: it may hold anything
    if folder is not None and path.is_absolute():
        try:
            return path.resolve().relative_to(folder.resolve()).as_posix()
        except ValueError:
            pass
    parts = PurePosixPath(path.as_posix()).parts
    return path.as_posix() if not path.is_absolute() else "/".join(parts[-2:])
