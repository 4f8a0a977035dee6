"""A catalog: tools, resources and prompts from one place, with what is wrong with the others."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolcrib.errors import Finding
from toolcrib.tool import Tool


@dataclass(slots=True)
class Catalog:
    """Components whose definitions are built, and findings about them and the rest. `label` says where they
    are from, for people."""

    components: list[Tool] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    label: str = ""

    @property
    def tools(self) -> list[Tool]:
        return [component for component in self.components if component.kind == "tool"]

    @property
    def others(self) -> list[Tool]:
        """Resources, templates and prompts."""
        return [component for component in self.components if component.kind != "tool"]

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]

    def drop_duplicates(self) -> None:
        """Keep the first component of each kind, name and version, and report the others as errors. A scan
        finds several that are on different servers."""
        first: dict[tuple[str, str | None], Tool] = {}
        for tool in self.components:
            other = first.setdefault((tool.reference, tool.version), tool)
            if other is not tool:
                text = f"{tool.label} is defined twice: at {other.source} and at {tool.source}"
                hint = "take one server at a time: name its file, or FILE:SERVER"
                place = (tool.source.file, tool.source.line)
                self.findings.append(
                    Finding("duplicate-name", "error", text, tool.reference, None, *place, hint)
                )
        self.components = list(first.values())
