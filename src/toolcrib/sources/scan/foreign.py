"""Turn functions on `mcp` and `fastmcp` servers into tools, as adopting the server would.

Parameters injected by the other library are left out, and its options are applied. Neither library is
loaded.
"""

from __future__ import annotations

import ast
import typing
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from toolcrib.definition import ToolOptions
from toolcrib.errors import DefinitionError, Finding, InvalidSignatureError, Location
from toolcrib.schema.function import Blueprint, build_blueprint, build_handler
from toolcrib.schema.parameters import EMPTY, Callee, check_parameters, words_of
from toolcrib.sources.foreign.adopting import is_any_list
from toolcrib.sources.foreign.recognition import PACKAGES
from toolcrib.sources.foreign.usage import find_gaps_in, find_refusals_in
from toolcrib.sources.scan.decorators import read_ours, read_theirs
from toolcrib.sources.scan.text import parse_annotation
from toolcrib.sources.scan.things import Function, Guess, Known, Made, Registration, Said, Scope, Server
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib.sources.scan.making import Workshop

_CONTENT = frozenset(
    {
        "Audio",
        "AudioContent",
        "CallToolResult",
        "ContentBlock",
        "EmbeddedResource",
        "File",
        "Image",
        "ImageContent",
        "InputRequiredResult",
        "ResourceLink",
        "TextContent",
        "ToolResult",
    }
)
_PRIMITIVES = (str, int, float, bool, bytes, type(None))
_DESCRIBED_BY_NONE = (*_PRIMITIVES, Any, object)
_OTHER = Guess("guessed-condition", "another one of its name may be registered instead")
_OUR_WORDS = frozenset(
    {"aliases", "destructive", "group", "idempotent", "input_schema", "open_world", "read_only", "scopes"}
)


def read_server(workshop: Workshop, server: Server) -> list[Tool]:
    """The tools of a server: of one name, the first counts with mcp and the last with fastmcp."""
    found: dict[str, Tool] = {}
    for registration in server.registrations:
        for tool in _adopt_one(workshop, server, registration):
            if tool.name in found:
                if any(guess.code == "guessed-condition" for guess in registration.guesses):
                    workshop.doubt(found[tool.name].origin, [_OTHER])
                    continue  # one of them is enough
                workshop.findings.append(_taken(tool, found[tool.name], server))
            if tool.name not in found or server.maker == "fastmcp":
                found[tool.name] = tool
    for name in server.removed:
        found.pop(name, None)
    for mount in server.mounts:
        for tool in workshop.tools_of(mount.server):
            workshop.doubt(tool.origin, [*mount.guesses, *server.guesses])
            name = f"{mount.space}_{tool.name}" if mount.space else tool.name
            found.setdefault(name, tool.with_options(name=name) if name != tool.name else tool)
    return list(found.values())


def _adopt_one(workshop: Workshop, server: Server, registration: Registration) -> Iterator[Tool]:
    thing, said = registration.thing, registration.said
    guesses = [*registration.guesses, *server.guesses]
    maker = _maker_of(server, said)
    if isinstance(thing, Made):
        made = workshop.make(thing, guesses)
    elif not isinstance(thing, Function):
        made = None
    elif maker == "toolcrib":
        made = _ours(workshop, thing, said)
    else:
        if maker == "mcp" and not said.is_called and server.maker == "mcp":
            guesses.append(Guess("guessed-decorator", "the tool() of mcp has to be called: @mcp.tool()"))
        made = workshop.adopt(thing, said, maker)
        if made is None:
            return
    if not isinstance(made, Tool):
        workshop.refuse_unknown(registration)
        return
    workshop.doubt(made.origin, guesses)
    yield made


def _ours(workshop: Workshop, function: Function, said: Said) -> Tool | None:
    """Return a tool of an unknown server, by our own rules."""
    stub = workshop.stub(function)
    options, findings = read_ours(workshop.evaluator, said)
    workshop.note(stub, (), findings)
    try:
        return Tool.from_function(stub, **options)
    except DefinitionError as error:
        workshop.refuse(error, said)
        return None


