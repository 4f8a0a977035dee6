"""`toolcrib call`, `read` and `prompt`: run one tool, resource or prompt from the command line."""

from __future__ import annotations

import base64
import binascii
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from toolcrib.cli.catalog import (
    RequestOptions,
    ToolSource,
    Work,
    list_remote_features,
    matches_template,
    run_client,
    source_options,
)
from toolcrib.cli.load import Named, check_is_no_file, load_named
from toolcrib.cli.options import Command, CommandError, exclusive, json_option
from toolcrib.cli.output import Terminal
from toolcrib.cli.table import signature
from toolcrib.cli.text import one_line, style, suggest
from toolcrib.client import Client
from toolcrib.content import Block, Result
from toolcrib.context import LOCAL
from toolcrib.definition import ToolDefinition
from toolcrib.errors import RemoteError, ToolNotFoundError
from toolcrib.options import MAX_TIMEOUT_S
from toolcrib.schema.arguments import Repairer
from toolcrib.validation import codec
from toolcrib.validation.validator import Validator

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
_GRACE_S = 2.0
"""Added to the time limit of a call, so that the server reports it first."""
CALL = """
toolcrib call math_add a=10 b=5
toolcrib call -t tools.py find_order number=17 tags:='["new"]'
toolcrib call tools.py:find_order --json '{"number": 17}'
echo '{"number": 17}' | toolcrib call tools.py:find_order --json -
toolcrib call -t http://127.0.0.1:8000/mcp find_order number=17
toolcrib call --command 'python server.py' find_order number=17
toolcrib call -t server.py find_order number=17 -- --db orders.db
"""
READ = """
toolcrib read -t shop.py orders://17/invoice
toolcrib read -t shop.py shop://logo -o logo.png
toolcrib read -t shop.py shop://logo > logo.png
toolcrib read -t shop.py orders://list --json
"""
PROMPT = """
toolcrib prompt -t shop.py complain order=17 tone=firm
toolcrib prompt -t shop.py complain --json '{"order": "17"}'
toolcrib prompt -t shop.py thank who=Ana | pbcopy
"""
_VERBS = {"tool": "call", "resource": "read", "prompt": "use"}
_INVALID = "Invalid arguments"
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


# --- call ----------------------------------------------------------------------------------------------


@click.command(cls=CallCommand, examples=CALL)
@click.argument("name")
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
    if remote is not None:
        result, hint = remote.run(partial(_call, name, None, given, pairs), terminal, timeout_s)
    else:
        named = load_named(name, source.targets, terminal, "tool", timeout_s=timeout_s)
        tool = named.tool
        exact = f"{tool.name}@{tool.version}" if tool.version else tool.name
        work = partial(_call, exact, tool.definition, given, pairs)
        result, hint = _run(named, work, terminal, timeout_s)
    if as_json is not None:
        terminal.json(result.to_json())
    elif result.is_error:
        terminal.message("error", result.text or "the tool failed without a message", hint)
    else:
        _print_result(result, terminal)
    return 1 if result.is_error else 0


async def _call(
    name: str,
    definition: ToolDefinition | None,
    given: dict[str, Any],
    pairs: Sequence[str],
    client: Client,
    options: RequestOptions,
) -> tuple[Result, str | None]:
    """Call a tool; return its result and a hint. A running server is asked for a tool that it does not list
    too: it may know it, and records the call if a policy hides it."""
    listed = {} if definition else {tool.name: tool.definition for tool in await client.list_tools()}
    known = definition or listed.get(name)
    arguments = convert_arguments(given, pairs, known or ToolDefinition(name))
    unknown = UnknownNameError(f"Unknown tool: {name}", suggest(name, listed))
    try:
        result = await client.call(name, arguments, **options)
    except ToolNotFoundError:
        raise unknown from None
    if known is None:
        if result.is_error and result.text.startswith("Unknown tool"):
            raise unknown
        return result, None
    return result, _hint_for(result, known, arguments)


def _print_result(result: Result, terminal: Terminal) -> None:
    """Print text as it is; if it is only the JSON of the data, print the data formatted."""
    if result.is_structured:
        with suppress(ValueError):
            if codec.decode(result.text) == result.structured_content:
                terminal.json(result.structured_content)
                return
    for block in result.content:
        text = _format_block(block)
        terminal.write(text if text.endswith("\n") else f"{text}\n")
    if not result.content:
        terminal.message("note", "the tool returned nothing")


