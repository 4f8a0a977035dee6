"""`toolcrib check`: check tools, resources and prompts, and report problems."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click

from toolcrib import __version__
from toolcrib.catalog.catalog import Catalog, config_findings
from toolcrib.catalog.lint import OTHERS, Choice, inspect_tools
from toolcrib.catalog.lint.run import describe_other, find_unknown_codes, is_known, load_rules, to_sarif
from toolcrib.cli.catalog import ToolSource, source_options
from toolcrib.cli.load import Loaded, find_unused_policy, load, registries_of
from toolcrib.cli.options import Command, CommandError, exclusive, json_option, name_rule_option
from toolcrib.cli.output import Progress, Terminal, format_source
from toolcrib.cli.table import Column, print_findings, print_table
from toolcrib.cli.text import NAME_STYLE, STATE_STYLES, count_findings, safe, suggest
from toolcrib.config import FILE_NAME, Config, load_config
from toolcrib.errors import ConfigurationError, Finding
from toolcrib.registry.selection import count_kinds, label_of
from toolcrib.state.base import run_now

EXAMPLES = """
toolcrib check                     the targets of toolcrib.toml
toolcrib check tools.py more/      a file and a folder
toolcrib check --static servers/   without importing them
toolcrib check --command 'npx some-server'
toolcrib check --strict --json .   in a pipeline: warnings fail it too
toolcrib check . --sarif           for code hosts
toolcrib check --explain near-duplicate
toolcrib check server.py -- -v     a server of mcp or fastmcp, run with -v
"""


_COLUMNS = (
    Column(wraps=False, styles=STATE_STYLES),
    Column(wraps=False, style=NAME_STYLE),
    Column(wraps=False, style={"dim": True}),
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
@source_options()
@json_option
@name_rule_option
@click.option("--advice", is_flag=True, help="Show suggestions too, not only their number.")
@click.option("--strict", is_flag=True, help="Exit with 1 on warnings too.")
@click.option("--sarif", "as_sarif", is_flag=True, help="Print SARIF 2.1.0 for code hosts and editors.")
@click.option("--ignore", multiple=True, metavar="CODE", help="Ignore CODE, or CODE:TOOL with a glob.")
@click.option("--no-ignore", is_flag=True, help="Disregard ignores in source and configuration.")
@click.option("--explain", metavar="CODE", help="Explain a finding and exit.")
def check(
    terminal: Terminal,
    source: ToolSource,
    as_json: bool,
    name_rule: str | None,
    advice: bool,
    strict: bool,
    as_sarif: bool,
    ignore: Sequence[str],
    no_ignore: bool,
    explain: str | None,
) -> int:
    """Check tools, resources and prompts, and report problems.

    Builds every one of them, so that problems show up now and not at the first call; checks names, texts,
    parameters and hints, finds tools that are hard to tell apart, and looks for injected instructions,
    secrets and hidden text. Each problem is reported with file, line and a fix.

    Ignore a finding with `# toolcrib: ignore[CODE]` on its line or at the def, or with
    `[lint] ignore = ["CODE", "CODE:TOOL"]` in toolcrib.toml.

    Exit code 0: no errors. 1: errors. 2: wrong usage.

    A TARGET is a Python file, folder, module, module:object, toolcrib.toml, the URL of an MCP server or an
    installed command. A program that starts a server of mcp or fastmcp is run, with the arguments after --.
    """
    if explain is not None:
        return _explain(explain, terminal)
    if as_json and as_sarif:
        raise exclusive("--json", "--sarif")
    ignored = [_parse_choice(text) for text in ignore]
    others: list[Finding] = []
    raised: list[Choice] = []
    if source.static or source.remote is not None:
        found = source.open(terminal)
    else:
        found, others = _import(source.targets, name_rule, terminal)
    errors = sorted(found.errors, key=lambda error: (error.file or "", error.line or 0))
    refused = dict.fromkeys((error.tool, error.where) for error in errors if error.tool)
    rows = [*_list_components(found)]
    rows += [Row("refused", safe(name), format_source(where)) for name, where in refused]
    found.findings += others
    for config in () if no_ignore else _read_configs(source.targets):
        for key, given, choices in (
            ("lint.ignore", config.lint.ignore, ignored),
            ("lint.error", config.lint.error, raised),
        ):
            parsed = [Choice.parse(text) for text in given]
            choices += parsed
            codes = [choice.code for choice in parsed]
            found.findings += find_unknown_codes(codes, str(config.file), config.lines.get(key))
    with Progress(terminal, "inspecting tools") as progress:
        inspection = inspect_tools(
            found.components,
            found=found.findings,
            ignore=ignored,
            error=raised,
            use_comments=not no_ignore,
            progress=progress,
        )
    findings = found.findings = inspection.findings
    if as_sarif:
        terminal.json(to_sarif(findings, version=__version__, ignored=inspection.ignored))
    elif as_json:
        terminal.json(found.to_json())
    else:
        if rows:
            print_table(_COLUMNS, [row[:4] for row in rows], terminal)
            terminal.echo("")
        print_findings([item for item in findings if advice or item.level != "advice"], terminal)
        hidden = [] if advice or not any(item.level == "advice" for item in findings) else ["see --advice"]
        hidden += [f"{len(inspection.ignored)} ignored"] if inspection.ignored else []
        notes = f" ({', '.join(hidden)})" if hidden else ""
        states = [row.state for row in rows]
        counts = [f"{count_kinds(row.label for row in rows if row.state == 'ok')} ok" if rows else "no tools"]
        counts += [f"{states.count(state)} {state}" for state in ("refused", "off") if state in states]
        terminal.echo(f"{', '.join(counts)}; {count_findings(findings)}{notes}.")
    levels = ("error", "warning") if strict else ("error",)
    return 1 if any(finding.level in levels for finding in findings) else 0


def _import(
    targets: Sequence[str], name_rule: str | None, terminal: Terminal
) -> tuple[Catalog, list[Finding]]:
    """Return the catalog of targets that are imported, and findings about their policy and pages."""
    loaded = load(targets, terminal, name_rule=name_rule)
    with terminal.log.muted():
        found = loaded.catalog(terminal)
        for registry in registries_of(loaded.server).values():
            found.findings += registry.check()
        pages = loaded.server.dispatcher.find_app_problems()
        return found, [*find_unused_policy(loaded.server), *_check_key_file(loaded), *pages]


def _parse_choice(text: str) -> Choice:
    choice = Choice.parse(text)
    if not is_known(choice.code):
        raise CommandError(
            f"--ignore: unknown rule '{choice.code}'", suggest(choice.code, [*load_rules(), *OTHERS])
        )
    return choice


def _read_configs(targets: Sequence[str]) -> Iterator[Config]:
    """Yield the configuration files among the targets, or else the one of the current folder."""
    named = [target for target in targets if target.endswith(".toml") and os.path.isfile(target)]
    for file in named or ([FILE_NAME] if os.path.isfile(FILE_NAME) else []):
        try:
            yield load_config(Path(file), os.environ)
        except ConfigurationError:
            if not named and targets:
                raise  # otherwise it is among the findings already


def _explain(code: str, terminal: Terminal) -> int:
    code = code.strip().lower()
    rule = load_rules().get(code)
    other = describe_other(code)
    if rule is not None:
        terminal.echo(
            f"{rule.code} ({rule.level})\n\n  {rule.summary}.\n  {rule.why}\n\n  Fix: {rule.fix}.\n"
            f"  Ignore: `# toolcrib: ignore[{rule.code}]` on the line of the def or of the finding, or\n"
            f'  `[lint] ignore = ["{rule.code}"]` in toolcrib.toml, or --ignore {rule.code}.'
        )
    elif other is not None:
        terminal.echo(f"{code}\n\n  {other}.")
    else:
        raise CommandError(f"Unknown rule '{code}'", suggest(code, [*load_rules(), *OTHERS]))
    return 0


def _check_key_file(loaded: Loaded) -> Iterator[Finding]:
    """Warn of a key file that `serve` could not read; it need not be on the machine that runs the check."""
    policy = None if loaded.server.enforcer is None else loaded.server.enforcer.policy
    if policy is None or policy.auth is None or policy.auth.keys is None or policy.auth.keys_in_state:
        return
    from toolcrib.policy.auth.api_keys import KeyFile  # delayed: most policies have no key file

    try:
        run_now(KeyFile(policy.auth.keys).read())
    except ConfigurationError as error:
        for found in config_findings(policy.error_from("auth.keys", error)):
            yield replace(found, level="warning", message=f"{found.message}: serve will not start")


def _list_components(found: Catalog) -> Iterator[Row]:
    """Yield state, name and place of every tool, resource and prompt, and how a tool is run if its server is
    another library's."""
    for tool in found.everything:
        name = f"{tool.reference}@{tool.version}" if tool.version else tool.reference
        if not tool.options.enabled and tool.options.group:
            name = f"{name} (enable_{tool.options.group}_tools)"
        how = "" if tool.adoption is None else f"{_WAYS[tool.adoption.way]}: {tool.adoption.reason}"
        state = "ok" if tool.options.enabled else "off"
        yield Row(state, safe(name), format_source(tool.source), how, label_of(tool))