def _maker_of(server: Server, said: Said) -> str:
    """Whose rules hold. For a server from elsewhere, what is imported beside it tells, and how it is used."""
    if server.maker != "unknown":
        return server.maker
    words = {item.arg for item in said.keywords}
    if len(said.args) > 1 or words & _OUR_WORDS:
        return "toolcrib"
    packages = _packages_in(said.scope)
    return next((name for name in ("fastmcp", "mcp", "toolcrib") if name in packages), "mcp")


def _packages_in(scope: Scope) -> set[str]:
    found: set[str] = set()
    for statement in scope.module.file.tree.body:
        if isinstance(statement, ast.ImportFrom) and not statement.level:
            found.add((statement.module or "").partition(".")[0])
        elif isinstance(statement, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in statement.names}
    return found


def _taken(tool: Tool, holder: Tool, server: Server) -> Finding:
    last = server.maker == "fastmcp"
    return Finding(
        "duplicate-name",
        "error",
        f"Tool '{tool.name}' is registered twice on one server: the {'last' if last else 'first'} one counts",
        tool=tool.name,
        file=tool.source.file,
        line=tool.source.line,
        hint=f"the first one is at {holder.source}; rename one",
    )


# --- one function ------------------------------------------------------------------------------------


def adopt(workshop: Workshop, function: Function, said: Said, maker: str) -> Tool:
    """The tool that adopting would make of a function. Raises DefinitionError where it would refuse it."""
    theirs = read_theirs(workshop.evaluator, said, maker)
    reader = _HintNames(workshop, function)
    filled = reader.filled(function.node.args)
    made = workshop.make_stub(function, drops={*filled, *theirs.hidden})
    stub: Any = made.function
    contexts = [*made.contexts, *(name for name, kind in filled.items() if kind == "context")]
    is_theirs, doubt = reader.judge_result(function.node.returns)
    findings = [item for item in made.findings if not (is_theirs and item.parameter == "return")]
    if is_theirs or not theirs.is_structured or _is_unsaid(stub.__annotations__.get("return"), maker):
        stub.__annotations__.pop("return", None)
    workshop.note(stub, workshop.key_of(function), [*findings, *theirs.findings], [*function.guesses, *doubt])
    name = theirs.options.get("name") or function.node.name
    options = ToolOptions(**theirs.options | {"name": name})
    if theirs.description is not None and _words(theirs.description) not in _words(words_of(stub)):
        options = replace(options, description=theirs.description)
    callee = Callee(stub)
    _refuse_uses(function, contexts, name, callee.source)
    check_parameters(callee, name)
    stated = theirs.stated

    def build(callee: Callee, name: str, options: ToolOptions) -> Blueprint:
        try:
            blueprint = build_blueprint(callee, name, options)
        except DefinitionError as error:
            return _permit(callee, name, options, error)
        for parameter in contexts:
            blueprint.findings += _gaps(function, parameter, name, callee.source)
        if stated is not None and options.output_schema is None:
            return replace(blueprint, output_schema=stated, dump=None, trusted=False)
        said_of = callee.function.__annotations__.get("return")
        if (
            blueprint.output_schema is None
            and isinstance(said_of, type)
            and said_of not in _DESCRIBED_BY_NONE
        ):
            words = f"The result of tool '{name}' may be described by the other library"
            place = callee.source
            blueprint.findings.append(
                Finding("guessed-result", "advice", words, name, "return", place.file, place.line)
            )
        return blueprint

    return Tool(callee, name, options, build, stub)


