"""`toolcrib check`: check tools and report problems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import CodeType
from typing import TYPE_CHECKING, NamedTuple

import click

from toolcrib.catalog.lint import advise
from toolcrib.cli.catalog import scan_targets
from toolcrib.cli.load import (
    Loaded,
    build_tools,
    catalog_json,
    config_findings,
    find_skill_problems,
    find_unused_policy,
    load,
    registries_of,
)
from toolcrib.cli.options import Command, json_option, name_rule_option, targets_argument
from toolcrib.cli.output import Progress, Terminal, format_source
from toolcrib.cli.table import Column, print_findings, print_table
from toolcrib.cli.text import NAME_STYLE, STATE_STYLES, count, count_findings, safe
from toolcrib.context import find_attribute
from toolcrib.definition import SKILLS
from toolcrib.errors import ConfigurationError, Finding
from toolcrib.registry.selection import count_kinds, label_of
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib.sources.scan import Scan

EXAMPLES = """
toolcrib check                    toolcrib.toml, or the sample tools
toolcrib check tools.py more/     a file and a folder
toolcrib check --strict --json .  in a pipeline: warnings fail it too
toolcrib check --against-scan .   compare with a scan of the source
toolcrib check server.py -- -v    a server of mcp or fastmcp, run with -v
"""


_COLUMNS = (
    Column(wraps=False, styles=STATE_STYLES),
    Column(wraps=False, style=NAME_STYLE),
    Column(is_path=True, style={"dim": True}),
    Column(style={"dim": True}),
)
_WAYS = {"native": "native", "handlers": "through handlers"}


class Row(NamedTuple):
    """One line of the report. `label` is the kind of the thing, `how` is for tools of other libraries."""

    state: str
    name: str
    place: str
    how: str = ""
    label: str = "tool"


@click.command(cls=Command, examples=EXAMPLES)
@targets_argument
@json_option
@name_rule_option
@click.option("--strict", is_flag=True, help="Exit with 1 on warnings too.")
@click.option(
    "--against-scan", is_flag=True, help="Compare with `toolcrib scan`; unexpected differences are errors."
)
def check(
    terminal: Terminal,
    targets: Sequence[str],
    as_json: bool,
    name_rule: str | None,
    strict: bool,
    against_scan: bool,
) -> int:
    """Check tools, resources and prompts, and report problems.

    Builds every one of them, so that problems show up now and not at the first call. Each problem is reported
    with file, line and a fix. Exit code 0: no errors. 1: errors. 2: wrong usage.

    With --against-scan, differences between importing and scanning the source are reported instead of
    suggestions.

    A TARGET is a Python file, folder, module, module:object, toolcrib.toml or an installed command. A program
    that starts a server of mcp or fastmcp is run, with the arguments after --.
    """
    scanned = scan_targets(targets, terminal) if against_scan else None  # before anything is imported
    loaded = load(targets, terminal, name_rule=name_rule)
    with terminal.log.muted(), Progress(terminal, "building tools") as progress:
        every = build_tools(progress.track([entry.tool for entry in loaded.everything]), [])
        built = [tool for tool in every if tool.kind == "tool"]
        findings = list(loaded.findings)
        for registry in registries_of(loaded.server).values():
            findings += registry.check()
        findings = list(dict.fromkeys([*findings, *find_unused_policy(loaded.server)]))
    errors = [finding for finding in findings if finding.level == "error"]
    findings += [*_check_key_file(loaded), *loaded.server.dispatcher.find_app_problems()]
    findings += [finding for tool in every for finding in _find_context_misuse(tool)]
    findings += _find_overlaps(every)
    if scanned is None:
        with Progress(terminal, "inspecting tools") as progress:
            for tool in progress.track(every):
                findings += () if tool.extension == SKILLS else advise(tool.definition, tool)
        findings += find_skill_problems(every)
    else:
        findings += _compare_scan(scanned, built, findings)
    findings.sort(key=_place)
    if as_json:
        listed = [*loaded.build_tools(terminal), *loaded.build_features(terminal)]
        terminal.json(catalog_json(listed, findings))
    else:
        rows = list(_list_tools(loaded, every, errors))
        summary = _summarize(loaded, rows, findings)
        if scanned is not None:
            summary = f"{summary} {_summarize_scan(scanned, findings)}"
        if rows:
            print_table(_COLUMNS, [row[:4] for row in rows], terminal)
            terminal.echo("")
        print_findings(findings, terminal)
        terminal.echo(summary)
    levels = ("error", "warning") if strict else ("error",)
    return 1 if any(finding.level in levels for finding in findings) else 0


def _check_key_file(loaded: Loaded) -> Iterator[Finding]:
    """Warn of a key file that `serve` could not read; it need not be on the machine that runs the check."""
    policy = None if loaded.server.enforcer is None else loaded.server.enforcer.policy
    if policy is None or policy.auth is None or policy.auth.keys is None:
        return
    from toolcrib.policy.auth.api_keys import KeyFile  # delayed: most policies have no key file

    try:
        KeyFile(policy.auth.keys).entries()
    except ConfigurationError as error:
        for found in config_findings(policy.error_from("auth.keys", error)):
            yield replace(found, level="warning", message=f"{found.message}: serve will not start")


def _find_context_misuse(tool: Tool) -> Iterator[Finding]:
    """Report what the code of a function uses of its Context that a Context does not have: `ctx.elicit`."""
    import dis  # delayed: no other command needs it

    name, code = tool.arguments.context, getattr(tool.info.function, "__code__", None)
    waiting = [] if code is None or name not in code.co_varnames else [code]
    while waiting:
        code = waiting.pop()
        inner = [item for item in code.co_consts if isinstance(item, CodeType)]
        waiting += [item for item in inner if name in item.co_freevars]
        line, loaded = code.co_firstlineno, None
        for step in dis.get_instructions(code):
            line = getattr(step.positions, "lineno", None) or line
            if loaded == name and step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                hint = find_attribute(str(step.argval))
                if hint is not None:
                    message = f"The code uses {name}.{step.argval}, which a Context does not have"
                    place = (code.co_filename, line, hint)
                    yield Finding("unknown-context", "warning", message, tool.name, name, *place)
            loaded = step.argval if step.opname.startswith(("LOAD_FAST", "LOAD_DEREF")) else None


def _compare_scan(scanned: Scan, built: Sequence[Tool], findings: Sequence[Finding]) -> Iterator[Finding]:
    """Report differences between importing and scanning, and what the scan had reported about them."""
    from toolcrib.catalog.agreement import compare_scan  # delayed: most checks read no source

    differences = compare_scan(
        [tool for tool in (*scanned.tools, *scanned.unlisted) if tool.kind == "tool"],
        list(built),
        [*scanned.findings, *findings],
    )
    announced = {item.tool.casefold() for item in differences if item.is_announced}
    yield from (item.finding for item in differences)
    for finding in scanned.findings:
        if finding.tool is not None and finding.tool.casefold() in announced and finding not in findings:
            yield finding


def _summarize_scan(scanned: Scan, findings: Sequence[Finding]) -> str:
    from toolcrib.catalog.agreement import CODES

    levels = [finding.level for finding in findings if finding.code in CODES]
    result = "the same"
    if "error" in levels:
        result = count(levels.count("error"), "unexpected difference")
    elif levels:
        result = f"the same, except for {count(len(levels), 'expected difference')}"
    return f"The scan finds {count(len(scanned.tools), 'tool')}: {result}."


def _find_overlaps(tools: Sequence[Tool]) -> Iterator[Finding]:
    """Report templates that are never read, because one before them matches the same URIs."""
    if any(tool.kind == "resource" for tool in tools):
        from toolcrib.registry.resources import find_overlaps  # delayed: most targets have no resources

        yield from find_overlaps(tools)


def _place(finding: Finding) -> tuple[str, int]:
    return finding.file or "", finding.line or 0


def _list_tools(loaded: Loaded, built: Sequence[Tool], errors: Sequence[Finding]) -> Iterator[Row]:
    """Yield state, name and place of every tool, resource and prompt, and how a tool is run if its server is
    another library's; those that were refused last."""
    valid = set(map(id, built))
    for entry in loaded.everything:
        tool = entry.tool
        if id(tool) in valid:
            name = f"{tool.reference}@{tool.version}" if tool.version else tool.reference
            if not entry.enabled and tool.options.group:
                name = f"{name} (enable_{tool.options.group}_tools)"
            how = "" if tool.adoption is None else f"{_WAYS[tool.adoption.way]}: {tool.adoption.reason}"
            state = "ok" if entry.enabled else "off"
            yield Row(state, safe(name), format_source(tool.source), how, label_of(tool))
    named = [(error.tool, error.where) for error in sorted(errors, key=_place) if error.tool]
    for refused, where in dict.fromkeys(named):
        yield Row("refused", safe(refused), format_source(where))


def _summarize(loaded: Loaded, rows: list[Row], findings: list[Finding]) -> str:
    states = [row.state for row in rows]
    valid = count_kinds(row.label for row in rows if row.state == "ok")
    tools = [f"{valid} ok" if states else "no tools"]
    tools += [f"{states.count(state)} {state}" for state in ("refused", "off") if state in states]
    samples = "Sample tools: " if loaded.is_sample else ""
    return f"{samples}{', '.join(tools)}; {count_findings(findings)}."
