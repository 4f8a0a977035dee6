"""Objects as their constructors leave them, and functions with bound arguments."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from toolcrib.sources.scan.doors import server_maker
from toolcrib.sources.scan.lineage import ancestors, fields, find_member, is_dataclass, is_model, is_ours
from toolcrib.sources.scan.things import (
    UNKNOWN,
    Class,
    Function,
    Instance,
    Known,
    Lister,
    Listing,
    Pairs,
    Part,
    Said,
    Scope,
    Server,
    Super,
    Thing,
)

if TYPE_CHECKING:
    from toolcrib.sources.scan.expressions import Evaluator


def prepare(evaluator: Evaluator, instance: Instance) -> None:
    """Follow the constructor, which may set attributes and register tools."""
    if instance.is_prepared:
        return
    instance.is_prepared = True
    cls, said = instance.cls, instance.said
    member = find_member(cls, "__init__")
    if member is not None and isinstance(member.thing, Function):
        evaluator.enter(evaluator.bound(member.thing, instance), said or Said([], [], cls.scope, 0))
    elif is_dataclass(cls) or is_model(cls):
        given = iter(said.args if said is not None else ())
        for name, default, owner in fields(cls):
            node = next(given, None) or (said.keyword(name) if said is not None else None)
            if node is not None and said is not None:
                instance.attributes[name] = evaluator.of(node, said.scope)
            elif default is not None and is_model(cls):
                instance.attributes[name] = evaluator.of(default, owner.body)
    elif said is not None:
        begin(evaluator, instance, said)


def begin(evaluator: Evaluator, instance: Thing, said: Said) -> None:
    """The constructor of toolcrib's applications: the name is all that matters here."""
    if not isinstance(instance, Instance):
        return
    ours = [item for item in ancestors(instance.cls) if is_ours(item)]
    if not ours:
        return
    name = said.keyword("name")
    if name is None and said.args and isinstance(ours[0], Known) and ours[0].last == "Application":
        name = said.args[0]
    if name is not None and not (isinstance(name, ast.Constant) and name.value is None):
        instance.attributes["name"] = evaluator.of(name, said.scope)


def inherited(cls: Class, thing: Super, name: str) -> Thing:
    """What `super()` finds on toolcrib's own classes."""
    if not any(is_ours(item) for item in ancestors(cls)):
        return UNKNOWN
    if name == "list_tools" and isinstance(thing.holder, Instance):
        return Lister(thing.holder)
    return Known(f"toolcrib.Application.{name}")


def bind_parameters(
    evaluator: Evaluator, function: Function, said: Said | None, given: tuple[Thing, ...], scope: Scope
) -> None:
    """Give a function's parameters what it is called with."""
    arguments = function.node.args
    places = [*arguments.posonlyargs, *arguments.args]
    cls = function.scope.cls
    if cls is not None:
        scope.names["__class__"] = cls
    if cls is not None and places and "static" not in function.kinds:
        holder = function.holder or (cls if "class" in function.kinds else Instance(cls, is_prepared=True))
        scope.names["__self__"] = holder
        scope.names[places[0].arg] = holder
        places = places[1:]
    defaults = dict(zip([item.arg for item in reversed(places)], reversed(arguments.defaults), strict=False))
    defaults |= {
        item.arg: default
        for item, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is not None
    }
    queue: list[Thing | ast.expr] = [*given, *(said.args if said is not None else ())]
    for position, item in enumerate([*places, *arguments.kwonlyargs]):
        node: Thing | ast.expr | None = None
        if position < len(places) and position < len(queue):
            node = queue[position]
        elif said is not None:
            node = said.keyword(item.arg)
        if isinstance(node, ast.Starred):
            node = None
        if isinstance(node, Thing):
            scope.names[item.arg] = node
        elif node is not None and said is not None:
            scope.names[item.arg] = evaluator.of(node, said.scope)
        elif said is not None and item.arg in defaults:
            scope.names[item.arg] = evaluator.of(defaults[item.arg], function.scope)
        else:
            scope.names[item.arg] = _stranger(evaluator, item, function.scope)
    known = {item.arg for item in (*places, *arguments.kwonlyargs)}
    if arguments.vararg is not None:
        rest = queue[len(places) :]
        several = [item for item in rest if isinstance(item, ast.expr)] if said is not None else []
        is_whole = said is not None and len(several) == len(rest)
        scope.names[arguments.vararg.arg] = (
            Listing(node=ast.List(several, ast.Load()), scope=said.scope) if is_whole and said else UNKNOWN
        )
    if arguments.kwarg is not None:
        scope.names[arguments.kwarg.arg] = UNKNOWN if said is None else _others(evaluator, said, known)


def _others(evaluator: Evaluator, said: Said, known: set[str]) -> Thing:
    """The keywords that have no parameter of their own."""
    others = [item for item in said.keywords if item.arg not in known]
    if any(item.arg is None for item in others):
        return UNKNOWN
    parts = [
        Part(evaluator.of(item.value, said.scope), ast.Constant(item.arg), scope=said.scope)
        for item in others
    ]
    return Pairs(parts)


def _stranger(evaluator: Evaluator, parameter: ast.arg, scope: Scope) -> Thing:
    """A parameter that nobody gave: a server, where its annotation says so."""
    hint = parameter.annotation
    if isinstance(hint, ast.Constant) and isinstance(hint.value, str) and hint.value.isidentifier():
        hint = ast.Name(hint.value, ast.Load())
    if not isinstance(hint, ast.Name | ast.Attribute):
        return UNKNOWN
    maker = server_maker(evaluator.of(hint, scope))
    return UNKNOWN if maker is None else Server(maker)
