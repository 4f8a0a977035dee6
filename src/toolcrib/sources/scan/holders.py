"""Stand-ins for what holds tools: applications, tool objects, and tables of definitions.

They have stubs for functions and nothing that is computed, so that the ordinary code reads them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from toolcrib.component import SPELLINGS
from toolcrib.errors import DefinitionError, Finding
from toolcrib.sources.applications import Application
from toolcrib.sources.objects import TOOL_ATTRIBUTES
from toolcrib.sources.scan.patterns import found_at
from toolcrib.sources.scan.resolve import Class, Data, Function, Instance, Known, Thing
from toolcrib.sources.scan.source_file import FUNCTIONS
from toolcrib.sources.scan.values import Unresolved

if TYPE_CHECKING:
    from toolcrib.sources.scan.making import ToolMaker

_UNREAD = (Unresolved, RecursionError)
_AS_ATTRIBUTE = "write it down as an attribute of the class"


def build(maker: ToolMaker, cls: Class) -> Any:
    """Return the stand-in for an object of a class; None if it holds no tools, a list if they are unknown."""
    if is_application(maker, cls):
        return _build_application(maker, cls)
    return _build_object(maker, cls) if _is_tool_object(maker, cls) else None


def holds_tools(maker: ToolMaker, cls: Class) -> bool:
    return is_application(maker, cls) or _is_tool_object(maker, cls)


def is_complete(maker: ToolMaker, cls: Class) -> bool:
    """Return whether a class holds tools and is there to be used, not to be inherited from."""
    resolver = maker.resolver
    members = [resolver.member(cls, name) for item in resolver.classes(cls) for name in item.body.names]
    methods = [member for member in members if isinstance(member, Function)]
    is_abstract = any("abstract" in resolver.kinds(item.node, item.scope) for item in methods)
    if cls.node.name.startswith("_") or is_abstract:
        return False
    if is_application(maker, cls):
        return True
    is_model = any(isinstance(item, Known) and item.package == "pydantic" for item in resolver.ancestors(cls))
    has_parts = any(all(resolver.member(cls, part) for part in names) for names in TOOL_ATTRIBUTES)
    thing = resolver.member(cls, "name") or resolver.member(cls, "Name")
    is_unnamed = isinstance(thing, Data) and isinstance(thing.node, ast.Constant) and not thing.node.value
    return has_parts and not is_model and not is_unnamed


# --- tool objects ------------------------------------------------------------------------------------


def _is_tool_object(maker: ToolMaker, cls: Class) -> bool:
    return all(_find(maker, cls, spellings) for spellings in SPELLINGS.values())


def _find(maker: ToolMaker, cls: Class, spellings: Iterable[str]) -> str | None:
    """Return the attribute that holds a part of a tool object."""
    resolver = maker.resolver
    statements = [item for each in resolver.classes(cls) for item in each.node.body]
    fields = {getattr(item.target, "id", "") for item in statements if isinstance(item, ast.AnnAssign)}
    for name in spellings:
        if name in fields or resolver.member(cls, name) is not None or resolver.assigned(cls, name):
            return name
    return None


def _build_object(maker: ToolMaker, cls: Class) -> Any:
    """Return a stand-in with the parts of a tool object; a list where its name or handler cannot be read."""
    made = type(cls.node.name, (), {})()
    defaults: dict[str, Any] = {"description": "", "input_schema": {"type": "object", "properties": {}}}
    findings: list[Finding] = []
    for part, spellings in (*SPELLINGS.items(), ("output_schema", ("output_schema", "OutputSchema"))):
        name = _find(maker, cls, spellings)
        if name is None:
            continue
        thing = maker.resolver.attribute(maker.resolver.instance(cls), name)
        try:
            is_handler = part == "execute" and isinstance(thing, Function)
            setattr(made, part, maker.stub(thing) if is_handler else maker.data_of(thing))  # type: ignore[arg-type]
        except _UNREAD:
            findings.append(_unread(f"The {part} of {cls.node.name}", cls, "unresolved-part"))
            if part in defaults:
                setattr(made, part, defaults[part])
    if not hasattr(made, "name") or not hasattr(made, "execute"):
        maker.findings += findings
        return []
    maker.note(made, [*findings, *maker.note(made.execute).findings], (id(cls),))
    maker.mark(cls.node, made, type(made))
    return made


def _unread(what: str, cls: Class, code: str) -> Finding:
    text = f"{what} cannot be told without running the code"
    return found_at(code, "warning", text, cls.scope, cls.line, _AS_ATTRIBUTE)


# --- applications ------------------------------------------------------------------------------------


def is_application(maker: ToolMaker, cls: Class) -> bool:
    """Return whether objects of a class list tools; a client that waits for a server's list does not."""
    resolver = maker.resolver
    member = resolver.member(cls, "list_tools")
    if member is not None:
        if resolver.library_of(cls) is not None or not isinstance(member, Function):
            return False
        return not resolver.kinds(member.node, member.scope) & {"async", "property"}
    marks = maker.patterns.marks
    has_marks = any(id(item) in marks and isinstance(item, FUNCTIONS) for item in cls.node.body)
    return _is_ours(maker, cls) or (has_marks and bool(resolver.unread_bases(cls)))


