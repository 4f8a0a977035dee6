"""`scan`: turn source files into tools by reading syntax trees; nothing is imported or run.

Every step after reading is the one that importing takes, so a tool scanned without a finding equals the
registered one.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from toolcrib.config import FILE_NAME, Config, load_config, switches_from
from toolcrib.errors import ConfigurationError, DefinitionError, Finding, SourceError
from toolcrib.registry.index import report_shortened
from toolcrib.registry.registry import ToolRegistry
from toolcrib.registry.selection import drop_repeated, select
from toolcrib.sources import collect
from toolcrib.sources.loading import imports_forbidden
from toolcrib.sources.scan.discovery import Aim, take_aim
from toolcrib.sources.scan.reading import Progress, Reading
from toolcrib.tool import Tool

SAMPLES = "toolcrib.samples"


@dataclass(slots=True)
class Scan:
    """What was found. `tools` can all be listed; `unlisted` are off, or older versions. `files` were meant by
    the targets, in order; `read` are all that were looked into."""

    tools: list[Tool] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    unlisted: list[Tool] = field(default_factory=list)
    read: list[Path] = field(default_factory=list)

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]


def scan(*targets: str | os.PathLike[str], progress: Progress | None = None) -> Scan:
    """The tools in source files, without importing or running any of them.

    A target is a file, a folder, a module name, `file.py:name`, `module:name`, a descriptor or a
    toolcrib.toml; none is the toolcrib.toml here, or else the samples. Raises SourceError where a target is
    not there, ConfigurationError where a toolcrib.toml is wrong; what is wrong with a file or a tool is a
    finding.
    """
    for target in targets:
        _check_type(target)
    was_collecting = gc.isenabled()
    gc.disable()  # trees are many objects and no garbage: looking for some doubles the time
    try:
        with imports_forbidden():
            return _Scanner(progress).scan(targets)
    finally:
        if was_collecting:
            gc.enable()


def _check_type(target: Any) -> None:
    if not isinstance(target, str | os.PathLike) or not isinstance(os.fspath(target), str):
        hint = "scan(*targets)" if isinstance(target, list | tuple | set) else "give text or a Path"
        raise TypeError(f"A target is the name of a file or module, not {type(target).__name__}: {hint}")


def _failure(tool: Tool, error: Exception) -> Finding:
    words = f"Tool '{tool.name}' cannot be read: {type(error).__name__}: {error}"
    return Finding("unreadable-tool", "error", words, tool.name, file=tool.source.file, line=tool.source.line)


class _Scanner:
    def __init__(self, progress: Progress | None) -> None:
        self.progress = progress
        self.findings: list[Finding] = []

    def scan(self, targets: Sequence[str | os.PathLike[str]]) -> Scan:
        plans = [(config, self._aims(config)) for config in self._configs(targets)]
        aims = [aim for _, several in plans for aim in several]
        files = list(dict.fromkeys(path for aim in aims for path in aim.files))
        self.reading = Reading(aims, files, self.progress)
        self.findings += self.reading.workshop.findings
        chosen: list[Tool] = []
        for config, several in plans:
            chosen += self._choose(config, several)
        registry, report = self._register(chosen)
        result = Scan([], [*self.findings, *report], files)
        order = {str(path): position for position, path in enumerate(files)}
        for entry in sorted(registry.entries(), key=lambda entry: _place(entry.tool, order)):
            tool = entry.tool
            result.findings += self.reading.remarks_on(tool)
            try:
                tool.examine()
            except DefinitionError as error:
                result.findings.append(error.finding)
                continue
            except Exception as error:  # what was written may be of any kind, and hides no other
                result.findings.append(_failure(tool, error))
                continue
            if tool.long_name is not None:
                result.findings += report_shortened(tool)
            result.findings += tool.findings
            is_listed = registry.try_get(tool.name) is tool
            (result.tools if is_listed else result.unlisted).append(tool)
        result.findings = list(dict.fromkeys(result.findings))
        result.read = self.reading.tracer.library.files_read
        return result

    # --- targets ---

    def _configs(self, targets: Sequence[str | os.PathLike[str]]) -> Iterator[Config]:
        """One configuration for each target; a target that is no file of settings gets one of its own."""
        if not targets:
            targets = [FILE_NAME] if Path(FILE_NAME).is_file() else [SAMPLES]
        for target in targets:
            text = os.fspath(target)
            if not text.endswith(".toml") or (os.path.exists(text) and take_toml(text)):
                yield Config(targets=(text,), switches=switches_from(os.environ))
            elif not Path(text).is_file():
                raise SourceError(f"There is no file {text}")
            else:
                config = load_config(Path(text), os.environ)
                yield config if config.targets else replace(config, targets=(SAMPLES,))

    def _aims(self, config: Config) -> list[Aim]:
        search = [str(config.file.resolve().parent)] if config.file is not None else []
        aims = []
        for target in config.targets:
            try:
                aims.append(take_aim(target, search))
            except SourceError as error:
                if config.file is None:
                    raise
                line = config.lines.get("server.targets")
                self.findings.append(replace(error.finding, file=str(config.file), line=line))
        self.findings += [finding for aim in aims for finding in aim.findings]
        return aims

    def _choose(self, config: Config, aims: Iterable[Aim]) -> list[Tool]:
        tools: list[Tool] = []
        for aim in aims:
            batch = self.reading.take(aim)
            self.findings += batch.findings
            tools += collect(batch.tools, namespace=config.namespace, switches=config.switches).tools
        self.findings += _idle_switches(config, tools)
        if not config.include and not config.exclude:
            return tools
        try:
            return select(tools, config.include, config.exclude)
        except ConfigurationError as error:
            listed = any(repr(item) in str(error) for item in config.include)
            key = "tools.include" if listed else "tools.exclude"
            file, line = str(config.file), config.lines.get(key)
            words = f"{key}: {error.message}"
            self.findings.append(Finding(error.code, "error", words, file=file, line=line))
            return []

    # --- names ---

    def _register(self, tools: list[Tool]) -> tuple[ToolRegistry, list[Finding]]:
        """The tools under the names they would have, each once; by the rules of the one server there is."""
        registry = self.reading.make_registry()
        certain: list[Tool] = []
        guessed: list[Tool] = []
        for tool in drop_repeated(tools):
            (guessed if self.reading.is_conditional(tool) else certain).append(tool)
        findings = registry.add_all(certain).findings
        for tool in guessed:
            # Of two that exclude each other, one is enough; that it depends is said already.
            if tool.name not in registry:
                findings += registry.add_all([tool]).findings
        return registry, findings


def take_toml(target: str) -> bool:
    """Whether a TOML file describes tools; else it is one of settings."""
    from toolcrib.sources.descriptors import is_descriptor  # most targets are code

    return is_descriptor(Path(target))


def _place(tool: Tool, order: Mapping[str, int]) -> tuple[int, int]:
    source = tool.source
    return order.get(source.file or "", len(order)), source.line or 0


def _idle_switches(config: Config, tools: Iterable[Tool]) -> Iterator[Finding]:
    known = {f"enable_{tool.options.group}_tools" for tool in tools if tool.options.group}
    for switch in config.switches:
        if switch not in known and (line := config.lines.get(f"tools.{switch}")):
            words = f"tools.{switch}: no tool is in that group"
            hint = "give tools a group: @tool(group=...)"
            yield Finding("idle-switch", "warning", words, file=str(config.file), line=line, hint=hint)
