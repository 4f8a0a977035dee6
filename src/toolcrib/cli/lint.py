"""`toolcrib lint`: are tools, resources and prompts fit for a model, and free of planted text?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from toolcrib import __version__
from toolcrib.catalog.lint import OTHERS, Choice, Inspection, inspect_tools
from toolcrib.catalog.lint.run import find_unknown_codes, to_sarif
from toolcrib.catalog.lint.table import describe_other, is_known, load_groups, load_rules
from toolcrib.cli.catalog import ToolSource, source_options
from toolcrib.cli.load import catalog_json, find_skill_problems
from toolcrib.cli.options import Command, CommandError, exclusive, json_option
from toolcrib.cli.output import Progress, Terminal
from toolcrib.cli.table import print_findings
from toolcrib.cli.text import LEVELS, NAME_STYLE, count, count_findings, style, style_state, suggest
from toolcrib.config import FILE_NAME, Config, load_config
from toolcrib.definition import SKILLS
from toolcrib.errors import ConfigurationError, Finding
from toolcrib.registry.selection import count_kinds, label_of

EXAMPLES = """
toolcrib lint                         the targets of toolcrib.toml
toolcrib lint tools.py servers/       files and folders, imported
toolcrib lint --static servers/       without importing them
toolcrib lint --command 'npx some-server'
toolcrib lint . --sarif > lint.sarif  for code hosts
toolcrib lint --explain near-duplicate
"""


@click.command(cls=Command, examples=EXAMPLES)
@source_options()
@json_option
@click.option("--sarif", "as_sarif", is_flag=True, help="Print SARIF 2.1.0 for code hosts and editors.")
@click.option("--ignore", multiple=True, metavar="CODE", help="Ignore CODE, or CODE:TOOL with a glob.")
@click.option("--error", "errors", multiple=True, metavar="CODE", help="Treat as error: CODE or CODE:TOOL.")
@click.option(
    "--level", type=click.Choice(LEVELS), default="advice", help="Lowest level to show.  [default: advice]"
)
@click.option(
    "--fail-on",
    type=click.Choice([*LEVELS, "never"]),
    default="warning",
    help="Lowest level that makes the exit code 1.  [default: warning]",
)
@click.option("--no-ignore", is_flag=True, help="Disregard ignores in source and configuration.")
@click.option("--list-rules", is_flag=True, help="List the rules and exit.")
@click.option("--explain", metavar="CODE", help="Explain a rule and exit.")
def lint(
    terminal: Terminal,
    source: ToolSource,
    as_json: bool,
    as_sarif: bool,
    ignore: Sequence[str],
    errors: Sequence[str],
    level: str,
    fail_on: str,
    no_ignore: bool,
    list_rules: bool,
    explain: str | None,
) -> int:
    """Check whether tools, resources and prompts are fit for a model.

    Checks names, texts, parameters, schemas and hints, finds tools that are hard to tell apart, estimates
    what the list costs, and looks for planted instructions, secrets and disguises in every text. Findings
    name `prompt:NAME` and `resource:URI`; the content of resources is not looked at.

    Ignore a rule with `# toolcrib: ignore[CODE]` on the line of the def or of the finding, or with
    `[lint] ignore = ["CODE", "CODE:TOOL"]` in toolcrib.toml.

    Exit code 0: nothing at or above --fail-on. 1: something. 2: wrong usage.

    A TARGET is a Python file, folder, module, module:object, toolcrib.toml or the URL of an MCP server.
    """
    if explain is not None:
        return _explain(explain, terminal)
    if list_rules:
        return _list_rules(as_json, terminal)
    if as_json and as_sarif:
        raise exclusive("--json", "--sarif")
    ignored = [_parse_choice(text, "--ignore") for text in ignore]
    raised = [_parse_choice(text, "--error") for text in errors]
    found = source.collect(terminal)
    findings = [*found.findings, *find_skill_problems(found.others)]
    if not no_ignore:
        for config in _read_configs(source.targets):
            for key, given, choices in (
                ("lint.ignore", config.lint.ignore, ignored),
                ("lint.error", config.lint.error, raised),
            ):
                parsed = [Choice.parse(text) for text in given]
                choices += parsed
                findings += find_unknown_codes(
                    [choice.code for choice in parsed], str(config.file), config.lines.get(key)
                )
    with Progress(terminal, "inspecting tools") as progress:
        inspection = inspect_tools(
            [tool for tool in found.components if tool.extension != SKILLS],
            found=findings,
            ignore=ignored,
            error=raised,
            use_comments=not no_ignore,
            progress=progress,
        )
    shown = [finding for finding in inspection.findings if _reaches(finding, level)]
    if as_sarif:
        terminal.json(to_sarif(shown, version=__version__, ignored=inspection.ignored))
    elif as_json:
        terminal.json(catalog_json(found.components, shown))
    else:
        print_findings(shown, terminal)
        tools = count_kinds(map(label_of, found.components)) if found.components else "no tools"
        terminal.echo(f"{tools}; {count_findings(inspection.findings)}{_count_hidden(inspection, shown)}.")
    return 1 if any(_reaches(finding, fail_on) for finding in inspection.findings) else 0


def _reaches(finding: Finding, level: str) -> bool:
    return level != "never" and LEVELS.index(finding.level) <= LEVELS.index(level)


def _parse_choice(text: str, option: str) -> Choice:
    choice = Choice.parse(text)
    if not is_known(choice.code):
        raise CommandError(
            f"{option}: unknown rule '{choice.code}'", suggest(choice.code, [*load_rules(), *OTHERS])
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


def _count_hidden(inspection: Inspection, shown: Sequence[Finding]) -> str:
    hidden = {"not shown": len(inspection.findings) - len(shown), "ignored": len(inspection.ignored)}
    notes = [f"{number} {label}" for label, number in hidden.items() if number]
    return f" ({', '.join(notes)})" if notes else ""


# --- rules -------------------------------------------------------------------------------------------


def _list_rules(as_json: bool, terminal: Terminal) -> int:
    if as_json:
        listed = [
            {
                "code": rule.code,
                "level": rule.level,
                "group": group,
                "summary": rule.summary,
                "why": rule.why,
                "mend": rule.fix,
                "kinds": list(rule.kinds),
            }
            for group, rules in load_groups().items()
            for rule in rules
        ]
        terminal.json({"rules": listed})
        return 0
    width = max(map(len, load_rules()))
    for group, rules_of_group in load_groups().items():
        terminal.echo(style(group, bold=True))
        for rule in rules_of_group:
            level = style_state(rule.level, 7)
            terminal.echo("  ", style(rule.code.ljust(width), **NAME_STYLE), "  ", level, f"  {rule.summary}")
        terminal.echo("")
    terminal.echo(f"{count(len(load_rules()), 'rule')}; `toolcrib lint --explain CODE` explains one.")
    return 0


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
        terminal.echo(f"{code}\n\n  {other}; found while loading tools, see `toolcrib check`.")
    else:
        raise CommandError(f"Unknown rule '{code}'", suggest(code, [*load_rules(), *OTHERS]))
    return 0
