"""Tool objects read from their classes: name, description, schema, and the docstring of `execute`.

Each part may be a class attribute, set by the constructor, or a property.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolcrib.errors import Finding
from toolcrib.sources.scan.lineage import find_member, is_model
from toolcrib.sources.scan.preparing import prepare
from toolcrib.sources.scan.remarks import Unresolved
from toolcrib.sources.scan.things import Class, Function, Instance, Listing, Pairs, Thing, Value
from toolcrib.tool import MARK

if TYPE_CHECKING:
    from toolcrib.sources.scan.making import Workshop

_SPELLINGS = {
    "name": ("name", "Name"),
    "description": ("description", "Description"),
    "input_schema": ("input_schema", "InputSchema", "inputSchema"),
    "execute": ("execute", "ExecuteAsync", "execute_async"),
}
_OUTPUT = ("output_schema", "OutputSchema")
_PARTS = ("name", "description", "input_schema", "execute")
_OTHER_PARTS = ("Name", "Description", "InputSchema", "ExecuteAsync")


def is_tool_class(cls: Class) -> bool:
    """Whether instances of this class are tool objects by what the class itself has."""
    if is_model(cls):
        return False
    return any(all(find_member(cls, part) is not None for part in parts) for parts in (_PARTS, _OTHER_PARTS))


def is_tool_object(workshop: Workshop, instance: Instance) -> bool:
    return all(_find(workshop, instance, spellings) for spellings in _SPELLINGS.values())


def _find(workshop: Workshop, instance: Instance, spellings: tuple[str, ...]) -> str | None:
    prepare(workshop.evaluator, instance)
    return next((name for name in spellings if _has(instance, name)), None)


def _has(instance: Instance, name: str) -> bool:
    return name in instance.attributes or find_member(instance.cls, name) is not None


def build_object(workshop: Workshop, instance: Instance) -> Any:
    """A stand-in with the parts of a tool object; None where not even its name can be told."""
    facts: dict[str, Any] = {}
    findings: list[Finding] = []
    for part, spellings in _SPELLINGS.items():
        name = _find(workshop, instance, spellings)
        thing = workshop.evaluator.of_instance(instance, name) if name else None
        if part == "execute":
            if not isinstance(thing, Function):
                findings.append(_unresolved(instance, "execute"))
                workshop.findings += findings
                return None
            facts["execute"] = workshop.stub(thing)  # DefinitionErrors are the caller's
            continue
        try:
            facts[part] = _value(workshop, thing)
        except (Unresolved, RecursionError):
            findings.append(_unresolved(instance, part))
            if part == "name":
                workshop.findings += findings
                return None
            facts[part] = {"type": "object", "properties": {}} if part == "input_schema" else ""
    output = _find(workshop, instance, _OUTPUT)
    if output:
        try:
            facts["output_schema"] = _value(workshop, workshop.evaluator.of_instance(instance, output))
        except (Unresolved, RecursionError):
            findings.append(_unresolved(instance, "output_schema"))
    if instance.cls.mark is not None:
        facts[MARK] = workshop.mark(instance.cls.mark)
    made = type(instance.cls.node.name, (), {})()
    for key, value in facts.items():
        setattr(type(made) if key == MARK else made, key, value)
    workshop.note(made, (id(instance),), findings, instance.cls.guesses, workshop.notes_of(facts["execute"]))
    return made


def _value(workshop: Workshop, thing: Thing | None) -> Any:
    if not isinstance(thing, Value | Listing | Pairs):
        raise Unresolved("it is no data")
    return workshop.evaluator.data_of(thing)


def _unresolved(instance: Instance, part: str) -> Finding:
    cls = instance.cls
    return Finding(
        "unresolved-part",
        "warning",
        f"The {part} of {cls.node.name} cannot be told without running the code",
        file=str(cls.scope.module.file.path),
        line=cls.line,
        hint="write it down as an attribute of the class",
    )
