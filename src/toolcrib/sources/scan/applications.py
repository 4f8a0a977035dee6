"""Applications read from their classes: the methods that `list_tools` returns, and their namespace."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from toolcrib.errors import Finding
from toolcrib.sources.applications import Application
from toolcrib.sources.scan.lineage import (
    ancestors,
    find_member,
    guess_of_bases,
    is_abstract,
    is_ours,
    unread_bases,
)
from toolcrib.sources.scan.objects import is_tool_class
from toolcrib.sources.scan.remarks import Unresolved
from toolcrib.sources.scan.things import Class, Function, Instance, Lister, Listing, Pairs, Said, Thing, Value

if TYPE_CHECKING:
    from toolcrib.sources.scan.making import Workshop


def is_application(cls: Class) -> bool:
    """Whether instances list tools; one that asks a server for them, which takes waiting, is none."""
    member = find_member(cls, "list_tools")
    if member is not None:
        return isinstance(member.thing, Function) and not member.thing.kinds & {"async", "property"}
    if any(is_ours(item) for item in ancestors(cls)):
        return True
    return bool(unread_bases(cls)) and _marks_methods(cls)


def _marks_methods(cls: Class) -> bool:
    return any(isinstance(thing, Function) and thing.mark is not None for thing in cls.body.names.values())


def is_complete(cls: Class) -> bool:
    """Whether a class holds tools and is there to be used, not to be inherited from."""
    if cls.node.name.startswith("_") or is_abstract(cls):
        return False
    if is_application(cls):
        return True
    if not is_tool_class(cls):
        return False
    member = find_member(cls, "name") or find_member(cls, "Name")
    thing = member.thing if member is not None else None
    if isinstance(thing, Value) and isinstance(thing.node, ast.Constant):
        return bool(thing.node.value)
    return thing is not None


def build_application(workshop: Workshop, instance: Instance) -> Any:
    """A stand-in that lists stubs of the methods."""
    cls = instance.cls
    evaluator = workshop.evaluator
    lister = evaluator.of_instance(instance, "list_tools")
    guesses = list(cls.guesses)
    listing: Thing
    if isinstance(lister, Function):
        listing = evaluator.enter(lister, Said([], [], cls.scope, cls.line))
    else:
        if not isinstance(lister, Lister) and (guess := guess_of_bases(cls, "its list of tools")):
            guesses.append(guess)
        listing = evaluator.calls.marked_methods(instance)
    if instance.said is None and find_member(cls, "__init__") is None:
        guess = guess_of_bases(cls, "how it is made")
        if guess is not None and guess not in guesses:
            guesses.append(guess)
    made: list[Any] = []
    is_whole = True
    for part in evaluator.items(listing):
        thing = None if part.is_many else workshop.make(part.thing, (*guesses, *part.guesses))
        if thing is None:
            is_whole = False
        elif isinstance(thing, list):
            made += thing
        else:
            made.append(thing)
    if not is_whole:
        workshop.findings.append(_cannot_follow(cls))
    return _stand_in(workshop, instance, made) if made or is_whole else []


def _stand_in(workshop: Workshop, instance: Instance, listed: list[Any]) -> Any:
    cls = instance.cls
    ours = any(is_ours(item) for item in ancestors(cls))
    lists: Callable[[Any], list[Any]] = lambda _: list(listed)  # noqa: E731 - it becomes a method
    facts: dict[str, Any] = {"list_tools": lists}
    for key in ("name", "namespace"):
        thing = workshop.evaluator.of_instance(instance, key)
        if isinstance(thing, Value | Listing | Pairs):
            try:
                facts[key] = workshop.evaluator.data_of(thing)
            except (Unresolved, RecursionError):
                if key == "namespace":
                    workshop.findings.append(_no_namespace(cls))
    made: Any = type(cls.node.name, (Application,) if ours else (), facts)
    return made.__new__(made)


def _cannot_follow(cls: Class) -> Finding:
    return Finding(
        "guessed-list",
        "warning",
        f"{cls.node.name}.list_tools() builds its list in a way that cannot be followed to its end",
        file=str(cls.scope.module.file.path),
        line=cls.line,
        hint="return a list of methods: [self.first, self.second]",
    )


def _no_namespace(cls: Class) -> Finding:
    return Finding(
        "guessed-name",
        "warning",
        f"The namespace of {cls.node.name} cannot be told without running the code",
        file=str(cls.scope.module.file.path),
        line=cls.line,
        hint="write it down as an attribute of the class",
    )
