"""`toolcrib list`, `show` and `scan`: which tools there are, and what they look like."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click

from toolcrib.catalog.catalog import Catalog, component_json
from toolcrib.cli.catalog import (
    Remote,
    ToolSource,
    check_remote_tools,
    complete_names,
    find_remote,
    list_remote_features,
    list_remote_tools,
    open_local,
    source_options,
)
from toolcrib.cli.load import load_named
from toolcrib.cli.options import Command, CommandError, json_option, targets_argument
from toolcrib.cli.output import Terminal
from toolcrib.cli.table import print_feature, print_features, print_findings, print_tool, print_tools
from toolcrib.cli.text import (
    LEVELS,
    count,
    count_findings,
    shorten_list,
    suggest,
)
from toolcrib.client import Client, RemoteTool
from toolcrib.client.client import DEFAULT_TIMEOUT_S
from toolcrib.component import Component
from toolcrib.definition import ToolDefinition
from toolcrib.errors import ConfigurationError, Finding
from toolcrib.registry.selection import count_kinds, label_of, select, tags_of
from toolcrib.sources.described import describe

LIST = """
toolcrib list                  the targets of toolcrib.toml
toolcrib list tools.py --json  for programs
toolcrib list --static servers/  without importing them
toolcrib list shop.api --tag public --exclude 'admin_*'
toolcrib list http://127.0.0.1:8000/mcp
toolcrib list --command 'python server.py'
"""
SHOW = """
toolcrib show math_add               one of the sample tools
toolcrib show -t tools.py find_order
toolcrib show tools.py:find_order --json
toolcrib show -t shop.py orders://17/invoice
toolcrib show -t shop.py prompt:complain
toolcrib show -t http://127.0.0.1:8000/mcp find_order
toolcrib show --command 'python server.py' find_order
"""
SCAN = """
toolcrib scan server.py           the tools of a file
toolcrib scan servers/ --json     the servers of others, for programs
toolcrib scan shop.api            a module, found on the import path
toolcrib scan                     the targets of toolcrib.toml
"""


# --- list --------------------------------------------------------------------------------------------


@click.command("list", cls=Command, examples=LIST)
@source_options()
@json_option
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only tools with one of these tags.")
@click.option(
    "--include", multiple=True, metavar="SEL", help="Only these: a name, glob, tag:NAME or re:PATTERN."
)
@click.option("--exclude", multiple=True, metavar="SEL", help="Not these; overrides --include.")
def list_tools(
    terminal: Terminal,
    source: ToolSource,
    as_json: bool,
    tags: Sequence[str],
    include: Sequence[str],
    exclude: Sequence[str],
) -> int:
    """List tools, resources and prompts.

    With --static, source files are read and not imported, as `toolcrib scan` does.

    A TARGET is a Python file, folder, module, module:object, toolcrib.toml or the URL of an MCP server.
    """
    if source.remote is not None:
        return _list_remotely(source.remote, terminal, as_json, tags, include, exclude)
    found = source.open(terminal)
    is_selected = bool(tags or include or exclude)
    found.components = _select(found.components, tags, include, exclude)
    if source.static:
        return _print_scan(found, terminal, as_json)
    if as_json:
        terminal.json(found.to_json())
        return 1 if found.errors else 0
    notes = []
    disabled = [tool for tool in found.hidden if not tool.options.enabled]
    if disabled and not is_selected:
        names = shorten_list([tool.name for tool in disabled])
        notes.append(f"{count_kinds(map(label_of, disabled))} disabled: {names}")
    if not found.components and not found.errors:
        notes.append("no tools, resources or prompts found")
    return _print_list([tool.definition for tool in found.tools], found.others, found.errors, notes, terminal)


def _list_remotely(
    remote: Remote,
    terminal: Terminal,
    as_json: bool,
    tags: Sequence[str],
    include: Sequence[str],
    exclude: Sequence[str],
) -> int:
    """List what a server sends, also tools that toolcrib would refuse."""
    server, listed, others = remote.run(_list_remote, terminal)
    by_tool = {describe(tool.definition): tool for tool in listed}
    selected = _select([*by_tool, *others], tags, include, exclude)
    chosen = [by_tool[tool] for tool in selected if tool in by_tool]
    features = [tool for tool in selected if tool not in by_tool]
    findings = list(check_remote_tools(listed))
    if as_json:
        document = Catalog(features, findings).to_json()
        terminal.json({**document, "tools": [_remote_json(tool) for tool in chosen]})
        return 0
    notes = [server if selected else f"{server}: no tools"]
    return _print_list([tool.definition for tool in chosen], features, findings, notes, terminal)


def _print_list(
    definitions: Sequence[ToolDefinition],
    others: Sequence[Component],
    findings: Sequence[Finding],
    notes: Sequence[str],
    terminal: Terminal,
) -> int:
    if definitions:
        print_tools(definitions, terminal)
    print_features(others, terminal, is_first=not definitions)
    for finding in findings:
        terminal.finding(finding)
    for note in notes:
        terminal.message("note", note)
    return 1 if any(finding.level == "error" for finding in findings) else 0


def _print_scan(found: Catalog, terminal: Terminal, as_json: bool) -> int:
    if as_json:
        terminal.json(found.to_json())
        return 1 if found.errors else 0
    if found.tools:
        print_tools([tool.definition for tool in found.tools], terminal, with_source=True)
        terminal.echo("")
    if found.others:
        print_features(found.others, terminal, is_first=True)
        terminal.echo("")
    print_findings(sorted(found.findings, key=lambda item: (LEVELS.index(item.level), item.code)), terminal)
    more = f" and {len(found.hidden)} disabled or older" if found.hidden else ""
    kinds = count_kinds(map(label_of, found.components))
    tools = f"{kinds}{more} in {count(len(found.files), 'file')}"
    terminal.echo(f"{tools}; {count_findings(found.findings)}. Nothing was imported.")
    return 1 if found.errors else 0


async def _list_remote(client: Client) -> tuple[str, list[RemoteTool], list[Component]]:
    return *await list_remote_tools(client), await list_remote_features(client)


def _select(
    given: Iterable[Component], tags: Sequence[str], include: Sequence[str], exclude: Sequence[str]
) -> list[Component]:
    tools = list(given)
    try:
        selected = select(tools, include, exclude)
        return select(selected, [f"tag:{tag}" for tag in tags]) if tags else selected
    except ConfigurationError as error:
        known = sorted({tag for tool in tools for tag in tags_of(tool)})
        hint = suggest("", known if tags and "'tag:" in str(error) else [tool.name for tool in tools])
        raise CommandError(error.message, hint) from None


def _remote_json(tool: RemoteTool) -> dict[str, Any]:
    """Return a tool as its server lists it, with its origin."""
    return {**tool.wire, "source": {"file": tool.definition.source.file, "line": None}}


# --- show --------------------------------------------------------------------------------------------


@click.command(cls=Command, examples=SHOW)
@click.argument("name", shell_complete=complete_names)
@source_options(target=True, static=False)
@json_option
def show(terminal: Terminal, name: str, source: ToolSource, as_json: bool) -> int:
    """Show the details of one tool, resource or prompt.

    NAME is the name of a tool or prompt, name@version, the URI of a resource or a template, or where a tool
    is: file.py:name, module:name. tool:NAME, resource:URI and prompt:NAME choose the kind.
    """
    remote = source.remote
    details = {"Runs": "at the server"}
    given: dict[str, Any] = {}
    feature: Component | None = None
    if remote is not None:
        found = remote.run(lambda client: find_remote(client, name), terminal)
        feature = found if isinstance(found, Component) else None
        data = component_json(found) if isinstance(found, Component) else _remote_json(found)
        definition, run = found.definition, details["Runs"]
        timeout_s: float | None = DEFAULT_TIMEOUT_S
    else:
        loaded, tool, *_ = load_named(name, source.targets, terminal)
        definition, data, run = tool.definition, component_json(tool), tool.options.run
        timeout_s = tool.options.timeout_s or loaded.server.dispatcher.timeout_s
        details = {
            "Group": tool.options.group or "",
            "Aliases": ", ".join(tool.options.aliases),
            "Full name": tool.long_name or "",
            "Runs": {"auto": "event loop" if tool.is_async else "thread"}.get(run, run),
        }
        budget = tool.options.max_result_tokens
        if budget is None and tool.kind == "tool":
            budget = loaded.server.dispatcher.max_result_tokens
        given = {} if tool.options.task == "never" else {"task": tool.options.task}
        given |= {"max_result_tokens": budget} if budget else {}
        page = data.get("_meta", {}).get("ui", {})
        details |= {
            "Page": page.get("resourceUri", "") if isinstance(page, dict) else "",
            "Task": given.get("task", ""),
            "Result budget": f"{budget} tokens" if budget else "",
        }
        feature = None if tool.kind == "tool" else tool
    if as_json:
        data |= {"tags": list(definition.tags), "version": definition.version, "run": run}
        fingerprint = {} if feature is not None else {"fingerprint": definition.fingerprint}
        terminal.json({**data, **given, "timeout_s": timeout_s, **fingerprint})
        return 0
    details["Timeout"] = "none" if timeout_s is None else f"{timeout_s:g} s"
    if feature is not None:
        print_feature(feature, details, terminal)
    else:
        print_tool(definition, details, terminal)
    return 0


# --- scan --------------------------------------------------------------------------------------------


@click.command(cls=Command, examples=SCAN)
@targets_argument
@json_option
def scan(terminal: Terminal, targets: Sequence[str], as_json: bool) -> int:
    """Find tools, resources and prompts in source files without importing them: `list --static`.

    Finds what an import would register: decorated functions, applications, tool objects and tables, for
    toolcrib, mcp and fastmcp. Code that has to run to define a tool is reported with file and line. Exit
    code 0: no errors. 1: errors. 2: wrong usage.

    A TARGET is a Python file, folder, module, module:object, file.py:object or toolcrib.toml.
    """
    return _print_scan(open_local(targets, terminal, "static"), terminal, as_json)
