"""Completion: values for the arguments of prompts and of resource templates.

They come from a function per argument (`@prompt.complete("city")`), or else from the hints: `Literal`, enums
and bool. A function takes `value`, what the user has typed, and may take other arguments of the prompt by
their names, as far as they are known.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

from toolcrib.component import Component, Tool
from toolcrib.content import Result
from toolcrib.errors import InvalidToolError
from toolcrib.schema.parameters import name_of
from toolcrib.schema.result import ToolResults
from toolcrib.validation.schema_tree import Resolver

logger = logging.getLogger("toolcrib")
MAX_VALUES = 100
TIMEOUT_S = 1.0
_MAX_LENGTH = 1_000
Completers = dict[str, Component]
F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class Completed(Protocol[P, R]):
    """A function behind a prompt or a resource: itself, with a decorator for functions that complete its
    arguments."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def complete(self, argument: str) -> Callable[[F], F]: ...


class Completable(Protocol):
    """A prompt or a resource: it has arguments, and functions that complete them."""

    name: str
    completers: Completers

    @property
    def arguments(self) -> Any: ...


class Completions(NamedTuple):
    """The best values, and how many there are in all."""

    values: list[str]
    total: int


def names_of(target: Completable) -> Collection[str]:
    """Return what can be completed: the variables of a template, or the arguments of a prompt."""
    template = getattr(target, "template", None)
    names: Collection[str] = target.arguments.schema["properties"] if template is None else template.variables
    return names


class CompleterResults(ToolResults):
    kind = "Completion function"
    __slots__ = ()

    def finish(self, value: Any) -> Result:
        if isinstance(value, str):
            error = self._error("it is a string; return a list of strings")
            logger.error("%s", error)  # callers are users who type
            raise error
        return super().finish(value)


def completer_of(target: Completable, argument: str) -> Callable[[F], F]:
    """Return a decorator for the function that completes an argument. Raises InvalidToolError."""
    known = list(names_of(target))
    if argument not in known:
        hint = f"arguments: {', '.join(known) or 'none'}"
        raise InvalidToolError(f"'{target.name}' has no argument '{argument}'", tool=target.name, hint=hint)

    def register(function: F) -> F:
        made = Tool.from_function(function, name=f"complete_{argument}", timeout_s=TIMEOUT_S)
        parameters = made.arguments.schema["properties"]
        if "value" not in parameters:
            hint = "its first parameter is the text so far: def complete(value: str) -> list[str]"
            raise InvalidToolError(
                "A completion function needs a parameter 'value'", source=made.source, hint=hint
            )
        for name in parameters.keys() - {"value", "arguments"} - set(known):
            hint = f"it may take value, arguments and: {', '.join(known)}"
            raise InvalidToolError(f"A completion function takes '{name}'", source=made.source, hint=hint)
        results, label = made.results, name_of(function) or "lambda"
        made._results = CompleterResults(label, results.schema, results.dump, trusted=results.trusted)
        target.completers[argument] = made
        return function

    return register


def bind_completer(completer: Component, value: str, known: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the arguments of a completion function, or None where it needs one that is not known yet."""
    given: dict[str, Any] = {**known, "arguments": dict(known), "value": value}
    schema = completer.arguments.schema
    if not given.keys() >= set(schema.get("required", ())):
        return None
    return {name: given[name] for name in schema["properties"] if name in given}


def choices_of(target: Completable, argument: str) -> list[str]:
    """Return the values that the hint of an argument names."""
    schema = target.arguments.schema
    found: list[Any] = []
    for form in Resolver(schema).forms(schema["properties"].get(argument, {})):
        found += [form["const"]] if "const" in form else form.get("enum", ())
        found += (True, False) if form.get("type") == "boolean" else ()
    return list(dict.fromkeys(spell(value) for value in found))


def spell(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def rank(values: Iterable[Any], typed: str, *, strict: bool = False) -> Completions:
    """Return values in order: those that begin with what was typed, then those with a word that does, then
    those that contain it. Where none does, all of them, because a function may know better; `strict`: none.
    """
    texts = list(dict.fromkeys(spell(value)[:_MAX_LENGTH] for value in values if value is not None))
    wanted = typed.casefold()
    ranked = [(_rank_of(text.casefold(), wanted), text) for text in texts]
    matching = [item for item in ranked if item[0] < 3] or ([] if strict else ranked)
    matching.sort(key=lambda item: item[0])
    return Completions([text for _, text in matching[:MAX_VALUES]], len(matching))


def _rank_of(text: str, wanted: str) -> int:
    if text.startswith(wanted):
        return 0
    if any(word.startswith(wanted) for word in re.split(r"[\W_]+", text)):
        return 1
    return 2 if wanted in text else 3