def _format_block(block: Block) -> str:
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


# --- read ----------------------------------------------------------------------------------------------


@click.command(cls=Command, examples=READ)
@click.argument("uri")
@source_options(target=True, static=False)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write the content to this file, as it is."
)
@json_option
@timeout_option
def read(
    terminal: Terminal,
    uri: str,
    source: ToolSource,
    output: Path | None,
    as_json: bool,
    timeout_s: float | None,
) -> int:
    """Read a resource and print its content.

    Text is printed. Other content is written to a file or a pipe, but not to a terminal. Exit code 0:
    success. 1: reading it failed. 2: wrong usage or no such resource.

    URI is the URI of a resource, or one that a template matches: toolcrib list shows both.
    """
    if output is not None and as_json:
        raise exclusive("--output", "--json")
    remote = source.remote
    contents: Sequence[Block]
    if remote is not None:
        contents = remote.run(partial(_read, uri, None), terminal, timeout_s)
    else:
        named = load_named(uri, source.targets, terminal, "resource", timeout_s=timeout_s)
        if named.values is None and getattr(named.tool, "template", None) is not None:
            raise CommandError(
                f"{named.name} is a template", "give a URI with values in place of the variables"
            )
        contents = _run(named, partial(_read, named.name, named.tool.definition), terminal, timeout_s)
    if as_json:
        terminal.json({"contents": contents})
    elif output is not None:
        _save(uri, contents, output, terminal)
    else:
        _print_contents(contents, terminal)
    return 0


async def _read(
    uri: str, definition: ToolDefinition | None, client: Client, options: RequestOptions
) -> list[Block]:
    """Return the contents of a resource, as MCP sends them. Raise CommandError."""
    try:
        contents = await client.read(uri, **options)
    except RemoteError as error:
        known = await list_remote_features(client, "resources")
        if not any(tool.name == uri or matches_template(tool, uri) for tool in known):
            raise UnknownNameError(error.message, suggest(uri, [tool.name for tool in known])) from None
        hint = None
        if definition is not None and error.message.startswith(_INVALID):
            hint = f"parameters: {signature(definition)}"
        raise FailedError(error.message, hint) from None
    return [
        {
            "uri": item.uri,
            **({} if item.mime_type is None else {"mimeType": item.mime_type}),
            **({"text": item.text} if item.data is None else {"blob": base64.b64encode(item.data).decode()}),
        }
        for item in contents
    ]


def _print_contents(contents: Sequence[Block], terminal: Terminal) -> None:
    """Print text, and write other content to a pipe or a file. Several contents have a heading each."""
    is_terminal = terminal.out.isatty()
    for item in contents:
        if len(contents) > 1:
            terminal.message("note", _describe(item))
        if "text" in item:
            text = str(item["text"])
            is_last = item is contents[-1]
            needs_end = not text.endswith("\n") and (is_terminal or not is_last)
            terminal.write(f"{text}\n" if needs_end else text)
        elif not is_terminal:
            terminal.write_bytes(_bytes_of(item))
        else:
            terminal.message("note", f"not shown: {_describe(item)}", "use -o FILE, a pipe or --json")
    if not contents:
        terminal.message("note", "the resource has no content")


def _save(uri: str, contents: Sequence[Block], output: Path, terminal: Terminal) -> None:
    if len(contents) != 1:
        text = f"{uri} has {len(contents)} contents, which do not fit into one file"
        raise CommandError(text, "use --json")
    data = _bytes_of(contents[0])
    output.write_bytes(data)
    terminal.message("note", f"{len(data)} bytes written to {output}")


def _describe(item: Block) -> str:
    size = len(_bytes_of(item))
    return one_line(f"{item['uri']}, {item.get('mimeType', 'unknown type')}, {size} bytes")


