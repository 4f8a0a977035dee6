"""`toolcrib call`: call one tool with arguments from the command line."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from toolcrib.cli.catalog import ToolSource, complete_tools, source_options
from toolcrib.cli.load import check_is_no_file, load_one
from toolcrib.cli.options import Command, CommandError
from toolcrib.cli.output import Terminal
from toolcrib.cli.questions import TerminalChannel
from toolcrib.cli.table import signature
from toolcrib.component import Component
from toolcrib.content import Block, Result
from toolcrib.context import LOCAL
from toolcrib.definition import ToolDefinition
from toolcrib.errors import InvalidArgumentsError, ToolCrashedError, ToolNotFoundError
from toolcrib.options import MAX_TIMEOUT_S
from toolcrib.schema.arguments import Repairer
from toolcrib.server import MCPServer
from toolcrib.validation import codec

F = TypeVar("F", bound=Callable[..., Any])
EXAMPLES = """
toolcrib call math_add a=10 b=5
toolcrib call -t tools.py find_order number=17 tags:='["new"]'
toolcrib call tools.py:find_order --json '{"number": 17}'
echo '{"number": 17}' | toolcrib call tools.py:find_order --json -
toolcrib call -t http://127.0.0.1:8000/mcp find_order number=17
toolcrib call --command 'python server.py' find_order number=17
toolcrib call -t server.py find_order number=17 -- --db orders.db
"""
_VERBS = {"tool": "call", "resource": "read", "prompt": "use"}
_JSON_EXAMPLES = {"expected array": '["a", "b"]', "expected object": '{"key": "value"}'}


class CallCommand(Command):
    """Accepts `--json` alone, followed by a JSON object, or by `-` for stdin."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        has_target = any(word.startswith(("-t", "--target")) for word in args[:end])
        are_pairs = all("=" in word and not word.startswith("-") for word in args[end + 1 :])
        parsed: list[str] = []
        for word in args[:end]:
            if parsed and parsed[-1] == "--json=" and (word == "-" or word.lstrip().startswith("{")):
                parsed[-1] += word
            else:
                parsed.append("--json=" if word == "--json" else word)
        # What follows `--` is for the program that is the target, or, as KEY=VALUE without one, for the tool.
        parse = super(Command, self).parse_args if are_pairs and not has_target else super().parse_args
        try:
            return parse(ctx, [*parsed, *args[end:]])
        except click.NoSuchOption as error:
            hint = f"write arguments of the tool without dashes: {error.option_name.lstrip('-')}=VALUE"
            raise CommandError(f"No such option: {error.option_name}", hint) from None


def arguments_option(function: F) -> F:
    option = click.option(
        "--json",
        "as_json",
        metavar="['{...}' | -]",
        help="Print the result as JSON. Arguments may follow as JSON, or - to read them from stdin.",
    )
    return option(function)


def timeout_option(function: F) -> F:
    option = click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(0, MAX_TIMEOUT_S, min_open=True),
        metavar="SECONDS",
        help="Time limit of the call.",
    )
    return option(function)


@click.command(cls=CallCommand, examples=EXAMPLES)
@click.argument("name", shell_complete=complete_tools)
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@source_options(target=True, static=False)
@arguments_option
@timeout_option
def call(
    terminal: Terminal,
    name: str,
    pairs: Sequence[str],
    source: ToolSource,
    as_json: str | None,
    timeout_s: float | None,
) -> int:
    """Call a tool and print its result.

    KEY=VALUE passes an argument, converted by the schema of the tool; KEY:=JSON passes it as JSON. Exit code
    0: success. 1: the tool returned an error. 2: wrong usage or no such tool.

    NAME is the name of a tool, name@version, or where it is: file.py:name, module:name.
    """
    if source.remote is None:
        check_is_no_file(name, source.targets)
    given = read_arguments(pairs, as_json)
    remote = source.remote
    hint = None
    if remote is not None:
        result = remote.call(
            name, lambda definition: convert_arguments(given, pairs, definition), timeout_s, terminal
        )
    else:
        loaded, tool = load_one(name, source.targets, terminal, timeout_s=timeout_s)
        arguments = convert_arguments(given, pairs, tool.definition)
        name = f"{tool.name}@{tool.version}" if tool.version else tool.name
        result = run_locally(
            lambda channel: loaded.server.call(name, arguments, timeout_s=timeout_s, channel=channel),
            loaded.server,
            tool,
            terminal,
        )
        hint = hint_for(result, tool.definition, arguments, terminal)
    if as_json is not None:
        terminal.json(result.to_json())
    elif result.is_error:
        terminal.message("error", result.text or "the tool failed without a message", hint)
    else:
        _print_result(result, terminal)
    return 1 if result.is_error else 0


# --- arguments -----------------------------------------------------------------------------------------


def read_arguments(pairs: Sequence[str], as_json: str | None) -> dict[str, Any]:
    """Return the arguments of a command line: those after --json or on stdin, and the pairs."""
    given: dict[str, Any] = {}
    if as_json:
        where = "on stdin" if as_json == "-" else "after --json"
        given = parse_object(sys.stdin.read() if as_json == "-" else as_json, where)
    return given | parse_pairs(pairs)


def parse_object(text: str, where: str) -> dict[str, Any]:
    value = _decode(text, f"The arguments {where} are not JSON", "give a JSON object: {} for none")
    if not isinstance(value, dict):
        raise CommandError(f"The arguments {where} must be a JSON object", 'write {"name": value, ...}')
    return value


