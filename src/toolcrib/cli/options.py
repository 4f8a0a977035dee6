"""Shared parts of all commands: base classes, exit codes, error output, common options.

Exit codes: 0 success, 1 something is wrong with the tools, 2 wrong usage, 130 interrupted. Errors are shown
as `error: ...` and `hint: ...`; a traceback only with `--debug`.
"""

from __future__ import annotations

import errno
import math
import pkgutil
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from toolcrib.cli.output import Terminal, open_terminal
from toolcrib.errors import (
    ConfigurationError,
    DefinitionError,
    SourceError,
    ToolcribError,
    TransportError,
    suggest,
)
from toolcrib.sources.foreign.program import stop_programs
from toolcrib.sources.targets import SAMPLES, default_target
from toolcrib.state.base import StateUnavailable

F = TypeVar("F", bound=Callable[..., Any])
INTERRUPTED = 130
_ARGUMENTS = "toolcrib.arguments"
_DAY_S = 86_400.0
_UNITS_S = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": _DAY_S, "w": 7 * _DAY_S, "y": 365 * _DAY_S}
_DURATION = re.compile(r"(\d{1,9})\s*([a-z]+)")
_LAST_S = 253_402_300_799.0  # the end of the year 9999, the last that datetime can represent


REMOVED_COMMANDS = {
    "lint": "`lint` is now part of `check`",
    "agent": "use toolcrib.agents.AgentRunner in Python, as examples/agent.py does",
    "bundle": "use toolcrib publish, then npx @anthropic-ai/mcpb pack",
}
COMMANDS_ELSEWHERE = {
    "build": "export",
    "dev": "serve --reload",
    "inspect": "list or toolcrib show",
    "install": "connect",
    "new": "init",
    "pack": "publish",
    "run": "serve",
    "start": "serve",
    "test": "check",
    "tools": "list",
    "version": "--version",
}
"""Commands of other tools, and their counterparts here."""
OPTIONS_ELSEWHERE = {
    "serve --transport": "add --stdio to serve on stdio; HTTP is the default",
    "serve --verbose": "toolcrib list shows the tools",
    "list --tag": "use --include tag:NAME",
    "check --against-scan": "use toolcrib lock --static, then toolcrib lock --check",
    "publish --name": "write it under [publish] in toolcrib.toml",
}
"""Options of other tools and of earlier releases, and their counterparts here."""
REMOVED_SUBCOMMANDS = {
    "audit 'tail'": "use toolcrib audit query --follow",
    "audit 'export'": "use toolcrib audit query --limit 0 --json",
}