class _HintNames:
    """The names in an annotation, and whose they are."""

    def __init__(self, workshop: Workshop, function: Function) -> None:
        self.evaluator = workshop.evaluator
        self.scope = function.scope
        self.reader = function.scope.module.reader
        self.names = workshop.hint_names.setdefault(self.scope, {})

    def filled(self, arguments: ast.arguments) -> dict[str, str]:
        """The parameters that the other library fills in, and with what: a context, or something else."""
        places = [*arguments.posonlyargs, *arguments.args]
        missing: list[ast.expr | None] = [None] * (len(places) - len(arguments.defaults))
        pairs = [
            *zip(places, [*missing, *arguments.defaults], strict=True),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        kinds = {item.arg: self._kind(item.annotation, default) for item, default in pairs}
        return {name: kind for name, kind in kinds.items() if kind is not None}

    def _kind(self, hint: ast.expr | None, default: ast.expr | None) -> str | None:
        """What the other library puts into a parameter of this kind; None where callers give it."""
        for name in self.known(hint):
            if name.package in ("mcp", "fastmcp") and name.last == "Context":
                return "context"
            if name.package in PACKAGES and name.last == "Resolve":
                return "something"
        if isinstance(default, ast.Call):
            made = self.evaluator.of(default.func, self.scope)
            if isinstance(made, Known) and made.package == "fastmcp":
                return "context" if made.last == "CurrentContext" else "something"
        return None

    def judge_result(self, hint: ast.expr | None) -> tuple[bool, list[Guess]]:
        """Whether a result hint is one that only the other library reads, and the doubt that is in it."""
        theirs = [name for name in self.known(hint) if name.package in PACKAGES]
        strange = [name.last for name in theirs if name.last not in _CONTENT]
        words = f"its result is described by {strange[0]} of the other library" if strange else ""
        return bool(theirs), [Guess("guessed-result", words)] if strange else []

    def known(self, hint: ast.expr | None) -> Iterator[Known]:
        """Everything in an annotation that is of a package that is not read."""
        waiting: list[ast.AST] = [] if hint is None else [hint]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Name):
                if node.id not in self.names:
                    self.names[node.id] = self._meant(node)
                thing = self.names[node.id]
            elif isinstance(node, ast.Attribute):
                thing = self._meant(node)
            elif isinstance(node, ast.Constant):
                if isinstance(node.value, str) and node is hint:
                    inner = parse_annotation(node.value, node.lineno)
                    yield from self.known(inner if not isinstance(inner, ast.Constant) else None)
                continue
            else:
                waiting += ast.iter_child_nodes(node)
                continue
            if thing is not None:
                yield thing

    def _meant(self, node: ast.Name | ast.Attribute) -> Known | None:
        thing = self.evaluator.of(node, self.scope)
        if isinstance(thing, Known):
            return thing if thing.package != "builtins" else None
        name = self.reader.qualify(node)
        return Known(name) if name is not None and name.partition(".")[0] in PACKAGES else None


def _permit(callee: Callee, name: str, options: ToolOptions, error: DefinitionError) -> Blueprint:
    """What is known of a tool that keeps the schema of the other library, which only that library makes."""
    names: dict[str, Any] = {item.name: {} for item in callee.parameters}
    required = [item.name for item in callee.parameters if item.default is EMPTY]
    schema = {"type": "object", "properties": names, "required": required}
    blueprint = build_handler(callee, name, replace(options, input_schema=schema))
    words = f"Tool '{name}' keeps the schema of the other library, which is not known here: {error}"
    place = callee.source
    blueprint.findings.append(
        Finding("guessed-schema", "warning", words, name, None, place.file, place.line, error.hint)
    )
    return blueprint


def _is_unsaid(hint: Any, maker: str) -> bool:
    """Whether the other library describes no result of this hint."""
    if hint is None or is_any_list(hint):
        return hint is not None
    bare = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint
    if maker == "fastmcp":
        arms = typing.get_args(bare) if typing.get_origin(bare) else (bare,)
        return bytes in arms and not isinstance(bare, type(list[int]))
    if not isinstance(bare, type) or typing.get_origin(bare) is not None or bare in _PRIMITIVES:
        return False
    if hasattr(bare, "model_fields") or typing.is_typeddict(bare):
        return False
    try:
        return not typing.get_type_hints(bare)  # nothing says what is in it
    except Exception:
        return False


def _refuse_uses(function: Function, contexts: list[str], name: str, source: Location) -> None:
    for parameter in contexts:
        found = dict(find_refusals_in(function.node, parameter))
        if found:
            why = next(iter(found.values()))
            raise InvalidSignatureError(
                f"Tool '{name}' uses {', '.join(found)}, which toolcrib cannot give it: {why}",
                tool=name,
                parameter=parameter,
                source=source,
                hint="leave it to the other server, or do without",
            )


def _gaps(function: Function, parameter: str, name: str, place: Location) -> Iterator[Finding]:
    for written, why in dict(find_gaps_in(function.node, parameter)).items():
        words = f"Tool '{name}' uses {written}, which {why}"
        yield Finding("foreign-request", "warning", words, name, parameter, place.file, place.line)


def _words(text: str | None) -> str:
    return " ".join((text or "").split())
