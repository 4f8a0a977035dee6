"""The reference pages of the documentation, made from the code when the site is built (`bench.site`).

Each page is one function that returns Markdown. The pages are not files: links lead to `reference/NAME`.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import re
import textwrap
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import toolcrib
from toolcrib import errors
from toolcrib.catalog.lint import OTHERS, RULES
from toolcrib.catalog.lint.run import GROUPS as RULE_GROUPS
from toolcrib.cli import COMMANDS, app
from toolcrib.config import Config
from toolcrib.config.fields import Setting, settings_of
from toolcrib.config.settings import Policy
from toolcrib.registry.selection import KINDS

MODULES = {
    "toolcrib.server": ["ServerSettings"],
    "toolcrib.registry.resources": ["ResourceFields"],
    "toolcrib.registry.prompts": ["PromptFields"],
    "toolcrib.registry.apps": ["AppFields"],
    "toolcrib.context": [
        "Answer",
        "Elicitation",
        "URLElicitation",
        "Sampling",
        "Roots",
        "SamplingResult",
        "Root",
        "RequestInfo",
    ],
    "toolcrib.client": [
        "Client",
        "RemoteTool",
        "RemoteResource",
        "RemoteTemplate",
        "ResourceContents",
        "RemotePrompt",
        "PromptArgument",
        "PromptResult",
        "PromptMessage",
        "Completion",
        "TaskHandle",
        "TaskStatus",
        "RemoteSkill",
        "SkillFile",
    ],
    "toolcrib.policy": ["Policy", "Rule", "Limit", "Auth", "OAuth", "Audit", "Telemetry"],
    "toolcrib.testing": [
        "client",
        "SyncClient",
        "connect",
        "fixture",
        "assert_definitions",
        "fuzz",
        "FuzzReport",
    ],
    "toolcrib.dispatch.middleware": ["Call"],
    "toolcrib.sources": ["Source", "Batch", "ReadOptions"],
    "toolcrib.catalog.export": ["export", "Export", "ExportedTool", "Exporter", "ProviderExporter"],
    "toolcrib.catalog.search": ["SearchIndex", "Hit"],
    "toolcrib.catalog.lint": ["inspect_tools", "Choice", "Rule", "LintedTool", "Problem"],
    "toolcrib.catalog.lock": ["Lock"],
    "toolcrib.catalog.tokens": ["cost_of", "estimate"],
    "toolcrib.sources.scan": ["scan"],
    "toolcrib.sources.descriptors": ["read_descriptors"],
    "toolcrib.schema.docstrings": ["parse_docstring"],
    "toolcrib.agents": ["AgentRunner", "SessionCtx", "Limits", "Provider", "Final", "Failure"],
    "toolcrib.logs": ["configure"],
}
"""Names beside those of `toolcrib` itself that pages of the documentation use."""
GROUPS = {
    "Servers and tools": "MCPServer tool Tool MCPTool ToolOptions ToolDefinition ToolRegistry Report collect",
    "Calls": "Context Depends Principal Result Image Audio File Link Message",
    "Applications": "Application APIApplication",
    "Catalogs and checks": "build_catalog get_catalog_cached Finding validate_tool_definition"
    " validate_tool_schema",
    "Exceptions": "ToolcribError DefinitionError ToolAlreadyExistsError ToolNotFoundError CallError ToolError"
    " APIError InvalidArgumentsError",
}
"""The names of `toolcrib.__all__`, in the order of the page."""


# --- the public API -----------------------------------------------------------------------------------


def render_api() -> str:
    lines = [
        "# Public API",
        "",
        "Names of `toolcrib` come first, those of other modules below. [Errors](errors.md) have a page.",
    ]
    for title, names in GROUPS.items():
        lines += ["", f"## {title}"]
        for name in names.split():
            lines += ["", *_describe(getattr(toolcrib, name), name, "toolcrib")]
    for module, found in MODULES.items():
        lines += ["", f"## {module}", *_docstring(importlib.import_module(module))]
        for name in found:
            lines += ["", *_describe(getattr(importlib.import_module(module), name), name, module)]
    return "\n".join(lines)


def _describe(thing: Any, name: str, module: str) -> Iterator[str]:
    anchor = name if module == "toolcrib" else f"{module.rpartition('.')[2]}.{name}"
    yield f"### {name} {{ #{anchor} }}"
    yield ""
    yield from _code(f"{_kind(thing)}{name}{_signature(thing)}")
    yield from _docstring(thing)
    if not inspect.isclass(thing):
        return
    for member, value in _members(thing):
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        yield ""
        if isinstance(function, property):
            yield f"**`{member}`**"
            yield from _docstring(function)
        else:
            is_async = "async " if inspect.iscoroutinefunction(function) else ""
            yield from _code(f"{is_async}{name}.{member}{_signature(function, method=True)}")
            yield from _docstring(function)


def _members(thing: type) -> Iterator[tuple[str, Any]]:
    """Return the documented public methods and properties of a class, inherited ones of toolcrib included."""
    seen: dict[str, Any] = {}
    for owner in reversed(thing.__mro__):
        if owner.__module__.startswith("toolcrib"):
            seen.update(vars(owner))
    for name, value in seen.items():
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        is_callable = inspect.isfunction(function) or isinstance(function, property)
        if name[0] != "_" and is_callable and (inspect.getdoc(function) or inspect.isfunction(function)):
            yield name, value


def _kind(thing: Any) -> str:
    return "class " if inspect.isclass(thing) else "async " if inspect.iscoroutinefunction(thing) else ""


def _signature(thing: Any, *, method: bool = False) -> str:
    """Return a signature on one line, or on several where it is long."""
    if typing.get_origin(thing) is not None or isinstance(thing, enum.EnumMeta):
        return ""
    if typing.is_typeddict(thing):  # options of a method: as that takes them
        items = (f"{key}: {hint.__forward_arg__}" for key, hint in thing.__annotations__.items())
        return _break(f"({', '.join(items)})")
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    parameters = list(signature.parameters.values())
    if method and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    returns = signature.return_annotation if not inspect.isclass(thing) else inspect.Signature.empty
    made = signature.replace(
        parameters=[_plain(item) for item in parameters if item.name[0] != "_"],
        return_annotation=_verbatim(returns),
    )
    text = str(made)
    return _break(text) if len(text) > 90 else text


class _Verbatim:
    """A text that a signature shows without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _verbatim(value: Any) -> Any:
    return _Verbatim(value) if isinstance(value, str) else value


