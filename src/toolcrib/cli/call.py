"""`toolcrib call`: one call of one tool, with arguments from the command line."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from toolcrib.cli.load import load_one
from toolcrib.cli.options import Command, Failure, takes_target_options
from toolcrib.cli.output import Terminal
from toolcrib.cli.remote import Remote, takes_server_options
from toolcrib.cli.text import sign
from toolcrib.content import Block, Result
from toolcrib.context import LOCAL
from toolcrib.definition import MAX_TIMEOUT_S, ToolDefinition
from toolcrib.errors import InvalidArgumentsError, ToolNotFoundError
from toolcrib.schema.arguments import Repairer
from toolcrib.server import MCPServer
from toolcrib.tool import Tool
from toolcrib.validation import codec

EXAMPLES = """
toolcrib call math_add a=10 b=5
toolcrib call -t tools.py find_order number=17 tags:='["new"]'
toolcrib call tools.py:find_order --json '{"number": 17}'
echo '{"number": 17}' | toolcrib call tools.py:find_order --json -
toolcrib call -t http://127.0.0.1:8000/mcp find_order number=17
toolcrib call --command 'python server.py' find_order number=17
"""
_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+)', re.MULTILINE)
_RAISED = re.compile(r"raised (?P<what>.*) \(call \w+\)$")


class CallCommand(Command):
    """Reads `--json` as the documents write it: alone, or followed by an object, or by `-` for stdin."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        read: list[str] = []
        waiting = args[:end]
        while waiting:
            token = waiting.pop(0)
            if token == "--json":  # nosec B105  # an option, not a password
                has_value = waiting and (waiting[0] == "-" or waiting[0].lstrip().startswith("{"))
                token = f"--json={waiting.pop(0) if has_value else ''}"
            read.append(token)
        try:
            return super().parse_args(ctx, [*read, *args[end:]])
        except click.NoSuchOption as error:
            word = error.option_name.lstrip("-")
            raise Failure(
                f"There is no option {error.option_name}", f"a tool's arguments have no dashes: {word}=VALUE"
            ) from None


@click.command(cls=CallCommand, examples=EXAMPLES)
@click.argument("name")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@takes_target_options
@click.option(
    "--json",
    "as_json",
    metavar="['{...}' | -]",
    help="Print the result object. The arguments as JSON may follow, or - to read them from stdin.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, MAX_TIMEOUT_S, min_open=True),
    metavar="SECONDS",
    help="How long to wait for the tool.",
)
@takes_server_options
def call(
    terminal: Terminal,
    name: str,
    pairs: Sequence[str],
    targets: Sequence[str],
    as_json: str | None,
    timeout_s: float | None,
    command: str | None,
    headers: Sequence[str],
    protocol: str | None,
) -> int:
    """Call a tool and print what it returns.

    KEY=VALUE gives an argument; the tool's schema decides whether 10 is a number or a text. KEY:=JSON gives
    it as JSON. Exit code 0: the tool answered. 1: it answered with an error. 2: there is no such tool.

    NAME is a tool's name, name@version, or says where it is: file.py:name, module:name.
    """
    given = {**_read_json(as_json), **read_pairs(pairs)}
    remote = Remote.read(targets, command, headers, protocol)
    hint = None
    if remote is not None:
        result = remote.call(name, lambda found: fit_words(given, pairs, found), timeout_s, terminal)
    else:
        loaded, tool = load_one(name, targets, terminal, timeout_s=timeout_s)
        result = _run(loaded.server, tool, fit_words(given, pairs, tool.definition), timeout_s, terminal)
        hint = _hint_for(result, tool.definition, pairs)
    if as_json is not None:
        terminal.json(result.to_json())
        if result.is_error:
            _show_crash(terminal)
    elif result.is_error:
        terminal.say("error", result.text or "the tool failed and said nothing", hint)
        _show_crash(terminal)
    else:
        _print_result(result, terminal)
    return 1 if result.is_error else 0


# --- arguments -----------------------------------------------------------------------------------------


def _read_json(text: str | None) -> dict[str, Any]:
    if not text:
        return {}
    where = "on stdin" if text == "-" else "after --json"
    return read_object(sys.stdin.read() if text == "-" else text, where)


