"""A catalog: tools, resources and prompts from one place, with what is wrong with the others."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolcrib.component import Component
from toolcrib.errors import Finding


@dataclass(slots=True)
class Catalog:
    """Components that are listed, those that are `hidden` because they are disabled or older versions, and
    findings about all of them and the rest. `label` says where they are from, for people."""

    components: list[Component] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    label: str = ""
    hidden: list[Component] = field(default_factory=list)
    servers: dict[int, str] = field(default_factory=dict)
    """The names of the servers in source files, by the ids of their tools."""
    files: int = 0
    """The number of source files that were read."""

    @property
    def everything(self) -> list[Component]:
        return [*self.components, *self.hidden]

    @property
    def tools(self) -> list[Component]:
        return [component for component in self.components if component.kind == "tool"]

    @property
    def others(self) -> list[Component]:
        """Resources, templates and prompts."""
        return [component for component in self.components if component.kind != "tool"]

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]

    def drop_duplicates(self) -> None:
        """Keep the first component of each kind, name and version, and report the others as errors. A scan
        finds several that are on different servers."""
        first: dict[tuple[str, str | None], Component] = {}
        for tool in self.everything:
            other = first.setdefault((tool.reference, tool.version), tool)
            if other is not tool:
                text = f"{tool.label} is defined twice: at {other.source} and at {tool.source}"
                hint = "take one server at a time: name its file, or FILE:SERVER"
                place = (tool.source.file, tool.source.line)
                self.findings.append(
                    Finding("duplicate-name", "error", text, tool.reference, None, *place, hint)
                )
        kept = set(map(id, first.values()))
        self.components = [tool for tool in self.components if id(tool) in kept]
        self.hidden = [tool for tool in self.hidden if id(tool) in kept]