def _bytes_of(item: Block) -> bytes:
    if "text" in item:
        return str(item["text"]).encode("utf-8", "surrogatepass")
    blob: Any = item.get("blob", "")
    try:
        return base64.b64decode(blob, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise CommandError(f"The content of {item['uri']} is not valid base64", "--json shows it") from None


# --- prompt --------------------------------------------------------------------------------------------


@click.command(cls=CallCommand, examples=PROMPT)
@click.argument("name")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@source_options(target=True, static=False)
@arguments_option
@timeout_option
def prompt(
    terminal: Terminal,
    name: str,
    pairs: Sequence[str],
    source: ToolSource,
    as_json: str | None,
    timeout_s: float | None,
) -> int:
    """Get the messages of a prompt and print them.

    KEY=VALUE passes an argument. A single message of the user is printed as it is; several are printed below
    their roles. Exit code 0: success. 1: the prompt failed. 2: wrong usage or no such prompt.
    """
    given = {
        key: value if isinstance(value, str) else codec.encode_text(value)
        for key, value in read_arguments(pairs, as_json).items()
    }
    remote = source.remote
    data: dict[str, Any]
    if remote is not None:
        data = remote.run(partial(_get_prompt, name, given), terminal, timeout_s)
    else:
        named = load_named(name, source.targets, terminal, "prompt", timeout_s=timeout_s)
        data = _run(named, partial(_get_prompt, named.name, given), terminal, timeout_s)
    if as_json is not None:
        terminal.json(data)
    else:
        _print_messages(data["messages"], terminal)
    return 0


async def _get_prompt(
    name: str, arguments: Mapping[str, str], client: Client, options: RequestOptions
) -> dict[str, Any]:
    """Return description and messages of a prompt, as MCP sends them. Raise CommandError."""
    try:
        found = await client.get_prompt(name, arguments, **options)
    except RemoteError as error:
        known = {tool.name: tool for tool in await list_remote_features(client, "prompts")}
        if name not in known:
            raise UnknownNameError(f"Unknown prompt: {name}", suggest(name, known)) from None
        hint = f"parameters: {signature(known[name].definition) or 'none'}"
        raise FailedError(error.message, hint) from None
    messages = [{"role": item.role, "content": item.content} for item in found.messages]
    return {**({"description": found.description} if found.description else {}), "messages": messages}


def _print_messages(messages: Sequence[Any], terminal: Terminal) -> None:
    has_roles = len(messages) != 1 or messages[0]["role"] != "user"
    for position, message in enumerate(messages):
        if position:
            terminal.echo("")
        if has_roles:
            terminal.echo(style(f"{message['role']}:", bold=True))
        text = _format_block(message["content"])
        terminal.write(text if text.endswith("\n") else f"{text}\n")
    if not messages:
        terminal.message("note", "the prompt has no messages")


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


# --- the run -------------------------------------------------------------------------------------------


class UnknownNameError(CommandError):
    """A server does not know a name, or hides it from its caller."""


class FailedError(CommandError):
    """A resource or prompt that exists could not be read."""

    exit_code = 1


def _run(named: Named, work: Work[T], terminal: Terminal, timeout_s: float | None) -> T:
    """Return what `work` does with a client of a server that was loaded. Raise CommandError if the policy
    hides the tool."""
    server, tool = named.loaded.server, named.tool

    @asynccontextmanager
    async def connect(**settings: Any) -> AsyncIterator[Client]:
        with terminal.log.muted():  # problems of other tools are not shown
            await server.start()
        try:
            async with server.connect(**settings) as client:
                yield client
        finally:
            await server.stop()

    try:
        return run_client(connect, work, terminal, (timeout_s or MAX_TIMEOUT_S) + _GRACE_S)
    except UnknownNameError:
        # It exists; a user who has the file may know that it is the policy that hides it.
        hint = f"`toolcrib explain --as {LOCAL.name} {tool.reference}` shows which rule decides"
        text = f"The policy does not allow you to {_VERBS[tool.kind]} '{tool.name}'"
        raise CommandError(text, hint) from None


def _hint_for(result: Result, definition: ToolDefinition, given: Mapping[str, Any]) -> str | None:
    """Return a hint after invalid arguments: how to write a list or an object as JSON, or the parameters."""
    if not result.is_error or not result.text.startswith(_INVALID):
        return None
    for problem in Validator(definition.input_schema).problems(given):
        example = _JSON_EXAMPLES.get(problem.expected)
        if problem.field in given and example is not None:
            return f"give it as JSON: {problem.field}:='{example}'"
    return f"parameters: {signature(definition) or 'none'}"
