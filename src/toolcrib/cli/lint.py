"""`toolcrib lint`: are the tools fit to be shown to a model, and did anybody plant something in them?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack

import click

from toolcrib import __version__
from toolcrib.catalog.lint import OTHERS, Choice, Inspection, Rule, inspect_tools
from toolcrib.catalog.lint.ignore import find_unknown_codes
from toolcrib.catalog.lint.table import describe_other, is_known, load_groups, load_rules
from toolcrib.cli.catalog import Stock, Whence, gather, takes_stock
from toolcrib.cli.options import Command, Failure, takes_json
from toolcrib.cli.output import Terminal, shorten_paths, show_place
from toolcrib.cli.text import Styled, count, join, one_line, suggest, tool_json
from toolcrib.config import FILE_NAME, Config, load_config
from toolcrib.errors import ConfigurationError, Finding

EXAMPLES = """
toolcrib lint                         the toolcrib.toml here, or the samples
toolcrib lint tools.py servers/       files and folders, which are imported
toolcrib lint --static servers/       read, not run: for code of others
toolcrib lint --command 'npx some-server'
toolcrib lint . --sarif > lint.sarif  for a code host
toolcrib lint --explain near-duplicate
"""
LEVELS = ("error", "warning", "advice")
_COLOURS = {"error": "red", "warning": "yellow", "advice": "cyan"}


@click.command(cls=Command, examples=EXAMPLES)
@takes_stock
@takes_json
@click.option("--sarif", "as_sarif", is_flag=True, help="Print SARIF 2.1.0, for code hosts and editors.")
@click.option(
    "--ignore", multiple=True, metavar="CODE", help="Leave these out: a code, or CODE:TOOL with a glob."
)
@click.option(
    "--error", "errors", multiple=True, metavar="CODE", help="Let these be errors; CODE or CODE:TOOL."
)
@click.option(
    "--level", type=click.Choice(LEVELS), default="advice", help="Show nothing milder.  [default: advice]"
)
@click.option(
    "--fail-on",
    type=click.Choice([*LEVELS, "never"]),
    default="warning",
    help="What makes the exit code 1, at the least.  [default: warning]",
)
@click.option(
    "--no-ignore", is_flag=True, help="Honour no opt-outs, in source or settings: for code of others."
)
@click.option("--list-rules", is_flag=True, help="List the rules, and look at nothing.")
@click.option("--explain", metavar="CODE", help="Say what a rule is about, why, and how to mend it.")
def lint(
    terminal: Terminal,
    as_json: bool,
    as_sarif: bool,
    ignore: Sequence[str],
    errors: Sequence[str],
    level: str,
    fail_on: str,
    no_ignore: bool,
    list_rules: bool,
    explain: str | None,
    **whence: Unpack[Whence],
) -> int:
    """Say whether tools are fit to be shown to a model.

    Looks at names, words, parameters, schemas and hints, at tools that cannot be told apart, at what the list
    costs, and for planted instructions, secrets and disguises in every text of a definition.

    \b
    Opt out with `# toolcrib: ignore[CODE]` on the line of the def or of the
    finding, or with `[lint] ignore = ["CODE", "CODE:TOOL"]` in toolcrib.toml.

    Exit code 0: nothing at or above --fail-on. 1: something. 2: the command was given wrongly.

    A TARGET is a Python file, a folder, a module, module:object, a toolcrib.toml or the address of a running
    MCP server.
    """
    if explain is not None:
        return _explain(explain, terminal)
    if list_rules:
        return _list_rules(as_json, terminal)
    if as_json and as_sarif:
        raise Failure("--json and --sarif are two forms of one answer", "drop one")
    wanted = [_read_choice(text, "--ignore") for text in ignore]
    raised = [_read_choice(text, "--error") for text in errors]
    stock = gather(terminal, **whence)
    found = list(stock.findings)
    if not no_ignore:
        for config in _read_configs(whence["targets"]):
            chosen, harder, remarks = _read_settings(config)
            wanted, raised, found = [*wanted, *chosen], [*raised, *harder], [*found, *remarks]
    inspection = inspect_tools(
        stock.tools, found=found, ignore=wanted, error=raised, use_comments=not no_ignore
    )
    shown = [finding for finding in inspection.findings if _reaches(finding, level)]
    if as_sarif:
        from toolcrib.catalog.lint.sarif import to_sarif  # for those who ask for it

        terminal.json(to_sarif(shown, version=__version__, ignored=inspection.ignored))
    elif as_json:
        tools = [tool_json(tool) for tool in stock.tools]
        terminal.json({"tools": tools, "findings": [finding.to_json() for finding in shown]})
    else:
        _print(shown, terminal)
        terminal.data(_sum_up(stock, inspection, shown))
        if stock.is_sample:
            terminal.say("note", "these are the sample tools; name a file, a folder or a module to see yours")
    return 1 if any(_reaches(finding, fail_on) for finding in inspection.findings) else 0


def _reaches(finding: Finding, level: str) -> bool:
    return level != "never" and LEVELS.index(finding.level) <= LEVELS.index(level)


# --- settings ----------------------------------------------------------------------------------------


def _read_choice(text: str, option: str) -> Choice:
    choice = Choice.parse(text)
    if not is_known(choice.code):
        raise Failure(
            f"{option}: there is no rule '{choice.code}'", suggest(choice.code, [*load_rules(), *OTHERS])
        )
    return choice


def _read_configs(targets: Sequence[str]) -> Iterator[Config]:
    """The settings that apply: those among the targets, or else those of the current folder."""
    named = [target for target in targets if target.endswith(".toml") and os.path.isfile(target)]
    for file in named or ([FILE_NAME] if os.path.isfile(FILE_NAME) else []):
        try:
            yield load_config(Path(file), os.environ)
        except ConfigurationError:
            if not named and targets:
                raise  # nobody else reads it
            continue  # it is among the findings already


def _read_settings(config: Config) -> tuple[list[Choice], list[Choice], list[Finding]]:
    ignore = [Choice.parse(text) for text in config.lint.ignore]
    error = [Choice.parse(text) for text in config.lint.error]
    file = str(config.file)
    remarks = [
        *find_unknown_codes([choice.code for choice in ignore], file, config.lines.get("lint.ignore")),
        *find_unknown_codes([choice.code for choice in error], file, config.lines.get("lint.error")),
    ]
    return ignore, error, remarks


# --- for people --------------------------------------------------------------------------------------


def _print(findings: Iterable[Finding], terminal: Terminal) -> None:
    """Findings by file, as other linters print them: an editor finds `file:line:` by itself."""
    place: str | None = None
    for finding in findings:
        group = _place(finding).partition(":")[0]
        if place is not None and group != place:
            terminal.data("")
        place = group
        for line in _describe(finding, terminal):
            terminal.data(line)
    if place is not None:
        terminal.data("")


def _place(finding: Finding) -> str:
    """File and line; the tool, where what it is from is no file but a server."""
    is_file = finding.file is not None and (finding.line is not None or os.path.exists(finding.file))
    return show_place(finding.where) if is_file else one_line(finding.tool or "")


def _describe(finding: Finding, terminal: Terminal) -> Iterator[Styled]:
    where = _place(finding)
    label = terminal.style_out(f"{finding.level}[{finding.code}]", fg=_COLOURS[finding.level], bold=True)
    place = join(terminal.style_out(where, bold=True), ": ") if where else ""
    yield join(place, label, " ", one_line(shorten_paths(finding.message)))
    if finding.hint:
        mark = terminal.style_out("hint:", fg="cyan")
        yield join("    ", mark, " ", one_line(shorten_paths(finding.hint)))


def _sum_up(stock: Stock, inspection: Inspection, shown: Sequence[Finding]) -> str:
    tools = count(len(stock.tools), "tool") if stock.tools else "no tools"
    levels = [finding.level for finding in inspection.findings]
    nouns = (
        ("error", "error", None),
        ("warning", "warning", None),
        ("advice", "piece of advice", "pieces of advice"),
    )
    problems = [count(levels.count(level), noun, plural) for level, noun, plural in nouns if level in levels]
    asides = []
    if len(shown) < len(levels):
        asides.append(f"{len(levels) - len(shown)} not shown")
    if inspection.ignored:
        asides.append(f"{len(inspection.ignored)} ignored")
    aside = f" ({', '.join(asides)})" if asides else ""
    return f"{tools}; {', '.join(problems) or 'nothing to complain about'}{aside}."


def _list_rules(as_json: bool, terminal: Terminal) -> int:
    if as_json:
        terminal.json(
            {"rules": [_rule_json(group, rule) for group, rules in load_groups().items() for rule in rules]}
        )
        return 0
    width = max(map(len, load_rules()))
    for group, rules in load_groups().items():
        terminal.data(terminal.style_out(group, bold=True))
        for rule in rules:
            terminal.data(f"  {rule.code:<{width}}  {rule.level:<7}  {rule.summary}")
        terminal.data("")
    terminal.data(f"{count(len(load_rules()), 'rule')}; `toolcrib lint --explain CODE` says more about one.")
    return 0


def _rule_json(group: str, rule: Rule) -> dict[str, Any]:
    facts = {"code": rule.code, "level": rule.level, "group": group}
    return {**facts, "summary": rule.summary, "why": rule.why, "mend": rule.fix}


def _explain(code: str, terminal: Terminal) -> int:
    code = code.strip().lower()
    rule = load_rules().get(code)
    if rule is not None:
        terminal.data(
            f"{rule.code} ({rule.level})\n\n  {rule.summary}.\n  {rule.why}\n\n  To mend it: {rule.fix}.\n"
            f"  To opt out: `# toolcrib: ignore[{rule.code}]` on the line of the def or of the finding, or\n"
            f'  `[lint] ignore = ["{rule.code}"]` in toolcrib.toml, or --ignore {rule.code}.'
        )
        return 0
    other = describe_other(code)
    if other is not None:
        terminal.data(f"{code}\n\n  {other}; from reading and building tools, see `toolcrib check`.")
        return 0
    raise Failure(f"There is no rule '{code}'", suggest(code, [*load_rules(), *OTHERS]))