def _plain(item: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter with its annotation as it is written, and a short default."""
    text = repr(item.default)
    is_long = item.default is not item.empty and (len(text) > 60 or text.startswith("<") or " at 0x" in text)
    default = _Verbatim("...") if is_long else item.default
    if isinstance(default, frozenset) and default:  # its own order differs from run to run
        default = _Verbatim("frozenset({" + ", ".join(map(repr, sorted(default))) + "})")
    return item.replace(annotation=_verbatim(item.annotation), default=default)


def _break(text: str) -> str:
    """Put each parameter on a line of its own."""
    depth, lines, current = 0, [], ""
    end = _find_end(text)
    for character in text[1:end]:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            lines.append(f"    {current.strip()},")
            current = ""
        else:
            current += character
    lines.append(f"    {current.strip()},")
    return "(\n" + "\n".join(lines) + "\n" + text[end:]


def _find_end(text: str) -> int:
    depth = 0
    for number, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return number
    return len(text)


def _code(text: str) -> list[str]:
    return ["```py", text, "```"]


def _docstring(thing: Any) -> Iterator[str]:
    text = (
        thing.__doc__ if inspect.isclass(thing) and thing.__doc__ and "__doc__" in vars(thing) else None
    ) or inspect.getdoc(thing)
    if text and not text.startswith(
        f"{getattr(thing, '__name__', '')}("
    ):  # that of a dataclass is its signature
        yield ""
        yield inspect.cleandoc(text)


def _summary(thing: Any) -> str:
    return " ".join(inspect.cleandoc(thing.__doc__ or "").partition("\n\n")[0].split())


# --- the command line ---------------------------------------------------------------------------------


def render_commands() -> str:
    lines = [
        "# Commands and options",
        "",
        "Every command with all its arguments and options, as `toolcrib COMMAND --help` shows them.",
        "[The command line](../cli.md) explains targets, output and exit codes.",
    ]
    context = click.Context(app, info_name="toolcrib")
    for name in COMMANDS:
        command = app.get_command(context, name)
        assert command is not None
        lines += _describe_command(command, f"toolcrib {name}", 2)
    return "\n".join(lines)


def _describe_command(command: click.Command, name: str, level: int) -> Iterator[str]:
    context = click.Context(command, info_name=name)
    yield from ("", f"{'#' * level} {name}", "")
    usage = " ".join(command.collect_usage_pieces(context))
    yield from ["```text", f"{name} {usage}", "```", ""]
    help_ = inspect.cleandoc((command.help or "").replace("\b", ""))
    yield help_
    options = [
        item
        for item in command.get_params(context)
        if isinstance(item, click.Option) and not item.hidden and "--help" not in item.opts
    ]
    if options:
        yield from ("", "| option | meaning |", "|---|---|")
        yield from map(_describe_option, options)
    if command.epilog:
        yield from ("", "```text", textwrap.dedent(command.epilog.replace("\b", "")).strip(), "```")
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from _describe_command(found, f"{name} {each}", level + 1)


def _describe_option(option: click.Option) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    value = (
        "" if option.is_flag or option.count else f" {option.make_metavar(click.Context(click.Command('')))}"
    )
    value = value.replace(" | ", " or ").replace("|", ", ")  # a cell cannot contain pipes
    more = " Repeatable." if option.multiple and "epeat" not in (option.help or "") else ""
    return f"| `{_cell(names + value)}` | {_cell(option.help or '')}{more} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


# --- settings ------------------------------------------------------------------------------------------


def render_settings() -> str:
    lines = [
        "# Settings of toolcrib.toml",
        "",
        "Every key of the file, with its type, limits and default. An unknown key or an invalid value is an",
        "error with file, line and key. Where no default is shown, the key is not set; the text of the",
        "section says what applies then. Paths are relative to the file.",
        "[The command line](../cli.md#toolcribtoml) shows an example.",
    ]
    tables: dict[str, list[tuple[str, Setting, Any]]] = {}
    sections = re.findall(r"(\[\w+\]): (.*?)(?=\n\[|\Z)", inspect.cleandoc(Config.__doc__ or ""), re.DOTALL)
    notes: dict[str, str] = dict(sections)
    for kind in (Config, Policy):
        _collect("", kind, tables, notes)
    for table, rows in tables.items():
        lines += ["", f"## {table} {{ #{re.sub('[^a-z]+', '-', table).strip('-')} }}", ""]
        if notes.get(table):
            lines += [notes[table], ""]
        lines += ["| key | type | default |", "|---|---|---|"]
        for key, item, default in rows:
            need = "required" if item.required else _show_default(default)
            lines.append(f"| `{key}` | {_cell(_show_type(item))} | {need} |")
    return "\n".join(lines)


def _collect(
    prefix: str, kind: Any, tables: dict[str, list[tuple[str, Setting, Any]]], notes: dict[str, str]
) -> None:
    defaults = {
        field.name: field.default_factory()
        if field.default_factory is not dataclasses.MISSING
        else field.default
        for field in dataclasses.fields(kind)
    }
    for item in settings_of(kind):
        key = f"{prefix}.{item.key}" if prefix else item.key
        nested = item.item_type or item.table_type
        if nested is not None:
            table = f"[[{key}]]" if item.item_type else f"[{key}]"
            notes[table] = inspect.cleandoc(nested.__doc__ or "")
            if item.table_type:
                tables[table] = []  # above the tables in it
            _collect(key, nested, tables, notes)
            tables.setdefault(table, tables.pop(f"[{key}]", []))
        elif "." in key:
            section, _, name = key.rpartition(".")
            tables.setdefault(f"[{section}]", []).append((name, item, defaults[item.name]))
        else:  # a table whose keys are the user's
            tables.setdefault(f"[{key}]", []).append(("NAME", item, defaults[item.name]))


def _show_type(item: Setting) -> str:
    hint = item.hint
    if typing.get_origin(hint) is typing.Literal:
        return "one of " + ", ".join(f'`"{value}"`' for value in typing.get_args(hint))
    origin = typing.get_origin(hint)
    name = {str: "string", int: "integer", float: "number", bool: "boolean", Path: "path"}.get(hint)
    if name is None:
        is_table = origin is not None and issubclass(origin, typing.Mapping)
        name = (
            "boolean" if item.pattern else "table" if is_table and item.name == "when" else "list of strings"
        )
    if item.expected != "a non-empty string":
        name = item.expected
    elif (item.convert is not None and "rate" in (item.name, *item.name.split("_"))) or item.name in (
        "requests",
        "max_failures",
    ):
        name = 'a rate such as `"60/min"`'
    bounds = [
        f"at least {item.least:g}" if item.least is not None else "",
        f"at most {item.most:,.15g}" if item.most is not None else "",
    ]
    return ", ".join(filter(None, [name, *bounds]))


def _show_default(default: Any) -> str:
    if default is None or default in ((), {}, []) or default is dataclasses.MISSING:
        return ""
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, tuple):
        return _cell(", ".join(f'`"{each}"`' for each in default))
    return f'`"{default}"`' if isinstance(default, str) else f"`{default}`"


# --- errors and findings --------------------------------------------------------------------------------


def render_errors() -> str:
    tree = inspect.cleandoc(errors.__doc__ or "").partition("\n\n")[2]
    drawn, _, rest = tree.partition("\n\n")
    lines = [
        "# Errors",
        "",
        "Every exception is a `ToolcribError` and has a stable `code`. Import them from `toolcrib.errors`.",
        "",
        "```text",
        textwrap.dedent(drawn),
        "```",
        "",
        " ".join(rest.split()),
        "",
        "| code | exception | meaning |",
        "|---|---|---|",
    ]
    summaries = dict(re.findall(r"(\w+Error)(?: \([\w, ]+\))? {2,}(\S.*)", drawn))
    summaries["ToolcribError"] = "Base class of all exceptions of toolcrib"
    for kind in _subclasses(errors.ToolcribError):
        text = summaries.get(kind.__name__) or _summary(kind)
        lines.append(f"| `{kind.code}` | `{kind.__name__}` | {_cell(text)} |")
    lines += [
        "",
        "Callers of a tool get a `CallError` as a result with `isError`. Those of a policy have `code` and",
        '`details` in `_meta["toolcrib/refusal"]`. [Serving](../serving.md#errors) has what clients get.',
    ]
    return "\n".join(lines)


def _subclasses(kind: type[errors.ToolcribError]) -> Iterator[type[errors.ToolcribError]]:
    yield kind
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            yield from _subclasses(each)


def render_findings() -> str:
    lines = [
        "# Findings",
        "",
        "`check`, `scan` and `serve` report problems as `file:line: level[code] message`. A code never",
        "changes its meaning. `toolcrib check --explain CODE` prints the same; [linting](../linting.md)",
        "says why each lint rule matters, and how to ignore one.",
        "",
        "## Lint rules",
        "",
        "| code | level | meaning | fix |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| `{rule.code}` | {rule.level} | {_cell(rule.summary)} | {_cell(rule.fix)} |"
        for rule in sorted(RULES.values(), key=lambda rule: rule.code)
    ]
    lines += ["", "## Reading and building", "", "| code | meaning |", "|---|---|"]
    lines += [f"| `{code}` | {_cell(text)} |" for code, text in sorted(OTHERS.items())]
    return "\n".join(lines)


PAGES = {
    "api.md": render_api,
    "commands.md": render_commands,
    "settings.md": render_settings,
    "errors.md": render_errors,
    "findings.md": render_findings,
}


def render(name: str) -> str:
    lines = [line.rstrip() for line in PAGES[name]().splitlines()]
    return "\n".join(lines) + "\n"


def render_rules() -> str:
    """Return the built-in lint rules as Markdown, for docs/linting.md."""
    lines = []
    for group, rules in RULE_GROUPS.items():
        lines += [
            f"### {group}",
            "",
            "| code | level | looks at | meaning | why it matters | fix |",
            "|---|---|---|---|---|---|",
        ]
        for rule in rules:
            kinds = (
                "everything"
                if len(rule.kinds) == len(KINDS)
                else ", ".join(f"{kind}s" for kind in rule.kinds)
            )
            kinds = kinds if rule.check or rule.check_all else "comments"
            fix = rule.fix.replace("|", "\\|")
            lines.append(f"| `{rule.code}` | {rule.level} | {kinds} | {rule.summary} | {rule.why} | {fix} |")
        lines.append("")
    lines += ["### From reading and building", "", "| code | meaning |", "|---|---|"]
    lines += [f"| `{code}` | {text} |" for code, text in OTHERS.items()]
    return "\n".join(lines) + "\n"
