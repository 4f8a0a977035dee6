"""`toolcrib check`: check tools and report problems."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import CodeType
from typing import NamedTuple

import click

from toolcrib.catalog.lint import advise
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
from toolcrib.cli.text import NAME_STYLE, STATE_STYLES, count_findings, safe
from toolcrib.context import find_attribute
from toolcrib.definition import SKILLS
from toolcrib.errors import ConfigurationError, Finding
from toolcrib.registry.selection import count_kinds, label_of
from toolcrib.tool import Tool

EXAMPLES = """
toolcrib check                    the targets of toolcrib.toml
toolcrib check tools.py more/     a file and a folder
toolcrib check --strict --json .  in a pipeline: warnings fail it too
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
def check(
    terminal: Terminal, targets: Sequence[str], as_json: bool, name_rule: str | None, strict: bool
) -> int:
    """Check tools, resources and prompts, and report problems.

    Builds every one of them, so that problems show up now and not at the first call. Each problem is reported
    with file, line and a fix. Exit code 0: no errors. 1: errors. 2: wrong usage.

    A TARGET is a Python file, folder, module, module:object, toolcrib.toml or an installed command. A program
    that starts a server of mcp or fastmcp is run, with the arguments after --.
    """
    loaded = load(targets, terminal, name_rule=name_rule)
    with terminal.log.muted(), Progress(terminal, "building tools") as progress:
        every = build_tools(progress.track([entry.tool for entry in loaded.everything]), [])
        findings = list(loaded.findings)
        for registry in registries_of(loaded.server).values():
            findings += registry.check()
        findings = list(dict.fromkeys([*findings, *find_unused_policy(loaded.server)]))
    errors = [finding for finding in findings if finding.level == "error"]
    findings += [*_check_key_file(loaded), *loaded.server.dispatcher.find_app_problems()]
    for tool in every:
        findings += [*_find_context_misuse(tool), *_find_forgotten_awaits(tool)]
    findings += _find_overlaps(every)
    with Progress(terminal, "inspecting tools") as progress:
        for tool in progress.track(every):
            findings += () if tool.extension == SKILLS else advise(tool.definition, tool)
    findings += find_skill_problems(every)
    findings.sort(key=_place)
    if as_json:
        listed = [*loaded.build_tools(terminal), *loaded.build_features(terminal)]
        terminal.json(catalog_json(listed, findings))
    else:
        rows = list(_list_tools(loaded, every, errors))
        if rows:
            print_table(_COLUMNS, [row[:4] for row in rows], terminal)
            terminal.echo("")
        print_findings(findings, terminal)
        terminal.echo(_summarize(rows, findings))
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


_ASKING = ("ask", "ask_all", "ask_to_visit", "folders", "sample")
_USES = (ast.Assert, ast.Attribute, ast.BinOp, ast.Compare, ast.Expr, ast.For, ast.FormattedValue, ast.If)
_USES_OF_ANSWERS = (*_USES, ast.Subscript, ast.UnaryOp, ast.While)
"""Where an answer can stand, and a question that still has to be awaited cannot."""


def _find_forgotten_awaits(tool: Tool) -> Iterator[Finding]:
    """Report questions of an async function that are used like their answers: `ctx.ask` without `await`."""
    name = tool.arguments.context
    if name is None or not tool.is_async:
        return
    try:
        lines, first = inspect.getsourcelines(tool.info.function)
        pending: list[ast.AST] = [ast.parse(textwrap.dedent("".join(lines))).body[0]]
    except (OSError, TypeError, SyntaxError):
        return
    parents: dict[ast.AST, ast.AST] = {}
    while pending:
        for child in ast.iter_child_nodes(node := pending.pop()):
            if not isinstance(child, ast.FunctionDef | ast.Lambda):  # these may run on a thread
                parents[child] = node
                pending.append(child)
    for node in parents:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=found), attr=attr)) if found == name:
                if attr in _ASKING and _is_forgotten(node, parents):
                    message = f"The code uses the answer of {name}.{attr} without awaiting it"
                    place = (tool.source.file, first + node.lineno - 1, f"write `await {name}.{attr}(...)`")
                    yield Finding("not-awaited", "error", message, tool.name, name, *place)


def _is_forgotten(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether a question, or every use of the variable that holds it, stands for its answer."""
    is_question, parent = isinstance(node, ast.Call), parents[node]
    while isinstance(parent, ast.BoolOp | ast.IfExp):
        is_last = node is not parent.test if isinstance(parent, ast.IfExp) else node is parent.values[-1]
        if not is_last:
            return True  # whether it is true is asked of the answer
        node, parent = parent, parents[parent]
    match parent:
        case ast.Assign(targets=[ast.Name(id=variable)]) | ast.AnnAssign(target=ast.Name(id=variable)):
            names = [item for item in parents if isinstance(item, ast.Name) and item.id == variable]
            uses = [item for item in names if isinstance(item.ctx, ast.Load)]
            return is_question and all(_is_forgotten(item, parents) for item in uses)
    return isinstance(parent, _USES_OF_ANSWERS)


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


def _summarize(rows: list[Row], findings: list[Finding]) -> str:
    states = [row.state for row in rows]
    valid = count_kinds(row.label for row in rows if row.state == "ok")
    tools = [f"{valid} ok" if states else "no tools"]
    tools += [f"{states.count(state)} {state}" for state in ("refused", "off") if state in states]
    return f"{', '.join(tools)}; {count_findings(findings)}."
