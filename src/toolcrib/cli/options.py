"""What every command has in common: options, exit codes, and how an error shows itself.

0 is well, 1 means something was found wrong, 2 that the command was given wrongly, 130 that it was
interrupted. A user's mistake is `error: ...` and `hint: ...`, never a traceback unless `--debug` asks for it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from toolcrib.cli.output import Terminal, open_terminal
from toolcrib.errors import ConfigurationError, DefinitionError, ToolcribError

F = TypeVar("F", bound=Callable[..., Any])
INTERRUPTED = 130


class Failure(click.ClickException):
    """A command given wrongly, with a way out."""

    exit_code = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class Command(click.Command):
    """A command that owns the terminal while it runs. Its function gets it, and returns the exit code."""

    def __init__(self, *args: Any, examples: str = "", **extra: Any) -> None:
        super().__init__(*args, **extra)
        if examples:
            self.epilog = show_examples(examples)
        self.params.append(
            click.Option(["--debug"], is_flag=True, help="Show tracebacks and the library's log.")
        )

    def invoke(self, ctx: click.Context) -> Any:
        debug = ctx.params.pop("debug") or bool(ctx.find_root().params.get("debug"))
        with open_terminal(debug=debug) as terminal:
            try:
                return ctx.invoke(self.callback, terminal, **ctx.params) if self.callback else None
            except KeyboardInterrupt:
                return INTERRUPTED
            except (click.exceptions.Exit, click.Abort):
                raise
            except Exception as error:
                if isinstance(error, BrokenPipeError):
                    raise
                if debug:
                    terminal.show_trace(error)
                return explain(error, terminal)


def show_examples(examples: str) -> str:
    """Examples as they stand below the options of a command."""
    lines = "\n".join(f"  {line}" for line in examples.strip().splitlines())
    return f"\b\nExamples:\n{lines}"


class Group(click.Group):
    """The root: turns whatever ends a command into words and an exit code.

    `parts` says where each command is, as `module:name`. A command is loaded when it is used: starting a
    server must not wait for what it does not need.
    """

    def __init__(self, *args: Any, parts: Mapping[str, str] | None = None, **extra: Any) -> None:
        super().__init__(*args, **extra)
        self._parts = dict(parts or {})

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self._parts)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        place = self._parts.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def main(self, *args: Any, **extra: Any) -> Any:
        extra["standalone_mode"] = False
        try:
            code = super().main(*args, **extra)
        except click.ClickException as error:  # found while the command line was read
            with open_terminal(debug=False) as terminal:
                code = explain(error, terminal)
        except (KeyboardInterrupt, click.Abort):
            code = INTERRUPTED
        except BrokenPipeError:
            code = 1  # whoever read the output has seen enough
        sys.exit(code if isinstance(code, int) else 0)


def explain(error: Exception, terminal: Terminal) -> int:
    """Say what went wrong and what to do; returns the exit code."""
    match error:
        case Failure():
            terminal.say("error", error.message, error.hint)
        case click.exceptions.NoArgsIsHelpError():
            terminal.put(error.format_message())
        case click.UsageError():
            command = error.ctx.command_path if error.ctx else "toolcrib"
            terminal.say("error", error.format_message().rstrip("."), f"see {command} --help")
        case click.ClickException():
            terminal.say("error", error.format_message())
        case ConfigurationError():
            terminal.say("error", error, error.hint)
            return 2
        case DefinitionError():
            terminal.tell(error.finding)
            return 1
        case ToolcribError():
            terminal.say("error", error)
            return 1
        case _:
            terminal.say(
                "error",
                f"toolcrib itself failed: {type(error).__name__}: {error}",
                "run it again with --debug and report what it prints",
            )
            return 1
    return error.exit_code


# --- options that several commands have --------------------------------------------------------------


def takes_targets(function: F) -> F:
    return click.argument("targets", nargs=-1, metavar="[TARGET]...")(function)


def takes_target_options(function: F) -> F:
    return click.option(
        "-t",
        "--target",
        "targets",
        multiple=True,
        metavar="TARGET",
        help="Where the tool is: a Python file, a folder, a module, module:object or a toolcrib.toml.",
    )(function)


def takes_json(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(function)