def _is_ours(maker: ToolMaker, cls: Class) -> bool:
    return any(isinstance(item, Known) and item.is_application for item in maker.resolver.ancestors(cls))


def _build_application(maker: ToolMaker, cls: Class) -> Any:
    """Return a stand-in whose `list_tools` returns stubs of the methods."""
    resolver = maker.resolver
    lister, is_ours = resolver.member(cls, "list_tools"), _is_ours(maker, cls)
    unread_bases = resolver.unread_bases(cls)
    if unread_bases and not isinstance(lister, Function) and not is_ours:
        text = f"Tools of {cls.node.name} may come from {unread_bases[0]}, which is not read"
        maker.report("guessed-base", "advice", text, cls.scope, cls.line, "scan it too")
    names_methods = is_ours
    listed = list(_marked(maker, cls))
    if isinstance(lister, Function):
        listed = list(_listed(maker, resolver.function(lister.node, lister.scope, cls), cls))
        names = {item.attr for item in ast.walk(lister.node) if isinstance(item, ast.Attribute)}
        methods = [resolver.member(cls, name) for name in names - {"list_tools"}]
        names_methods |= any(isinstance(item, Function) for item in methods)
    made: list[Any] = []
    is_whole = True
    for thing in listed:
        if isinstance(thing, Function) and thing.owner is not None:  # it may be overridden
            thing = resolver.attribute(resolver.instance(cls), thing.node.name)
        found = maker.make(thing) if isinstance(thing, Function | Instance) else None
        is_whole &= found is not None
        made += found if isinstance(found, list) else [] if found is None else [found]
    if not is_whole and (made or names_methods):  # else it hands on what it was given
        text = f"{cls.node.name}.list_tools() builds its list in a way that cannot be followed to its end"
        hint = "return a list of methods: [self.first, self.second]"
        line = lister.line if isinstance(lister, Function) else cls.line
        maker.report("guessed-list", "warning", text, cls.scope, line, hint)
    if not made and not is_whole:
        return []
    facts: dict[str, Any] = {"list_tools": lambda _: list(made)}
    for key in ("name", "namespace"):
        value = resolver.attribute(resolver.instance(cls), key)
        try:
            if isinstance(value, Data) and (text := maker.data_of(value)) is not None:
                facts[key] = text
        except _UNREAD:
            if key == "namespace":
                what = f"The namespace of {cls.node.name}"
                maker.findings.append(_unread(what, cls, "guessed-name"))
    stand_in: Any = type(cls.node.name, (Application,) if is_ours else (), facts)
    return stand_in.__new__(stand_in)


def _listed(maker: ToolMaker, lister: Function, cls: Class) -> Iterator[Thing]:
    for item in maker.resolver.returned_items(lister):
        function = item.node.func if isinstance(item.node, ast.Call) else None
        if not item.is_open and getattr(function, "attr", "") != "list_tools":
            yield maker.resolver.resolve(item.node, item.scope)
        elif item.is_open or not _is_ours(maker, cls):
            yield item
        else:  # super().list_tools()
            yield from _marked(maker, cls)


def _marked(maker: ToolMaker, cls: Class) -> Iterator[Thing]:
    """The public methods that `@tool` marks: inherited ones first, each where it is first defined."""
    classes = reversed(maker.resolver.classes(cls))
    names = {name: several[-1] for item in classes for name, several in item.body.names.items()}
    for name, binding in names.items():
        if name[0] != "_" and id(binding.node) in maker.patterns.marks:
            yield maker.resolver.attribute(maker.resolver.instance(cls), name)


# --- tables ------------------------------------------------------------------------------------------


def read_table(maker: ToolMaker, name: str, item: Data) -> Any:
    """Return a table of definitions or handlers as importing would find it, with stubs for functions. An
    entry of which a part is computed is left out, with a finding; a table that is computed is None."""
    thing = maker.resolver.resolve(item.node, item.scope)
    node = thing.node if isinstance(thing, Data) else None
    is_written = isinstance(node, ast.Dict | ast.List | ast.Tuple | ast.Set | ast.BinOp)
    made: dict[Any, Any] = {}
    for position, part in enumerate(maker.resolver.items(item.node, item.scope) if is_written else [item]):
        try:
            if not is_written:
                return maker.data_of(thing)
            key = position if part.key is None else maker.data_of(Data(part.key, part.scope))
            made[key] = maker.data_of(part, is_table=True)
            entry = maker.resolver.resolve(part.node, part.scope)
            maker.tabled.add(id(getattr(getattr(entry, "call", None), "node", None)))
        except (*_UNREAD, DefinitionError, TypeError):
            text = f"A part of {name} cannot be told without running the code"
            hint = "write the definitions down in the table"
            line = getattr(part.key or part.node, "lineno", None)
            maker.report("guessed-table", "warning", text, part.scope, line, hint)
    return (made if isinstance(node, ast.Dict) else list(made.values())) if is_written else None