def parse_pairs(pairs: Sequence[str]) -> dict[str, Any]:
    """Return the values of KEY=VALUE, which are text, and of KEY:=JSON."""
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.rstrip(":"):
            hint = "arguments are KEY=VALUE or KEY:=JSON; --json takes a JSON object: --json '{...}'"
            raise CommandError(f"'{pair}' is not KEY=VALUE", hint)
        is_json, key = key.endswith(":"), key.removesuffix(":")
        if key in values:
            raise CommandError(f"'{key}' is given twice", f"for a list, write {key}:='[...]'")
        error = f"'{pair}' is not valid JSON"
        values[key] = _decode(value, error, "for text, write KEY=VALUE") if is_json else value
    return values


def _decode(text: str, message: str, hint: str) -> Any:
    try:
        return codec.decode(text)
    except ValueError as error:
        raise CommandError(f"{message}: {error}", hint) from None


def convert_arguments(
    given: dict[str, Any], pairs: Sequence[str], definition: ToolDefinition
) -> dict[str, Any]:
    """Convert the values typed as KEY=VALUE to the types of the schema."""
    typed = {pair.partition("=")[0] for pair in pairs} & given.keys()
    repairer = Repairer(definition.input_schema)
    values = repairer.repair({key: given[key] for key in typed})
    for key in typed:
        if values[key] in ("True", "False"):  # Python's spelling is accepted too
            lowered = repairer.repair({key: values[key].lower()})[key]
            values[key] = lowered if isinstance(lowered, bool) else values[key]
    return {**given, **values}


def hint_for(
    result: Result, definition: ToolDefinition, given: Mapping[str, Any], terminal: Terminal
) -> str | None:
    """Return what helps after a failure: how to see a traceback, how to write a list or an object as JSON, or
    the parameters."""
    error = result.error
    if isinstance(error, ToolCrashedError):
        return None if terminal.debug else "--debug shows the traceback"
    if not isinstance(error, InvalidArgumentsError):
        return None
    for problem in error.details or ():
        key, example = problem["field"], _JSON_EXAMPLES.get(problem["expected"])
        if key in given and example is not None:
            return f"give it as JSON: {key}:='{example}'"
    return f"parameters: {signature(definition) or 'none'}"


# --- the call ------------------------------------------------------------------------------------------


def run_locally(
    work: Callable[[TerminalChannel], Awaitable[Result]],
    server: MCPServer,
    tool: Component,
    terminal: Terminal,
) -> Result:
    """Return what `work` does with a tool of a server that was loaded, and stop the server. Progress and
    questions go to the terminal. Raises CommandError where the policy hides the tool."""

    async def run() -> Result:
        try:
            if server.dispatcher.pipeline is not None:
                await server.dispatcher.pipeline.open()  # fails before anything runs
            if server.lifespan is not None:
                await server.lifespan.open(server)
            return await work(TerminalChannel(terminal))
        except ToolNotFoundError:
            # The tool exists; a user who has the file may know that it is the policy that hides it.
            hint = f"`toolcrib explain --as {LOCAL.name} {tool.reference}` shows which rule decides"
            text = f"The policy does not allow you to {_VERBS[tool.kind]} '{tool.name}'"
            raise CommandError(text, hint) from None
        finally:
            await server.stop()
            terminal.status("")

    return asyncio.run(run())


def run_feature(
    server: MCPServer,
    tool: Component,
    name: str,
    arguments: Mapping[str, Any],
    timeout_s: float | None,
    terminal: Terminal,
) -> Result | None:
    """Return the result of a resource or prompt that was loaded; None after printing why it failed."""
    result = run_locally(
        lambda channel: server.dispatcher.run(
            tool, name, arguments, kind=tool.kind, channel=channel, timeout_s=timeout_s
        ),
        server,
        tool,
        terminal,
    )
    if not result.is_error:
        return result
    hint = hint_for(result, tool.definition, arguments, terminal)
    terminal.message("error", result.text or f"the {tool.kind} failed without a message", hint)
    return None


# --- the result ----------------------------------------------------------------------------------------


def _print_result(result: Result, terminal: Terminal) -> None:
    """Print text as it is; where it is only the JSON of the data, print the data formatted."""
    if result.is_structured and _is_json_of(result.text, result.structured_content):
        terminal.json(result.structured_content)
        return
    for block in result.content:
        text = format_block(block)
        terminal.write(text if text.endswith("\n") else f"{text}\n")
    if not result.content:
        terminal.message("note", "the tool returned nothing")


def _is_json_of(text: str, value: Any) -> bool:
    try:
        return bool(codec.decode(text) == value)
    except ValueError:
        return False


def format_block(block: Block) -> str:
    """Return content as text; of images and other data, only the size."""
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", ""))
    if kind == "resource_link":
        return f"[link] {block.get('name')}: {block.get('uri')}"
    resource = block.get("resource", {}) if kind == "resource" else block
    if "text" in resource:
        return str(resource["text"])
    data = str(resource.get("data") or resource.get("blob") or "")
    kind = f"{kind}, {resource['mimeType']}" if "mimeType" in resource else kind
    return f"[{kind}] {len(data) * 3 // 4} bytes (use --json to print them)"