class CommandError(click.ClickException):
    """Wrong usage, with a hint how to correct it."""

    exit_code = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class Command(click.Command):
    """A command whose function gets a `Terminal` first and returns the exit code."""

    def __init__(self, *args: Any, examples: str = "", **extra: Any) -> None:
        super().__init__(*args, **extra)
        # Commands of a group are given the examples of all of them.
        own = re.compile(rf"toolcrib (\w+ )?{self.name}\b|^ ")
        if lines := [line for line in examples.splitlines() if own.search(line)]:
            self.epilog = format_examples("\n".join(lines))
        self.params.append(
            click.Option(["--debug"], is_flag=True, help="Show tracebacks and the library's log.")
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words after `--` for the program that is a target."""
        if any(param.name == "targets" for param in self.params) and "--" in args:
            end = args.index("--")
            ctx.meta[_ARGUMENTS] = tuple(args[end + 1 :])
            args = args[:end]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            hint = OPTIONS_ELSEWHERE.get(f"{self.name} {error.option_name}")
            if error.option_name in ("-t", "--target") and any(
                isinstance(item, click.Argument) for item in self.params if item.name == "targets"
            ):
                hint = f"name targets without it: {ctx.command_path} TARGET"
            if hint is None:
                raise
            raise CommandError(f"No such option: {error.option_name}", hint) from None

    def invoke(self, ctx: click.Context) -> Any:
        debug = ctx.params.pop("debug") or bool(ctx.find_root().params.get("debug"))
        with open_terminal(debug=debug) as terminal:
            try:
                return ctx.invoke(self.callback, terminal, **ctx.params) if self.callback else None
            except KeyboardInterrupt:
                return INTERRUPTED
            except (click.exceptions.Exit, click.Abort, BrokenPipeError):
                raise
            except Exception as error:
                if debug:
                    terminal.traceback(error)
                return report_error(error, terminal)
            finally:
                stop_programs()


def format_examples(examples: str) -> str:
    """Return the examples as they stand below the options of a command."""
    lines = "\n".join(f"  {line}" for line in examples.strip().splitlines())
    return f"\b\nExamples:\n{lines}"


class LazyGroup(click.Group):
    """The root command. `modules` maps names to `module:attribute`; a command is imported when it is used,
    so that starting a server does not wait for the others."""

    def __init__(self, *args: Any, modules: Mapping[str, str] | None = None, **extra: Any) -> None:
        super().__init__(*args, **extra)
        self._modules = dict(modules or {})

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self._modules:
            return None
        command: click.Command = pkgutil.resolve_name(self._modules[cmd_name])
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries in full; click would cut them on a narrow terminal."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, command.get_short_help_str(limit=1_000)) for name, command in commands if command]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self._modules and not name.startswith("-"):
            here = COMMANDS_ELSEWHERE.get(name)
            hint = f"use toolcrib {here}" if here else suggest(name, self._modules, "see toolcrib --help")
            raise CommandError(f"No such command '{name}'", REMOVED_COMMANDS.get(name, hint))
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **extra: Any) -> Any:
        extra["standalone_mode"] = False
        try:
            code = super().main(*args, **extra)
        except click.ClickException as error:  # raised while the command line was parsed
            with open_terminal(debug=False) as terminal:
                code = report_error(error, terminal)
        except (KeyboardInterrupt, click.Abort):
            code = INTERRUPTED
        except BrokenPipeError:
            code = 1  # the reader of stdout has gone
        sys.exit(code if isinstance(code, int) else 0)


def report_error(error: Exception, terminal: Terminal) -> int:
    """Print an error and its hint; return the exit code."""
    match error:
        case click.UsageError() if type(error).__name__ == "NoArgsIsHelpError":  # since click 8.2
            terminal.echo_err(error.format_message())
        case click.UsageError():
            command, text = error.ctx.command_path if error.ctx else "toolcrib", error.format_message()
            removed = f"{command.rpartition(' ')[2]} {text.removeprefix('No such command ').rstrip('.')}"
            instead = REMOVED_SUBCOMMANDS.get(removed, f"see {command} --help")
            terminal.message("error", text.rstrip("."), instead)
        case click.ClickException():
            terminal.message("error", error.format_message(), getattr(error, "hint", None))
        case ConfigurationError():
            terminal.message("error", error, error.hint)
            return 2
        case DefinitionError():
            for finding in error.all_findings:
                terminal.finding(finding)
            return 1
        case ToolcribError():
            is_denied = isinstance(error, TransportError) and error.status == 401
            hint = "send a key with --header 'Authorization: Bearer KEY'" if is_denied else None
            terminal.message("error", error, hint)
            return 1
        case StateUnavailable():
            terminal.message("error", error)
            return 1
        case OSError() if error.filename is not None or error.errno == errno.ENOSPC:
            place = "" if error.filename is None else f"{error.filename}: "
            terminal.message("error", f"{place}{error.strerror}")
            return 2
        case _:
            text = f"Internal error: {type(error).__name__}: {error}"
            terminal.message("error", text, "run it again with --debug and report the output")
            return 1
    return error.exit_code


class Time(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4
    """A time such as `30d`, `12h`, `2027-01-01` or `2027-01-01T12:00` (UTC), in seconds since 1970.

    Durations count from now: forwards if `sign` is 1, backwards if it is -1. `never` is the infinite
    future.
    """

    name = "time"

    def __init__(self, sign: int) -> None:
        self.sign = sign

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = value.strip().lower()
        if self.sign > 0 and text == "never":
            return math.inf
        duration = _DURATION.fullmatch(text)
        try:
            if duration is not None and duration[2] in _UNITS_S:
                time_s = time.time() + self.sign * int(duration[1]) * _UNITS_S[duration[2]]
            else:
                moment = datetime.fromisoformat(value.strip())
                time_s = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            self.fail(f"{value!r}: use a time such as 30d, 12h, 2027-01-01 or 2027-01-01T12:00", param, ctx)
        if not 0 <= time_s <= _LAST_S:
            self.fail(f"{value!r}: use a time between 1970 and 9999", param, ctx)
        return time_s


# --- common options ----------------------------------------------------------------------------------


class Targets(tuple[str, ...]):
    """The targets of a command line, and the arguments for a program among them, which follow `--`."""

    arguments: tuple[str, ...] = ()

    @classmethod
    def of(cls, targets: Iterable[str], arguments: Iterable[str]) -> Targets:
        made = cls(targets)
        made.arguments = tuple(arguments)
        return made

    @property
    def words(self) -> list[str]:
        """The words of the command line."""
        return [*self, "--", *self.arguments] if self.arguments else [*self]


NO_TARGETS = Targets()


def _make_targets(ctx: click.Context, _: click.Parameter, value: Sequence[str]) -> Targets:
    samples = [SAMPLES] if ctx.meta.get(SAMPLES) else []
    return Targets.of([*value, *samples], ctx.meta.get(_ARGUMENTS, ()))


def named_targets(targets: Sequence[str]) -> Sequence[str]:
    """Return the targets, or the default one. Raise CommandError if there is none."""
    try:
        return targets or [default_target()]
    except SourceError as error:
        raise CommandError(error.message, error.hint) from None


def _samples_option(function: F) -> F:
    option = click.option(
        "--samples",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=lambda ctx, _, value: ctx.meta.update({SAMPLES: value}),
        help="Use the sample tools.",
    )
    return option(function)


def complete_files(_: click.Context, __: click.Parameter, incomplete: str) -> list[Any]:
    """Complete a target: the shell knows the files."""
    from click.shell_completion import CompletionItem  # start-up time

    return [CompletionItem(incomplete, type="file")]


def complete_from(names: Iterable[str]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a function that completes one of these names."""
    return lambda _, __, incomplete: [name for name in names if name.startswith(incomplete)]


def targets_argument(function: F) -> F:
    argument = click.argument(
        "targets",
        nargs=-1,
        metavar="[TARGET]...",
        callback=_make_targets,
        shell_complete=complete_files,
    )
    return _samples_option(argument(function))


def target_option(function: F, *, urls: bool = False) -> F:
    """Add `-t`; with `urls`, its help names the URL of a running server too."""
    text = "Source of the tools: a Python file, folder, module, module:object"
    option = click.option(
        "-t",
        "--target",
        "targets",
        multiple=True,
        metavar="TARGET",
        help=f"{text}, toolcrib.toml or the URL of an MCP server." if urls else f"{text} or toolcrib.toml.",
        callback=_make_targets,
        shell_complete=complete_files,
    )
    return _samples_option(option(function))


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(function)


def name_rule_option(function: F) -> F:
    text = "Names that tools may have; portable and strict refuse dots.  [default: mcp]"
    return click.option("--name-rule", type=click.Choice(("mcp", "portable", "strict")), help=text)(function)


def parse_headers(given: Sequence[str]) -> dict[str, str]:
    """Return the headers of `--header 'NAME: VALUE'`."""
    headers = {}
    for item in given:
        name, colon, value = item.partition(":")
        if not colon or not name.strip():
            raise CommandError("--header must be 'NAME: VALUE'", "e.g. --header 'Authorization: Bearer ...'")
        headers[name.strip()] = value.strip()
    return headers


def exclusive(*options: str) -> CommandError:
    """Return the error for options that cannot be combined."""
    text = f"{options[0]} cannot be combined with {' and '.join(options[1:])}"
    return CommandError(text, "drop one of them")