def read_object(text: str, where: str) -> dict[str, Any]:
    if not text.strip():
        raise Failure(f"There are no arguments {where}", "give a JSON object: {} for none")
    try:
        value = codec.decode(text)
    except ValueError as error:
        raise Failure(f"The arguments {where} are not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Failure(f"The arguments {where} must be a JSON object", 'write {"name": value, ...}')
    return value


def read_pairs(pairs: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.rstrip(":"):
            hint = (
                "--json takes a JSON object" if pair[:1] in '["' else "arguments are KEY=VALUE or KEY:=JSON"
            )
            raise Failure(f"'{pair}' is not KEY=VALUE", hint)
        key, decoded = (key[:-1], _decode(pair, value)) if key.endswith(":") else (key, value)
        if key in values:
            raise Failure(f"'{key}' is given twice", f"for a list, write {key}:='[...]'")
        values[key] = decoded
    return values


def _decode(pair: str, text: str) -> Any:
    try:
        return codec.decode(text)
    except ValueError as error:
        raise Failure(f"'{pair}' is not JSON after := ({error})", "text needs no colon: KEY=VALUE") from None


def fit_words(given: dict[str, Any], pairs: Sequence[str], definition: ToolDefinition) -> dict[str, Any]:
    """Words typed in a shell have no type of their own; the schema says what they mean."""
    schema = definition.input_schema
    properties = schema.get("properties", {})
    properties = properties if isinstance(properties, Mapping) else {}
    typed = {pair.partition("=")[0] for pair in pairs}
    values = dict(given)
    for key in typed & values.keys():
        kind = properties.get(key, {}).get("type") if isinstance(properties.get(key), Mapping) else None
        if kind == "boolean" and str(values[key]).lower() in ("true", "false"):
            values[key] = values[key].lower()  # Python's spelling is as good as JSON's
    words = Repairer(schema).repair({key: values[key] for key in typed & values.keys()})
    return {**values, **words}


# --- the call ------------------------------------------------------------------------------------------


def _run(
    server: MCPServer, tool: Tool, arguments: dict[str, Any], timeout_s: float | None, terminal: Terminal
) -> Result:
    from toolcrib.cli.ask import AtTerminal  # delayed: who lists or shows tools asks nobody

    name = f"{tool.name}@{tool.version}" if tool.version else tool.name

    async def run() -> Result:
        try:
            if server.dispatcher.pipeline is not None:
                await server.dispatcher.pipeline.open()  # fails before anything runs
            return await server.call(name, arguments, timeout_s=timeout_s, channel=AtTerminal(terminal))
        except ToolNotFoundError:
            # It is there, or it would not have been found: who has the file may know that.
            hint = f"`toolcrib explain --as {LOCAL.name} {tool.name}` says which rule decides"
            raise Failure(f"The policy does not let you call '{tool.name}'", hint) from None
        finally:
            await server.stop()

    return asyncio.run(run())


# --- the result ----------------------------------------------------------------------------------------


def _print_result(result: Result, terminal: Terminal) -> None:
    """Text as text; where the text is only the JSON of the data, the data so that it can be read."""
    if result.is_structured and _is_json_of(result.text, result.structured_content):
        terminal.json(result.structured_content)
        return
    for block in result.content:
        text = _show_block(block)
        terminal.content(text if text.endswith("\n") else f"{text}\n")
    if not result.content:
        terminal.say("note", "the tool returned nothing")


def _is_json_of(text: str, value: Any) -> bool:
    try:
        return bool(codec.decode(text) == value)
    except ValueError:
        return False


def _show_block(block: Block) -> str:
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
    return f"[{kind}] {len(data) * 3 // 4} bytes (--json gives them)"


def _hint_for(result: Result, definition: ToolDefinition, pairs: Sequence[str]) -> str | None:
    """What the tool takes. A shell's word for a list or an object needs JSON; say how."""
    if not isinstance(result.error, InvalidArgumentsError):
        return None
    typed = dict(pair.split("=", 1) for pair in pairs)
    for problem in result.error.details or ():
        key, expected = problem.get("field", ""), problem.get("expected", "")
        if key in typed and expected in ("expected array", "expected object"):
            value = _spell(typed[key])
            example = f"[{value}]" if expected == "expected array" else f'{{"key": {value}}}'
            return f"give it as JSON: {key}:='{example}'"
    return f"it takes {sign(definition) or 'no arguments'}"


def _spell(word: str) -> str:
    """A word as JSON: itself where it is a number, else in quotes."""
    try:
        codec.decode(word)
    except ValueError:
        return json.dumps(word, ensure_ascii=False)
    return word


def _show_crash(terminal: Terminal) -> None:
    """The tool is the user's own: say what it raised and where, and all of it if asked."""
    for report in terminal.log.crashes:
        if terminal.debug:
            terminal.say("cause", report)
            continue
        raised = _RAISED.search(report.splitlines()[0])
        places = list(_FRAME.finditer(report))
        at = f", at {places[-1]['file']}:{places[-1]['line']}" if places else ""
        terminal.say("cause", f"{raised['what'] if raised else report.splitlines()[0]}{at}")
        terminal.say("hint", "--debug shows the whole traceback")
