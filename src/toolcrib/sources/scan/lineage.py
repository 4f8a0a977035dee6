"""Bases, members and constructor parameters of classes.

Bases outside the scanned files are known by name only, except for toolcrib's own applications.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from toolcrib.sources.scan.things import Class, Function, Guess, Known, Thing, Unknown

APPLICATIONS = frozenset({"Application", "APIApplication"})
_PLAIN = frozenset({"builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol", "typing.NamedTuple"})
Ancestor = Class | Known | Unknown


@dataclass(frozen=True, slots=True)
class Member:
    """Something a class has, and which class has it."""

    owner: Class
    thing: Thing


def ancestors(cls: Class) -> list[Ancestor]:
    """A class and its bases in the order that Python asks them; nearly so where that order has no rules."""
    found: list[Ancestor] = []
    _gather(cls, found, set())
    # A base that several classes share comes behind all of them.
    last = {_key(item): position for position, item in enumerate(found)}
    return [item for position, item in enumerate(found) if last[_key(item)] == position]


def _gather(cls: Class, found: list[Ancestor], active: set[int]) -> None:
    found.append(cls)
    if id(cls) in active or len(found) > 200:
        return
    for base in cls.bases:
        if isinstance(base, Class):
            _gather(base, found, active | {id(cls)})
        elif isinstance(base, Known):
            found.append(base)
        else:
            found.append(Unknown())


def _key(item: Ancestor) -> int | str:
    return item.name if isinstance(item, Known) else id(item)


def find_member(cls: Class, name: str, *, after: Class | None = None) -> Member | None:
    """What `name` means on a class, or on what comes after one of its bases, as `super()` asks."""
    line = ancestors(cls)
    if after is not None and after in line:
        line = line[line.index(after) + 1 :]
    for item in line:
        if isinstance(item, Class) and name in item.body.names:
            return Member(item, item.body.names[name])
    return None


def is_ours(item: Ancestor) -> bool:
    """Whether this is toolcrib's own class for applications."""
    return isinstance(item, Known) and item.package == "toolcrib" and item.last in APPLICATIONS


def is_model(cls: Class) -> bool:
    """Whether its class attributes are fields, and no attributes of the class."""
    return any(isinstance(item, Known) and item.name.startswith("pydantic.") for item in ancestors(cls))


def unread_bases(cls: Class) -> list[str]:
    """Bases that nothing is known of; "?" where not even the name is."""
    return [
        item.name if isinstance(item, Known) else "?"
        for item in ancestors(cls)
        if isinstance(item, Unknown)
        or (isinstance(item, Known) and item.name not in _PLAIN and not is_ours(item))
    ]


def guess_of_bases(cls: Class, what: str) -> Guess | None:
    """The guess that lies in not having read a base, where there is such a base."""
    unread = unread_bases(cls)
    if not unread:
        return None
    return Guess("guessed-base", f"{what} may come from {unread[0]}, which was not read", cls.line)


def is_abstract(cls: Class) -> bool:
    """Whether it has methods that a subclass must write, and is of the kind that insists on it."""
    line = ancestors(cls)
    insists = any(
        isinstance(item, Known) and item.name in ("abc.ABC", "typing.Protocol") for item in line
    ) or any(
        keyword.arg == "metaclass" and ast.unparse(keyword.value).endswith("ABCMeta")
        for item in line
        if isinstance(item, Class)
        for keyword in item.node.keywords
    )
    if not insists:
        return False
    missing: set[str] = set()
    for item in reversed(line):
        if not isinstance(item, Class):
            continue
        for name, thing in item.body.names.items():
            if isinstance(thing, Function) and "abstract" in thing.kinds:
                missing.add(name)
            else:
                missing.discard(name)
    return bool(missing)


def is_dataclass(cls: Class) -> bool:
    return any(_last(item).startswith("dataclass") for item in cls.node.decorator_list)


def _last(node: ast.expr) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def fields(cls: Class) -> Iterator[tuple[str, ast.expr | None, Class]]:
    """The fields of a dataclass or model with their defaults, bases first."""
    found: dict[str, tuple[ast.expr | None, Class]] = {}
    for item in reversed(ancestors(cls)):
        if not isinstance(item, Class):
            continue
        for statement in item.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                found[statement.target.id] = (statement.value, item)
    for name, (default, owner) in found.items():
        yield name, default, owner


def needs_arguments(cls: Class) -> bool:
    """Whether it cannot be made without arguments."""
    member = find_member(cls, "__init__")
    if member is None:
        if is_dataclass(cls) or is_model(cls):
            return any(default is None for _, default, _ in fields(cls))
        return False
    if not isinstance(member.thing, Function):
        return False
    arguments = member.thing.node.args
    places = [*arguments.posonlyargs, *arguments.args][1:]
    required = len(places) - len(arguments.defaults)
    return required > 0 or any(default is None for default in arguments.kw_defaults)
